// Tests of modules: names, modes, conversion, printing, what a visitor sees, errors that name the layer.
#include <algorithm>
#include <sstream>

#include "tests/autograd/tensors.h"
#include "weft.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_contains;

struct Net : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(4, 3));
  nn::RMSNorm norm = register_module("norm", nn::RMSNorm(3));
  nn::Linear fc2{nullptr};
  Tensor scale, count;

  Net() {
    fc2 = register_module("fc2", nn::Linear(nn::LinearOptions(3, 2).bias(false)));
    scale = register_parameter("scale", ones({2}));
    count = register_buffer("count", zeros({}, kInt64));
  }
  Tensor forward(const Tensor& x) { return fc2(norm(silu(fc1(x)))) * scale; }
};

class BlockImpl : public nn::Module {
 public:
  explicit BlockImpl(int64_t width) : fc(register_module("fc", nn::Linear(width, width))) {}
  Tensor forward(const Tensor& x, const Tensor& y, int64_t times) {
    Tensor sum = x;
    for (int64_t i = 0; i < times; ++i) sum = sum + fc(y);
    return sum;
  }
  nn::Linear fc;
};
WEFT_MODULE(Block);

TEST(Module, NamesFollowTheOrderOfRegistration) {
  auto net = std::make_shared<Net>();
  EXPECT_EQ(net->named_parameters().keys(),
            (std::vector<std::string>{"scale", "fc1.weight", "fc1.bias", "norm.weight", "fc2.weight"}));
  EXPECT_EQ(net->named_parameters(false).keys(), std::vector<std::string>{"scale"});
  EXPECT_EQ(net->named_buffers().keys(), std::vector<std::string>{"count"});
  EXPECT_EQ(net->named_children().keys(), (std::vector<std::string>{"fc1", "norm", "fc2"}));
  EXPECT_EQ(net->named_modules("net").keys(),
            (std::vector<std::string>{"net", "net.fc1", "net.norm", "net.fc2"}));
  EXPECT_EQ(net->named_state().size(), 6u);
  EXPECT_TRUE(net->get_parameter("fc1.weight").is_same(net->fc1->weight));
  EXPECT_TRUE(net->get_submodule("fc2").get() == net->fc2.get());
  for (const auto& [name, tensor] : net->named_parameters()) EXPECT_TRUE(tensor.requires_grad()) << name;
}

struct Tied : nn::Module {
  nn::Linear a = register_module("a", nn::Linear(2, 2)), b = register_module("b", nn::Linear(2, 2));
  Tied() { b->weight = b->register_parameter("weight", a->weight); }
};
TEST(Module, SharedParametersAreListedOnceAndSavedTwice) {
  auto net = std::make_shared<Tied>();
  EXPECT_EQ(net->parameters().size(), 3u);
  EXPECT_EQ(net->named_state().size(), 4u);
}

TEST(Module, RegistrationErrorsNameTheModule) {
  auto net = std::make_shared<Net>();
  expect_contains(error_of([&] { net->register_parameter("a.b", ones({1})); }),
                  "Net: the parameter name 'a.b' holds a dot");
  expect_contains(error_of([&] { net->register_module("fc1", nn::Linear(1, 1)); }), "'fc1' is taken");
  expect_contains(error_of([&] { net->register_buffer("", ones({1})); }), "needs a name");
  expect_contains(error_of([&] { net->register_parameter("n", zeros({1}, kInt64)); }),
                  "cannot have a gradient");
  expect_contains(error_of([&] { net->get_submodule("fc1.inner"); }), "Linear has no parts");
  expect_contains(error_of([&] { net->get_parameter("fc1.wieght"); }), "no parameter 'fc1.wieght'");
}

TEST(Module, EmptyHandleSaysSo) {
  nn::Linear empty{nullptr};
  EXPECT_TRUE(empty.is_empty());
  expect_contains(error_of([&] { empty(ones({1, 1})); }), "Linear: this module handle is empty");
}

