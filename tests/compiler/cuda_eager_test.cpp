// Eager programs on a GPU: copies between devices, views and writes, gradients, modules, and what mixing devices says.
// On a machine without one the GPU is host memory and every op takes the way over the host.
#include <gtest/gtest.h>
#include <weft.h>

#include <sstream>

#include "tests/support/compare.h"
#include "tests/support/gpu.h"

namespace weft {
namespace {

using indexing::Slice;
using tests::difference;
using tests::difference_of_bits;
using tests::Tolerance;

class CudaEager : public testing::Test {
 protected:
  tests::Gpu gpu;
  void SetUp() override { manual_seed(3); }
};

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(CudaEager, ValuesComeBackAsTheyWent) {
  for (const DType dtype :
       {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    const Tensor x = (randn({3, 5}) * 4).to(dtype);
    const Tensor there = x.to(kCUDA);
    EXPECT_EQ(there.device(), Device(kCUDA));
    EXPECT_TRUE(there.is_cuda());
    EXPECT_EQ(difference_of_bits(there.cpu(), x), "") << dtype;
  }
  EXPECT_EQ(zeros({0, 3}, kCUDA).cpu().size(1), 3);
}

TEST_F(CudaEager, ViewsKeepTheirLayout) {
  const Tensor x = randn({4, 6});
  const Tensor y = x.to(kCUDA);
  EXPECT_EQ(difference_of_bits(y.t().cpu(), x.t()), "");
  EXPECT_EQ(y.t().cpu().stride(0), 1) << "a dense layout goes over as it is";
  EXPECT_EQ(difference_of_bits(y.index({Slice(1, 4), Slice(0, 6, 2)}).cpu(),
                               x.index({Slice(1, 4), Slice(0, 6, 2)})),
            "");
  EXPECT_EQ(difference_of_bits(x.index({Slice(1, 4), Slice(0, 6, 2)}).to(kCUDA).cpu(),
                               x.index({Slice(1, 4), Slice(0, 6, 2)})),
            "");
  EXPECT_EQ(difference_of_bits(y.expand({2, 4, 6}).cpu(), x.expand({2, 4, 6})), "");
}

TEST_F(CudaEager, CopyConvertsOnTheWay) {
  const Tensor x = randn({3, 4});
  Tensor there = zeros({3, 4}, TensorOptions(kFloat64).device(kCUDA));
  there.copy_(x);
  EXPECT_EQ(difference_of_bits(there.cpu(), x.to(kFloat64)), "");
  Tensor back = zeros({4, 3}, kBFloat16).t();
  back.copy_(there);
  EXPECT_EQ(difference_of_bits(back, x.to(kBFloat16)), "");
  there.index({Slice(), 1}).copy_(ones({3}));
  EXPECT_EQ(there.index({2, 1}).item<double>(), 1);
  EXPECT_EQ(there.index({2, 2}).item<double>(), static_cast<double>(x.index({2, 2}).item<float>()));
}

TEST_F(CudaEager, NumbersAreRead) {
  EXPECT_EQ(tensor(3.5, kCUDA).item<double>(), 3.5);
  EXPECT_EQ(tensor({1, 2, 3}, kCUDA).index({1}).item<int64_t>(), 2);
  EXPECT_EQ(tensor(std::vector<float>{1, 2}, kCUDA).to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_TRUE((tensor(2, kCUDA) > 1).item<bool>());
  std::ostringstream out;
  out << tensor({1.0, 2.5}, kCUDA);
  EXPECT_EQ(out.str(), "tensor([1.0000, 2.5000], device=cuda:0)");
}

TEST_F(CudaEager, OpsGiveWhatTheCpuGives) {
  const Tensor x = randn({5, 7}), y = randn({7}), i = randint(0, 5, {4});
  const auto program = [](const Tensor& a, const Tensor& b, const Tensor& index) {
    std::vector<Tensor> results;
    results.push_back(silu(a * b + 2.5));
    results.push_back(a.sum({1}));
    results.push_back(a.sum({0}));
    results.push_back(softmax(a, 1));
    results.push_back(a.index_select(0, index));
    results.push_back(cat({a, a.t().reshape({5, 7})}, 1));
    results.push_back(where(a > 0, a, b));
    results.push_back(std::get<0>(a.sort(1)));
    results.push_back(a.cumsum(1));
    results.push_back(nonzero(a > 0.5));
    results.push_back(arange(0, 6, TensorOptions(kFloat32).device(a.device())));
    results.push_back(a.to(kBFloat16) * 3);
    return results;
  };
  const std::vector<Tensor> want = program(x, y, i), got = program(x.to(kCUDA), y.to(kCUDA), i.to(kCUDA));
  for (size_t k = 0; k < want.size(); ++k) {
    EXPECT_TRUE(got[k].is_cuda()) << k;
    EXPECT_EQ(difference(got[k].cpu(), want[k], Tolerance{1e-5, 1e-5}), "") << k;
  }
}

TEST_F(CudaEager, ProductsOfStridedMatrices) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const Tolerance tolerance = dtype == kBFloat16 ? Tolerance{2e-2, 2e-2} : Tolerance{1e-5, 1e-5};
    const Tensor a = randn({6, 8}).to(dtype), b = randn({8, 10}).to(dtype), c = randn({10}).to(dtype);
    const Tensor batch = randn({3, 6, 8}).to(dtype), other = randn({3, 8, 10}).to(dtype);
    const auto program = [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& batch,
                            const Tensor& other) {
      return std::vector<Tensor>{a.mm(b),
                                 a.t().contiguous().t().mm(b.t().contiguous().t()),
                                 a.index({Slice(), Slice(0, 8, 2)}).mm(b.index({Slice(0, 4)})),
                                 addmm(c, a, b),
                                 addmm(c, a, b, 0.5, 2),
                                 addmm(a.mm(b), a, b, 1, -1),
                                 bmm(batch, other),
                                 bmm(batch, other.transpose(1, 2).contiguous().transpose(1, 2)),
                                 matmul(batch, b),
                                 mv(b, c),
                                 dot(c, c),
                                 a.index({Slice(0, 0)}).mm(b),
                                 a.index({Slice(), Slice(0, 0)}).mm(b.index({Slice(0, 0)}))};
    };
    const auto there = [](const Tensor& x) { return x.to(kCUDA); };
    const std::vector<Tensor> want = program(a, b, c, batch, other);
    const std::vector<Tensor> got = program(there(a), there(b), there(c), there(batch), there(other));
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_EQ(difference(got[k].cpu(), want[k], tolerance), "") << dtype << " " << k;
  }
  const Tensor i = arange(6).reshape({2, 3});
  EXPECT_EQ(difference_of_bits(i.to(kCUDA).mm(i.t().to(kCUDA)).cpu(), i.mm(i.t())), "");
}

TEST_F(CudaEager, WritesGoThroughViews) {
  const Tensor x = randn({4, 5});
  const auto program = [](Tensor a) {
    a.add_(1);
    a.index({Slice(1, 3)}).mul_(2);
    a.t().index({0}).fill_(7);
    a.select(1, 2).copy_(a.select(1, 3));
    a.index({Slice(0, 2), Slice(0, 3)}).add_(a.index({Slice(1, 3), Slice(1, 4)}));
    a.index_put_({tensor({0, 3}, a.device())}, tensor(5.0, a.device()));
    a.masked_fill_(a > 8, 0.25);
    a.zero_().add_(1.5);
    return a;
  };
  EXPECT_EQ(difference_of_bits(program(x.to(kCUDA)).cpu(), program(x.clone())), "");
  Tensor whole = zeros({2, 2}, TensorOptions(kInt64).device(kCUDA));
  EXPECT_NE(message_of([&] {
              whole.add_(0.5);
            }).find("add_: the result is float32, which does not fit into the int64 tensor it is written to"),
            std::string::npos);
}

TEST_F(CudaEager, DevicesDoNotMixButForNumbers) {
  const Tensor a = ones({2, 3}, kCUDA), b = ones({2, 3});
  EXPECT_EQ(
      message_of([&] { static_cast<void>(add(a, b, 1, SourceLocation())); }),
      "add: operands are on cuda:0 ([2, 3] float32) and on cpu ([2, 3] float32); move one of them with to()");
  EXPECT_EQ(
      message_of([&] { static_cast<void>(mm(b, a.t(), SourceLocation())); }),
      "mm: operands are on cuda:0 ([3, 2] float32) and on cpu ([2, 3] float32); move one of them with to()");
  EXPECT_EQ(message_of([&] {
              Tensor number = tensor(1.0);
              call_mutation(WEFT_OP("add_"), {number, a.sum()}, {}, SourceLocation());
            }),
            "add_: the tensor that is written to is on the CPU and another operand on a GPU; move one of "
            "them with to()");
  const Tensor sum = a + tensor(2.0);
  EXPECT_TRUE(sum.is_cuda());
  EXPECT_EQ(sum.index({0, 0}).item<double>(), 3);
  EXPECT_EQ((a * tensor(2, kInt64)).dtype(), kFloat32);
}

TEST_F(CudaEager, GradientsCrossDevices) {
  Tensor x = randn({3, 4}).requires_grad_();
  const Tensor w = randn({4, 2});
  const auto loss_of = [&](const Tensor& input, const Tensor& weight) {
    return (silu(input.mm(weight)) * 2).sum();
  };
  loss_of(x, w).backward();
  const Tensor want = x.grad().clone();
  x.mutable_grad().reset();
  loss_of(x.to(kCUDA), w.to(kCUDA)).backward();
  EXPECT_EQ(x.grad().device(), Device(kCPU));
  EXPECT_EQ(difference(x.grad(), want, Tolerance{1e-5, 1e-5}), "");
}

struct Net : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(6, 8));
  nn::RMSNorm norm = register_module("norm", nn::RMSNorm(nn::RMSNormOptions({8})));
  nn::Linear fc2 = register_module("fc2", nn::Linear(8, 3));
  Tensor forward(const Tensor& x) { return fc2(norm(relu(fc1(x)))); }
};

