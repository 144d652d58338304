// Tests of save() and load(): what a state holds, that loading is all or nothing, the text of a mismatch.
#include "nn/io/checkpoint.h"

#include "autograd/grad_mode.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/optim/adam.h"
#include "tests/io/files.h"

namespace weft {
namespace {

// The least that takes part: two tensors and a number.
struct Owner {
  Tensor a = counting_tensor({2, 3}, kFloat32), b = counting_tensor({3}, kInt64);
  Cell rate = 0.5;
  void visit_state(StateVisitor& visitor) {
    visitor.tensor("part.a", a, StateRole::Parameter);
    visitor.tensor("part.b", b, StateRole::Buffer);
    visitor.cell("rate", rate);
    visitor.fact("training", 1);
  }
};

struct Net : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(4, 3));
  nn::RMSNorm norm = register_module("norm", nn::RMSNorm(3));
  nn::Linear fc2 = register_module("fc2", nn::Linear(3, 2));
};

TEST(Checkpoint, AStateComesBackInTheSameTensors) {
  const TemporaryFolder folder;
  Owner from, to;
  from.a = counting_tensor({2, 3}, kFloat32, 100);
  from.rate = 0.25;
  save(from, folder / "s", {{"epoch", "3"}});
  EXPECT_EQ(io::load_safetensors(folder / "s").metadata.at("epoch"), "3");
  const Tensor held = to.a;
  const io::LoadReport report = load(to, folder / "s");
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  EXPECT_TRUE(held.is_same(to.a));
  EXPECT_EQ(raw_bytes(held), raw_bytes(from.a));
  EXPECT_EQ(to.rate.value(), 0.25);
}

TEST(Checkpoint, AMismatchListsEverythingAndChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder / "s";
  io::save_safetensors(path, {{"part.a", counting_tensor({3, 2}, kFloat32)},
                              {"part.z", counting_tensor({1}, kFloat32)},
                              {"rate", counting_tensor({2}, kFloat64)},
                              {"extra", counting_tensor({1}, kFloat32)}});
  Owner owner;
  const std::string a = raw_bytes(owner.a), b = raw_bytes(owner.b);
  EXPECT_EQ(
      error_of([&] { load(owner, path); }),
      "load: '" + path +
          "' does not fit; nothing was changed\n"
          "  missing there: part.b\n"
          "  unexpected there: part.z, extra\n"
          "  other shapes: part.a is [2, 3] here and [3, 2] there, rate is a number here and [2] there");
  EXPECT_EQ(error_of([&] { io::load_state_dict(owner, io::load_safetensors(path).tensors); }).substr(0, 65),
            "load_state_dict: the state does not fit; nothing was changed\n  mi");
  // What is not strict forgives names, not shapes.
  EXPECT_EQ(
      error_of([&] { load(owner, path, /*strict=*/false); }),
      "load: '" + path +
          "' does not fit; nothing was changed\n"
          "  other shapes: part.a is [2, 3] here and [3, 2] there, rate is a number here and [2] there");
  EXPECT_EQ(raw_bytes(owner.a), a);
  EXPECT_EQ(raw_bytes(owner.b), b);
  EXPECT_EQ(owner.rate.value(), 0.5);
}

TEST(Checkpoint, ADamagedTensorLeavesTheStateAsItWas) {
  const TemporaryFolder folder;
  struct Flags {
    Tensor a = counting_tensor({4}, kFloat32), flag = counting_tensor({2}, kBool);
    void visit_state(StateVisitor& visitor) {
      visitor.tensor("a", a, StateRole::Parameter);
      visitor.tensor("flag", flag, StateRole::Buffer);
    }
  } from, to;
  from.a = counting_tensor({4}, kFloat32, 50);
  save(from, folder / "s");
  std::string bytes = read_file(folder / "s");
  bytes.back() = 7;  // a bool that is none
  write_file(folder / "s", bytes);
  const std::string before = raw_bytes(to.a);
  EXPECT_EQ(error_of([&] { load(to, folder / "s"); }),
            "load_safetensors: '" + (folder / "s") +
                "': tensor 'flag' is bool, but byte 1 of it is neither 0 nor 1");
  EXPECT_EQ(raw_bytes(to.a), before);
}