TEST(Module, TrainAndEvalReachEveryPartAndMoveTheEpoch) {
  auto net = std::make_shared<Net>();
  EXPECT_TRUE(net->is_training());
  const uint64_t before = state_epoch();
  net->eval();
  EXPECT_GT(state_epoch(), before);
  for (const auto& module : net->modules()) EXPECT_FALSE(module->is_training());
  net->train();
  EXPECT_TRUE(net->fc1->is_training());
}

TEST(Module, ReplacedParameterAndChangedOptionMoveTheEpoch) {
  nn::Dropout dropout(0.25);
  uint64_t before = state_epoch();
  dropout->options.p(0.5);
  EXPECT_GT(state_epoch(), before);
  nn::Linear layer(2, 2);
  before = state_epoch();
  layer->weight = layer->register_parameter("weight", zeros({2, 2}));
  EXPECT_GT(state_epoch(), before);
  before = state_epoch();
  layer->bias->is_captured = true;  // as a trace notes it
  layer->bias.requires_grad_(false);
  EXPECT_GT(state_epoch(), before);
  before = state_epoch();
  nn::functional::CrossEntropyFuncOptions().label_smoothing(0.1).reduction(kSum);
  EXPECT_EQ(state_epoch(), before) << "options of one call are no state";
}

TEST(Module, ConversionKeepsTheTensorsAndTheirGradients) {
  auto net = std::make_shared<Net>();
  const Tensor weight = net->fc1->weight;
  net->forward(ones({2, 4})).sum().backward();
  net->to(kFloat64);
  EXPECT_EQ(weight.dtype(), kFloat64);
  EXPECT_TRUE(weight.is_same(net->fc1->weight));
  EXPECT_EQ(weight.grad().dtype(), kFloat64);
  EXPECT_EQ(net->count.dtype(), kInt64);
  const Tensor y = net->forward(ones({2, 4}, kFloat64));
  EXPECT_EQ(y.dtype(), kFloat64);
  y.sum().backward();
  EXPECT_EQ(weight.grad().dtype(), kFloat64);
  expect_contains(error_of([&] { net->to(kInt64); }), "a floating dtype is needed");
}

TEST(Module, ZeroGradClearsOrZeroes) {
  auto net = std::make_shared<Net>();
  net->forward(ones({2, 4})).sum().backward();
  EXPECT_TRUE(net->fc1->weight.grad().defined());
  net->zero_grad(false);
  EXPECT_EQ(net->fc1->weight.grad().abs().sum().item<double>(), 0);
  net->zero_grad();
  EXPECT_FALSE(net->fc1->weight.grad().defined());
}

TEST(Module, PrintsItsTree) {
  std::ostringstream out;
  out << Net();
  EXPECT_EQ(out.str(),
            "Net(\n"
            "  (fc1): Linear(in_features=4, out_features=3, bias=true)\n"
            "  (norm): RMSNorm(3, eps=none, elementwise_affine=true)\n"
            "  (fc2): Linear(in_features=3, out_features=2, bias=false)\n"
            ")");
}

TEST(Module, ErrorNamesLayerSizesAndLine) {
  auto net = std::make_shared<Net>();
  const std::string text = error_of([&] { net->forward(ones({2, 5})); });
  expect_contains(
      text,
      "Linear: x [2, 5] has 5 in its last dimension, but the layer takes 4 input features (weight [3, 4])");
  expect_contains(text, "in fc1: Linear(in_features=4, out_features=3, bias=true)");
  expect_contains(text, "module_test.cpp:");
}

TEST(Module, UserModulesTakeAnyArguments) {
  Block block(3);
  EXPECT_EQ(block->parameters().size(), 2u);
  EXPECT_EQ(block->name(), "Block");
  const Tensor y = block(zeros({1, 3}), ones({1, 3}), 2);
  EXPECT_TRUE(allclose(y, block->fc(ones({1, 3})) * 2));
}

