// In-place ops inside compiled functions: through chains of views, into captured tensors, in all dtypes and layouts.

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;
using indexing::Slice;

TEST(InPlace, ThroughChainsOfViews) {
  const auto f = [](Tensor x) {
    x.view({3, 4}).t().select(0, 1).slice(0, 0, 3, 2).add_(100);
    x.view({2, 2, 3}).permute({2, 0, 1}).narrow(0, 1, 2).diagonal(0, 1, 2).mul_(-1);
    x.unsqueeze(0).transpose(0, 1).squeeze(1).as_strided({3}, {4}, 1).fill_(0.5);
    x.view({3, 4}).unfold(1, 2, 2).select(2, 1).sub_(3);
    x.split(5)[1].unflatten(0, {5, 1}).movedim(0, 1).exp_();
    x.chunk(3)[2].flatten().slice(0, 1).copy_(tensor({7., 8., 9.}));
    return x.sum();
  };
  hold_in_all_modes(f, [&](const auto& call) {
    const Tensor x = counting({12}) / 4;
    const Tensor sum = call(x);
    const Tensor storage = counting({20}) / 4, part = storage.slice(0, 3, 15);
    const Tensor of_part = call(part);
    return Results{x, sum, storage, of_part};
  });
  // The same on a tensor that the function made.
  hold_in_all_modes(
      [&](Tensor x) {
        const Tensor y = x / 4;
        const Tensor sum = f(y);
        return std::make_tuple(y, sum);
      },
      [](const auto& call) {
        const auto [y, sum] = call(counting({12}));
        return Results{y, sum};
      });
}

TEST(InPlace, IntoTransposedAndGappedInputs) {
  const auto f = [](Tensor x, Tensor y) {
    x.add_(y);
    x[0].mul_(2);
    x.select(1, 1).copy_(y.select(1, 0));
    x.relu_();
    return x.matmul(y.t());
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    const auto run = [&](const Tensor& storage, const Tensor& x) {
      results.push_back(call(x, numbers({3, 4}, 5)));
      results.insert(results.end(), {storage, x});
    };
    Tensor storage = numbers({4, 3});
    run(storage, storage.t());
    storage = numbers({6, 8});
    run(storage, storage.slice(0, 0, 6, 2).slice(1, 1, 8, 2));
    storage = numbers({3, 4});
    run(storage, storage);
    storage = numbers({2, 4, 3});
    run(storage, storage[1].t());
    return results;
  });
}

TEST(InPlace, EveryKindOfOp) {
  const auto f = [](Tensor x, Tensor i, Tensor rows) {
    x.abs_().sqrt_().neg_().sigmoid_().clamp_(0.1, 0.9);
    x.pow_(2).atan2_(x + 1).remainder_(0.7).fmod_(0.3);
    x.lerp_(rows, 0.25).addcmul_(rows, rows, 0.5).addcdiv_(rows, rows.abs() + 1, 2);
    x.masked_fill_(x > 0.8, -1).leaky_relu_(0.1).tril_(1);
    x.scatter_(0, i.view({1, -1}), 3.5)
        .index_fill_(1, tensor({2}), 0.25)
        .index_copy_(0, i.slice(0, 0, 1), rows[1].view({1, -1}));
    x.index_add_(0, i, rows, 2).scatter_reduce_(0, i.view({1, -1}), rows, "amax");
    x.floor_divide_(0.01).div_(3, "trunc").copy_(x.t().contiguous().t() + 1);
    x.index_put_({Slice(1), tensor({0, 2})}, 9);
    x += rows;
    x -= 1;
    x *= x;
    x /= 4;
    return x * 1;
  };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor x = numbers({3, 3});
    const Tensor y = call(x, tensor({2, 0, 1}), numbers({3, 3}, 3));
    return Results{x, y};
  });
}

TEST(InPlace, InEveryDtype) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8}) {
    SCOPED_TRACE(name_of(dtype));
    hold_in_all_modes(
        [](Tensor x, Tensor y) {
          x.mul_(3).add_(y).sub_(1);
          x.slice(0, 1, 4).fill_(2);
          x.copy_(x.flip(0) + y.to(kFloat32));  // converts on the way back
          y.clamp_(1, 5);
          return x + y;
        },
        [&](const auto& call) {
          const Tensor x = counting({6}, dtype), y = counting({6}, dtype);
          const Tensor z = call(x, y);
          EXPECT_EQ(x.dtype(), dtype);
          return Results{x, y, z};
        });
  }
  hold_in_all_modes(
      [](Tensor mask, Tensor x) {
        mask.logical_not_();
        mask.bitwise_or_(x > 2);
        x.copy_(mask);
      },
      [](const auto& call) {
        const Tensor mask = counting({4}) > 1, x = counting({4});
        call(mask, x);
        EXPECT_EQ(list(x), (List{1, 1, 0, 1}));
        return Results{mask, x};
      });
}