TEST_F(CudaEager, AModelTrainsAsOnTheCpu) {
  const auto train = [](Device device) {
    manual_seed(11);
    const auto net = std::make_shared<Net>();
    const Tensor x = randn({16, 6}).to(device), y = randint(0, 3, {16}).to(device);
    net->to(device);
    optim::AdamW optimizer(net->parameters(), optim::AdamWOptions(1e-2));
    std::vector<double> losses;
    for (int step = 0; step < 6; ++step) {
      Tensor loss = nn::functional::cross_entropy(net->forward(x), y);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      losses.push_back(loss.item<double>());
    }
    EXPECT_EQ(net->parameters()[0].device(), device);
    return losses;
  };
  const std::vector<double> want = train(kCPU), got = train(kCUDA);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
  EXPECT_LT(got.back(), got.front());
}

TEST_F(CudaEager, RandomNumbersAreThoseOfTheCpu) {
  const auto draw = [](Device device) {
    manual_seed(5);
    const TensorOptions options = TensorOptions(kFloat32).device(device);
    Tensor filled = empty({9}, options);
    filled.uniform_(-1, 1);
    return std::vector<Tensor>{rand({4, 5}, options), randn({7}, options),
                               randint(0, 100, {6}, TensorOptions(kInt64).device(device)), filled,
                               dropout(ones({30}, options), 0.4, true)};
  };
  const std::vector<Tensor> want = draw(kCPU), got = draw(kCUDA);
  for (size_t k = 0; k < want.size(); ++k)
    EXPECT_EQ(difference(got[k].cpu(), want[k], Tolerance{1e-6, 1e-6}), "") << k;
}

TEST_F(CudaEager, StateIsStoredFromAnyDevice) {
  const std::string path = testing::TempDir() + "/cuda_state.safetensors";
  const auto net = std::make_shared<Net>();
  net->to(kCUDA);
  const Tensor before = net->parameters()[0].detach().cpu();
  io::save_safetensors(path, {{"w", net->parameters()[0].detach()}});
  EXPECT_EQ(difference_of_bits(io::load_safetensors(path).at("w"), before), "");
}

TEST_F(CudaEager, MemoryIsReused) {
  const Tensor x = randn({1000, 100}).to(kCUDA);
  Tensor y = x * 2;
  const int64_t reserved = cuda::memory_reserved();
  for (int i = 0; i < 100; ++i) y = x * 2;
  EXPECT_EQ(cuda::memory_reserved(), reserved);
  cuda::synchronize();
}

}  // namespace
}  // namespace weft