TEST(Module, AppliesAFunctionToEveryPart) {
  auto net = std::make_shared<Net>();
  int linears = 0;
  net->apply([&](nn::Module& module) { linears += module.as<nn::Linear>() != nullptr; });
  EXPECT_EQ(linears, 2);
}

struct Recorder : StateVisitor {
  void tensor(const std::string& name, Tensor&, StateRole role) override {
    (role == StateRole::Buffer ? buffers : tensors).push_back(name);
  }
  void cell(const std::string& name, Cell&) override { cells.push_back(name); }
  void fact(const std::string& name, double value) override { facts.emplace_back(name, value); }
  bool has(const std::string& name, double value) const {
    return std::find(facts.begin(), facts.end(), std::pair(name, value)) != facts.end();
  }
  std::vector<std::string> tensors, buffers, cells;
  std::vector<std::pair<std::string, double>> facts;
};

TEST(StateVisitor, SeesTensorsModesAndOptionsOfAModule) {
  static_assert(VisitsState<nn::Module> && VisitsState<optim::Optimizer>);
  nn::Sequential net(nn::Linear(2, 2), nn::Dropout(0.25));
  Recorder recorder;
  net->visit_state(recorder);
  EXPECT_EQ(recorder.tensors, (std::vector<std::string>{"0.weight", "0.bias"}));
  EXPECT_TRUE(recorder.has("1.p", 0.25));
  EXPECT_TRUE(recorder.has("1.training", 1));
}

TEST(StateVisitor, SeesMomentsStepsAndRatesOfAnOptimizer) {
  nn::Linear layer(2, 2);
  optim::AdamW opt(layer->parameters(), optim::AdamWOptions(0.1).weight_decay(0.5));
  Recorder recorder;
  opt.visit_state(recorder);
  EXPECT_EQ(recorder.tensors, (std::vector<std::string>{"state.0.exp_avg", "state.0.exp_avg_sq",
                                                        "state.1.exp_avg", "state.1.exp_avg_sq"}));
  EXPECT_EQ(recorder.cells, (std::vector<std::string>{"group.0.lr", "group.0.beta1", "group.0.beta2",
                                                      "state.0.step", "state.1.step"}));
  EXPECT_TRUE(recorder.has("group.0.weight_decay", 0.5));
}

TEST(Sequential, CallsItsLayersInOrder) {
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Functional([](const Tensor& x) { return x * 2; }));
  const Tensor x = randn({3, 4});
  EXPECT_TRUE(allclose(net(x), relu(net->at<nn::Linear>(0).forward(x)) * 2));
  EXPECT_EQ(net->named_parameters().keys(), (std::vector<std::string>{"0.weight", "0.bias"}));
  EXPECT_EQ(net->size(), 3u);
  net->push_back("last", nn::Linear(8, 1));
  EXPECT_EQ(net(x).size(1), 1);
  expect_contains(error_of([&] { net->ptr(9); }), "no layer 9");
  nn::Sequential named({{"in", nn::Linear(4, 2)}, {"act", nn::Tanh()}});
  EXPECT_EQ(named->named_parameters().keys(), (std::vector<std::string>{"in.weight", "in.bias"}));
  const std::string text = error_of([&] { named(ones({1, 3})); });
  expect_contains(text, "in in: Linear(");
  expect_contains(text, "in Sequential");
}

TEST(ModuleList, HoldsItsModulesByNumber) {
  nn::ModuleList list(nn::Linear(2, 3), nn::Linear(3, 4));
  list->push_back(nn::Linear(4, 5));
  EXPECT_EQ(list->size(), 3u);
  Tensor x = ones({1, 2});
  for (const auto& module : *list) x = module->as<nn::Linear>()->forward(x);
  EXPECT_EQ(x.size(1), 5);
  EXPECT_EQ(list->named_parameters().keys()[2], "1.weight");
}

}  // namespace
}  // namespace weft