TEST(InPlace, OnSizesZeroAndOne) {
  hold_in_all_modes(
      [](Tensor x) {
        x.add_(1);
        x.slice(0, 0, 1).mul_(3);
        x.t().slice(1, 1).neg_();
        return x.sum();
      },
      [](const auto& call) {
        Results results;
        for (const SymList& sizes :
             {SymList{0, 2}, SymList{1, 2}, SymList{2, 0}, SymList{1, 1}, SymList{3, 1}, SymList{5, 2}}) {
          const Tensor x = counting(sizes);
          results.push_back(call(x));
          results.push_back(x);
        }
        return results;
      });
  hold_in_all_modes([](Tensor x) { x.add_(1).mul_(2); },
                    [](const auto& call) {
                      const Tensor x = tensor(3.f);
                      call(x);
                      EXPECT_EQ(x.item<float>(), 8);
                      return Results{x};
                    });
}

TEST(InPlace, OnTensorsThatReadThemselves) {
  hold_in_all_modes(
      [](Tensor x) {
        x.add_(x);
        x.mul_(x.t());
        x.sub_(x[0]);
        x.div_(x.amax(DimList{1}, true) + 5);
        x.copy_(x.flip({0, 1}));
        x[1].add_(x[0]).add_(x.select(1, 0));
        return x.t().matmul(x);
      },
      [](const auto& call) {
        const Tensor x = numbers({3, 3});
        const Tensor y = call(x);
        return Results{x, y};
      });
}

TEST(InPlace, IsSeenByViewsMadeBeforeIt) {
  hold_in_all_modes(
      [](Tensor x) {
        Tensor y = x * 1;
        const Tensor view = y.t(), row = y[1], product = row * 10;
        y.add_(100);
        Tensor other = view.slice(0, 0, 1);
        other.zero_();
        return std::make_tuple(view + 0, row + 0, product, y);
      },
      [](const auto& call) {
        const auto [view, row, product, y] = call(counting({2, 2}));
        EXPECT_EQ(list(view), (List{0, 0, 101, 103}));
        EXPECT_EQ(list(row), (List{0, 103}));
        EXPECT_EQ(list(product), (List{20, 30}));
        return Results{view, row, product, y};
      });
}

TEST(InPlace, IntoExpandedTensorsIsAnErrorInAllModes) {
  const auto f = [](Tensor x) { x.add_(1); };
  const std::string want = error_of([&] { f(ones({3, 1}).expand({3, 4})); });
  expect_contains(want, "add_");
  for (const Way& way : compiled_ways()) {
    const auto compiled = compile(f, way.options);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(error_of([&] { compiled(ones({3, 1}).expand({3, 4})); }), want);
      const Tensor x = ones({3, 4});
      compiled(x);
      EXPECT_EQ(x.sum().item<float>(), 24);
    }
  }
}

// ---- Captured tensors -------------------------------------------------------------------------------------------------

TEST(Captured, TensorsAreReadAtEachCall) {
  Tensor scale = ones({2});
  int entered = 0;
  const auto f = compile(
      [&](Tensor x) {
        ++entered;
        return x * scale;
      },
      without_audits());
  EXPECT_EQ(list(f(ones({2}))), (List{1, 1}));
  scale.fill_(5);
  EXPECT_EQ(list(f(ones({2}))), (List{5, 5}));
  {
    const NoGradGuard off;
    scale[1].mul_(3);
  }
  EXPECT_EQ(list(f(ones({2}))), (List{5, 15}));
  EXPECT_EQ(entered, 1);
}

TEST(Captured, TensorsAndSlicesOfThemAreWritten) {
  Tensor table = zeros({3, 4});
  std::vector<Tensor> rows = table.unbind(0);
  Tensor count = zeros({}, kInt64);
  hold_in_all_modes(
      [&](Tensor x) {
        count.add_(1);
        table[0].add_(x);
        rows[1].copy_(x * 2);
        table.slice(1, 1, 3).mul_(-1);
        return rows[0] + table[1];
      },
      [&](const auto& call) {
        table.zero_();
        count.zero_();
        Results results;
        for (int i = 0; i < 3; ++i) results.push_back(call(counting({4}) + i));
        EXPECT_EQ(count.item<int64_t>(), 3);
        EXPECT_EQ(list(table[1]), (List{4, -6, -8, 10}));
        results.push_back(table.clone());
        return results;
      });
}