TEST(Checkpoint, NotStrictReportsTheNamesThatDidNotMeet) {
  const TemporaryFolder folder;
  io::save_safetensors(
      folder / "s", {{"part.a", counting_tensor({2, 3}, kFloat32, 9)}, {"z", counting_tensor({1}, kInt8)}});
  Owner owner;
  const io::LoadReport report = load(owner, folder / "s", /*strict=*/false);
  EXPECT_EQ(report.missing, (std::vector<std::string>{"part.b", "rate"}));
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"z"}));
  EXPECT_EQ(raw_bytes(owner.a), raw_bytes(counting_tensor({2, 3}, kFloat32, 9)));
}

TEST(Checkpoint, LoadingKeepsTheDTypeOfTheOwner) {
  const TemporaryFolder folder;
  io::save_safetensors(folder / "s", {{"part.a", counting_tensor({2, 3}, kInt8)},
                                      {"part.b", counting_tensor({3}, kInt64, 4)},
                                      {"rate", counting_tensor({}, kUInt8, 9)}});
  Owner owner;
  load(owner, folder / "s");
  EXPECT_EQ(owner.a.dtype(), kFloat32);
  EXPECT_EQ(data_of<float>(owner.a)[1], 8.0f);
  EXPECT_EQ(owner.rate.value(), 9.0);
}

TEST(Checkpoint, AModuleIsStoredUnderTheNamesOfItsParts) {
  const TemporaryFolder folder;
  manual_seed(1);
  auto net = std::make_shared<Net>();
  save(net, folder / "net");
  const io::Safetensors file = io::load_safetensors(folder / "net");
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"fc1.weight", "fc1.bias", "norm.weight", "fc2.weight", "fc2.bias"}));
  manual_seed(2);
  auto other = std::make_shared<Net>();
  EXPECT_NE(raw_bytes(other->fc1->weight), raw_bytes(net->fc1->weight));
  const uint32_t version = other->fc1->weight.version();
  load(other, folder / "net");
  EXPECT_EQ(raw_bytes(other->fc1->weight), raw_bytes(net->fc1->weight));
  EXPECT_TRUE(other->fc1->weight.requires_grad() && other->fc1->weight.is_leaf());
  EXPECT_GT(other->fc1->weight.version(), version) << "a backward that saved the old values must notice";
  // A handle of a layer, and a module itself.
  save(net->fc2, folder / "fc2");
  load(*other->fc2, folder / "fc2");
  EXPECT_EQ(error_of([&] { load(other, folder / "fc2"); }),
            "load: '" + (folder / "fc2") +
                "' does not fit; nothing was changed\n"
                "  missing there: fc1.weight, fc1.bias, norm.weight, fc2.weight, fc2.bias\n"
                "  unexpected there: weight, bias");
}

TEST(Checkpoint, AnOptimizerThatIsLoadedStepsLikeTheOneThatWasSaved) {
  const TemporaryFolder folder;
  const auto make = [] {
    Tensor p = make_tensor({Sym::from_int(3)}, kFloat32);
    for (int i = 0; i < 3; ++i) data_of<float>(p)[i] = static_cast<float>(i + 1);
    return p.requires_grad_();
  };
  const auto step = [](optim::AdamW& optimizer, Tensor& p) {
    optimizer.zero_grad();
    p.mul(p).sum().backward();
    optimizer.step();
  };
  Tensor p = make(), q = make();
  optim::AdamW first({p}, optim::AdamWOptions(0.1)), second({q}, optim::AdamWOptions(0.7));
  for (int i = 0; i < 3; ++i) step(first, p);
  save(first, folder / "optimizer");
  save(p, folder / "p");
  load(second, folder / "optimizer");
  Tensor stored;
  load(stored, folder / "p");
  {
    const NoGradGuard no_grad;
    q.copy_(stored);
  }
  step(first, p);
  step(second, q);
  EXPECT_EQ(raw_bytes(p), raw_bytes(q));
}

TEST(Checkpoint, ListsOfTensorsComeBackInOrder) {
  const TemporaryFolder folder;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 12; ++i) tensors.push_back(counting_tensor({i}, i % 2 ? kInt8 : kFloat64, i));
  save(tensors, folder / "t");
  std::vector<Tensor> loaded;
  load(loaded, folder / "t");
  ASSERT_EQ(loaded.size(), 12u);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(raw_bytes(loaded[i]), raw_bytes(tensors[i])) << i;
  Tensor one;
  EXPECT_EQ(error_of([&] { load(one, folder / "t"); }),
            "load: '" + (folder / "t") +
                "' holds 12 tensors, and one is asked for; io::load_safetensors gives all with their names");
}

}  // namespace
}  // namespace weft