TEST(Captured, AHandleThatWasAssignedAnewIsNotStale) {
  Tensor scale = full({2}, 2.0);
  const auto f = compile([&](Tensor x) { return x * scale; }, without_audits());
  EXPECT_EQ(list(f(ones({2}))), (List{2, 2}));
  EXPECT_EQ(list(f(ones({2}))), (List{2, 2}));
  scale = full({2}, 7.0);  // the old tensor dies
  EXPECT_EQ(list(f(ones({2}))), (List{7, 7}));
  EXPECT_EQ(list(f(ones({2}))), (List{7, 7}));
}

TEST(Captured, AnAssignedHandleWhoseOldTensorLivesIsSeen) {
  const Tensor old = full({2}, 2.0), other = full({2}, 7.0);
  Tensor scale = old;
  const auto f = compile([&](Tensor x) { return x * scale; }, without_audits());
  f(ones({2}));
  for (int round = 0; round < 3; ++round) {
    scale = other;
    EXPECT_EQ(list(f(ones({2}))), (List{7, 7}));
    scale = old;
    EXPECT_EQ(list(f(ones({2}))), (List{2, 2}));
  }
  Tensor third = full({2}, 3.0);
  std::swap(scale, third);
  EXPECT_EQ(list(f(ones({2}))), (List{3, 3}));
  scale.reset();
  EXPECT_NE(error_of([&] { f(ones({2})); }), "no error");
}

TEST(Captured, AHandleThatIsAssignedAtEachCallIsNotTracedAtEachCall) {
  Tensor state = zeros({2});
  const Counts counts;
  const auto f = compile([&](Tensor x) { return state + x; }, without_audits());
  for (int i = 1; i <= 200; ++i) {
    state = f(ones({2}));
    EXPECT_EQ(state[0].item<float>(), static_cast<float>(i));
  }
  EXPECT_LE(counts.traces() + compile_stats().refreshes, 100u);
}

TEST(Captured, ChangedSizesOfACapturedTensorAreSeen) {
  Tensor state = counting({4});
  const auto f = compile([&](Tensor x) { return state.sum() + x; }, without_audits());
  EXPECT_EQ(f(ones({1})).item<float>(), 7);
  state = counting({6});
  EXPECT_EQ(f(ones({1})).item<float>(), 16);
  state = counting({4}, kFloat64);
  EXPECT_EQ(f(ones({1})).item<float>(), 7);
}

TEST(Captured, ParametersAreWrittenUnderNoGrad) {
  Tensor w = counting({3}).requires_grad_();
  hold_in_all_modes(
      [&](Tensor x) {
        const Tensor y = (w * x).sum();
        {
          const NoGradGuard off;
          w.sub_(x * 0.5);
          w[0].add_(1);
        }
        return y.detach();
      },
      [&](const auto& call) {
        {
          const NoGradGuard off;
          w.copy_(counting({3}));
        }
        Results results{call(ones({3})), call(ones({3}))};
        EXPECT_EQ(list(w), (List{1, 0, 1}));
        results.push_back(w.detach().clone());
        return results;
      });
}

// ---- Errors -------------------------------------------------------------------------------------------------------------

TEST(InPlace, OfALeafThatRequiresGradIsEagersError) {
  const auto f = [](Tensor x) { x.add_(1); };
  const Tensor leaf = ones({2}).requires_grad_();
  const std::string want = error_of([&] { f(leaf); });
  EXPECT_NE(want, "no error");
  const auto compiled = compile(f, without_audits());
  for (int round = 0; round < 2; ++round) EXPECT_EQ(error_of([&] { compiled(leaf); }), want);
  EXPECT_EQ(list(leaf), (List{1, 1}));
  const Tensor x = ones({2});
  compiled(x);
  EXPECT_EQ(list(x), (List{2, 2}));
}

TEST(InPlace, ThatDoesNotFitIsEagersError) {
  const auto f = [](Tensor x, Tensor y) { x.add_(y); };
  const auto compiled = compile(f, without_audits());
  for (const auto& [x, y] : std::vector<std::pair<Tensor, Tensor>>{
           {ones({2}), ones({3})}, {ones({2}), ones({2, 2})}, {ones({2}, kInt64), ones({2})}}) {
    const std::string want = error_of([&] { f(x, y); });
    EXPECT_NE(want, "no error");
    EXPECT_EQ(error_of([&, &a = x, &b = y] { compiled(a, b); }), want);
  }
  const Tensor x = ones({2});
  compiled(x, ones({1}));
  EXPECT_EQ(list(x), (List{2, 2}));
}

}  // namespace
}  // namespace weft
