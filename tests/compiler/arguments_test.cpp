// Arguments and results of all kinds: lists, optionals, tuples, structs, maps, texts and plain numbers; nested functions;
// and what errors leave behind.

#include <array>
#include <map>

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

enum class Kind { Sum, Mean };

struct Inner {
  Tensor x;
  std::optional<Tensor> mask;
};
struct Batch {
  Inner inner;
  std::vector<Tensor> extras;
  double scale;
  bool flip;
  friend bool operator==(const Batch&, const Batch&) = delete;
};
struct Output {
  Tensor value;
  std::map<std::string, Tensor> parts;
  int64_t count;
  Scalar total;
};

// ---- Shapes of arguments ------------------------------------------------------------------------------------------------

TEST(Arguments, ListsOfDifferentLengthsAreDifferentPrograms) {
  int entered = 0;
  const auto f = [&](const std::vector<Tensor>& all) {
    ++entered;
    Tensor sum = all[0] * 1;
    for (size_t i = 1; i < all.size(); ++i) sum = sum + all[i];
    return sum;
  };
  const auto compiled = compile(f, without_audits());
  for (int round = 0; round < 3; ++round) {
    for (size_t n = 1; n <= 4; ++n) {
      const std::vector<Tensor> all(n, ones({2}));
      EXPECT_EQ(list(compiled(all)), (List{1.0 * static_cast<double>(n), 1.0 * static_cast<double>(n)}));
    }
  }
  EXPECT_EQ(entered, 4);
}

TEST(Arguments, OptionalsAreThereOrNot) {
  const auto f = [](Tensor x, std::optional<Tensor> bias, std::optional<double> scale) {
    Tensor y = x * scale.value_or(2);
    return bias ? y + *bias : y;
  };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor x = tensor({1., 2.}), b = tensor({10., 20.});
    const Results results{call(x, {}, {}), call(x, b, {}), call(x, {}, 3), call(x, b, 3), call(x, {}, {})};
    EXPECT_EQ(list(results[0]), (List{2, 4}));
    EXPECT_EQ(list(results[1]), (List{12, 24}));
    EXPECT_EQ(list(results[2]), (List{3, 6}));
    EXPECT_EQ(list(results[3]), (List{13, 26}));
    EXPECT_EQ(list(results[4]), (List{2, 4}));
    return results;
  });
}

TEST(Arguments, UndefinedTensorsAreThereOrNot) {
  hold_in_all_modes([](Tensor x, Tensor bias) { return bias.defined() ? x + bias : x * 2; },
                    [](const auto& call) {
                      const Tensor x = tensor({1., 2.});
                      const Results results{call(x, Tensor()), call(x, x), call(x, Tensor())};
                      EXPECT_EQ(list(results[0]), (List{2, 4}));
                      EXPECT_EQ(list(results[1]), (List{2, 4}));
                      return results;
                    });
}

TEST(Arguments, StructsTuplesAndArrays) {
  const auto f = [](const Batch& batch, std::tuple<Tensor, int> pair, std::array<Tensor, 2> two) {
    Tensor x = batch.inner.mask ? batch.inner.x * *batch.inner.mask : batch.inner.x;
    if (batch.flip) x = x.flip(0);
    for (const Tensor& extra : batch.extras) x = x + extra * batch.scale;
    return x * std::get<0>(pair) - std::get<1>(pair) + two[0] * two[1];
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    const Tensor x = numbers({3}), y = numbers({3}, 2);
    const auto run = [&](const Batch& batch, int n) { results.push_back(call(batch, {y, n}, {x, y})); };
    run({{x, {}}, {}, 1, false}, 3);
    run({{x, y}, {}, 1, false}, 3);
    run({{x, y}, {x, y}, 0.5, false}, 3);
    run({{x, y}, {x, y}, 0.25, true}, 3);
    run({{x, y}, {x, y}, 0.125, true}, 4);
    run({{x, {}}, {}, 1, false}, 3);
    return results;
  });
}

TEST(Arguments, MapsByNameAndTexts) {
  const auto f = [](const std::map<std::string, Tensor>& named, const std::string& which, Kind kind) {
    const Tensor x = named.at(which) * 2;
    return kind == Kind::Sum ? x.sum() : x.mean();
  };
  hold_in_all_modes(f, [](const auto& call) {
    const std::map<std::string, Tensor> named{{"a", tensor({1., 2.})}, {"b", tensor({3., 5.})}},
        other{{"a", tensor({1., 2.})}, {"c", tensor({7., 9.})}};
    const Results results{call(named, "a", Kind::Sum), call(named, "b", Kind::Sum),
                          call(named, "b", Kind::Mean), call(other, "c", Kind::Mean),
                          call(named, "a", Kind::Sum)};
    List values;
    for (const Tensor& one : results) values.push_back(one.item<double>());
    EXPECT_EQ(values, (List{6, 16, 8, 16, 6}));
    EXPECT_NE(error_of([&] {
                try {
                  call(named, "c", Kind::Sum);
                } catch (const std::out_of_range&) {
                  throw Error("out of range");
                }
              }),
              "no error");
    return results;
  });
}

TEST(Arguments, PlainIntegersAndBoolsPickTheirPrograms) {
  const auto f = [](Tensor x, int64_t n, bool twice) {
    for (int64_t i = 0; i < n; ++i) x = x + 1;
    return twice ? x * 2 : x;
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (int round = 0; round < 2; ++round) {
      for (int64_t n = 0; n < 9; ++n) {
        for (const bool twice : {false, true}) {
          results.push_back(call(zeros({2}), n, twice));
          EXPECT_EQ(list(results.back()), (List(2, static_cast<double>(twice ? 2 * n : n))));
        }
      }
    }
    return results;
  });
}

TEST(Arguments, IntegersThatAreOnlyReadByOpsShareAProgramInTheEnd) {
  const Counts counts;
  const auto f = compile([](Tensor x, int n, float s) { return x * n + s; }, without_audits());
  for (int n = 0; n < 200; ++n) {
    const float s = 0.5f * static_cast<float>(n);
    EXPECT_EQ(list(f(tensor({1., 2.}), n, s)), (List{1.5 * n, 2.5 * n}));
  }
  EXPECT_LE(counts.traces(), 7u);
  EXPECT_EQ(counts.eager_calls(), 0u);
}

TEST(Arguments, NumbersOfEveryTypeKeepTheirMeaning) {
  // Each dtype and each kind of Scalar is a program.
  for (const Tensor& x : {numbers({3}), counting({3}, kInt64), numbers({3}).to(kBFloat16)})
    hold_in_all_modes(
        [](Tensor x, double d, float f, int8_t i, uint8_t u, bool b, Scalar s) {
          return std::vector<Tensor>{x * d, x + f, x * i, x + u, x * b, x * s, x.to(kInt32) * i};
        },
        [&](const auto& call) {
          Results results;
          for (const Scalar s : {Scalar(2), Scalar(2.5), Scalar(true)}) {
            const auto got = call(x, 0.1, 0.1f, -7, 200, true, s);
            results.insert(results.end(), got.begin(), got.end());
          }
          return results;
        });
}

TEST(Arguments, SpansAndReferences) {
  hold_in_all_modes(
      [](std::span<const Tensor> all, Tensor& x, const Tensor& y) {
        x.add_(all[0]);
        return all.back() + y;
      },
      [](const auto& call) {
        const std::vector<Tensor> all{ones({2}), numbers({2})};
        Tensor x = zeros({2});
        const Tensor y = call(all, x, ones({2}));
        EXPECT_EQ(list(x), (List{1, 1}));
        return Results{x, y};
      });
}

// ---- Results ------------------------------------------------------------------------------------------------------------

TEST(ResultsOfAllKinds, AreMadeAnewAtEachCall) {
  const auto f = [](Tensor x, int n) {
    Output out;
    out.value = x * 2;
    out.parts["x"] = x;
    out.parts["sum"] = x.sum();
    out.count = n + 1;
    out.total = x.sum().item();
    return out;
  };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor x = tensor({1., 2.}), y = tensor({5., 5.});
    const Output a = call(x, 3), b = call(y, 3), c = call(x, 4);
    EXPECT_EQ(a.count, 4);
    EXPECT_EQ(b.count, 4);
    EXPECT_EQ(c.count, 5);
    EXPECT_EQ(a.total.to_double(), 3);
    EXPECT_EQ(b.total.to_double(), 10);
    EXPECT_TRUE(a.parts.at("x").is_same(x));
    EXPECT_TRUE(b.parts.at("x").is_same(y));
    EXPECT_EQ(list(b.parts.at("sum")), List{10});
    return Results{a.value, b.value, c.value, a.parts.at("sum")};
  });
}

TEST(ResultsOfAllKinds, NumbersThatDependOnTensorsAreThoseOfTheCall) {
  const auto f = [](Tensor x) {
    const double total = x.sum().item<double>();
    const int64_t place = x.argmax().item<int64_t>();
    const bool large = x.max().item<float>() > 3;
    return std::make_tuple(x * total, total, place, large, x.size(0), static_cast<int64_t>(x.numel()));
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const auto& [numbers, place] : std::vector<std::pair<std::vector<float>, int64_t>>{
             {{1, 2}, 1}, {{5, 1}, 0}, {{1, 2, 9}, 2}, {{4, 4}, 0}, {{1, 2}, 1}}) {
      const Tensor x = tensor(numbers);
      const auto [product, total, at, large, n, numel] = call(x);
      EXPECT_EQ(total, x.sum().template item<double>());
      EXPECT_EQ(at, place);
      EXPECT_EQ(large, x.max().template item<float>() > 3);
      EXPECT_EQ(n, x.size(0));
      EXPECT_EQ(numel, x.size(0));
      results.push_back(product);
    }
    return results;
  });
}

TEST(ResultsOfAllKinds, SizesAreThoseOfTheCall) {
  hold_in_all_modes([](Tensor x) { return std::make_pair(x.size(0) * 2 + 1, x.flatten()); },
                    [](const auto& call) {
                      Results results;
                      for (const int64_t n : {3, 4, 7, 1, 0}) {
                        const auto [size, flat] = call(ones({n, 2}));
                        EXPECT_EQ(size, 2 * n + 1);
                        EXPECT_EQ(flat.size(0), 2 * n);
                        results.push_back(flat);
                      }
                      return results;
                    });
}

// ---- Nesting ------------------------------------------------------------------------------------------------------------

TEST(Nesting, ACompiledFunctionInsideAnotherIsPartOfIt) {
  int inner_entered = 0, outer_entered = 0;
  const auto inner = compile(
      [&](Tensor x) {
        ++inner_entered;
        x.add_(1);
        return x * 2;
      },
      without_audits());
  const auto outer = compile(
      [&](Tensor x) {
        ++outer_entered;
        const Tensor first = inner(x);  // before the other, which reads what it wrote
        return first + inner(x.t().contiguous());
      },
      without_audits());
  for (int round = 0; round < 3; ++round) {
    const Tensor x = counting({2, 2});
    EXPECT_EQ(
        tests::difference_of_bits(outer(x), (counting({2, 2}) + 1) * 2 + (counting({2, 2}).t() + 2) * 2), "");
    EXPECT_EQ(list(x), (List{1, 2, 3, 4}));
  }
  EXPECT_EQ(outer_entered, 1);
  EXPECT_EQ(inner_entered, 2);
  // The inner one alone has its own programs.
  EXPECT_EQ(list(inner(ones({1}))), List{4});
  EXPECT_EQ(list(inner(ones({1}))), List{4});
  EXPECT_EQ(inner_entered, 3);
}

TEST(Nesting, AFunctionThatCallsItself) {
  std::function<Tensor(Tensor, int)> self;
  const auto f = compile([&](Tensor x, int depth) { return depth == 0 ? x : self(x * 2, depth - 1) + 1; },
                         without_audits());
  self = f;
  for (int round = 0; round < 2; ++round)
    for (const int depth : {0, 1, 3})
      EXPECT_EQ(f(ones({1}), depth).item<float>(), (1 << depth) + depth) << depth;
}

// ---- Errors -------------------------------------------------------------------------------------------------------------

TEST(Errors, ThrownHalfwayLeaveNothingBehind) {
  bool fails = true;
  Tensor state = zeros({2});
  const auto f = [&](Tensor x) {
    const Tensor y = x * 2;
    if (fails) throw std::runtime_error("halfway");
    state.add_(y);
    return y + 1;
  };
  for (const Way& way : compiled_ways()) {
    SCOPED_TRACE(way.name);
    state.zero_();
    const auto compiled = compile(f, way.options);
    fails = true;
    for (int round = 0; round < 2; ++round) {
      EXPECT_THROW(compiled(ones({2})), std::runtime_error);
      // No trace is on any more: ops run.
      EXPECT_EQ(list(ones({2}) + 1), (List{2, 2}));
      EXPECT_EQ(list(state), (List{0, 0}));
    }
    fails = false;
    for (int round = 1; round <= 2; ++round) {
      EXPECT_EQ(list(compiled(ones({2}))), (List{3, 3}));
      EXPECT_EQ(list(state), (List{2.0 * round, 2.0 * round}));
    }
  }
}

TEST(Errors, AfterAValueWasReadHappenWhereEagerHasThem) {
  Tensor state = zeros({1});
  const auto f = [&](Tensor x) {
    state.add_(1);
    if ((x.sum() > 3).item<bool>()) throw std::runtime_error("too large");
    state.add_(10);
    return x * 2;
  };
  hold_in_all_modes(f, [&](const auto& call) {
    state.zero_();
    Results results{call(ones({2}))};
    EXPECT_THROW(call(ones({4})), std::runtime_error);
    EXPECT_EQ(state.item<float>(), 12);  // what came before the read has happened, once
    EXPECT_THROW(call(ones({4})), std::runtime_error);
    EXPECT_EQ(state.item<float>(), 13);
    results.push_back(call(ones({2})));
    EXPECT_EQ(state.item<float>(), 24);
    return results;
  });
}

TEST(Errors, OfOneShapeDoNotSpoilAnother) {
  hold_in_all_modes(
      [](Tensor x) {
        return x.view({2, -1}) * 3;
      },
      [](const auto& call) {
        Results results;
        for (const int64_t n : {4, 5, 6, 7, 4}) {
          if (n % 2 == 1) EXPECT_NE(error_of([&] { call(ones({n})); }), "no error") << n;
          else results.push_back(call(counting({n})));
        }
        return results;
      });
}

TEST(Errors, InsideBackwardLeaveNothingBehind) {
  hold_in_all_modes([](Tensor x) { return (x * x).sum(); },
                    [](const auto& call) {
                      const Tensor x = tensor({1., 2.}).requires_grad_();
                      const Tensor h = x * 1;
                      bool fails = true;
                      h.register_hook([&](const Tensor&) {
                        if (fails) throw std::runtime_error("hook");
                      });
                      EXPECT_THROW(call(h).backward(), std::runtime_error);
                      EXPECT_FALSE(x.grad().defined());
                      fails = false;
                      const Tensor y = tensor({1., 2.}).requires_grad_();
                      call(y).backward();
                      EXPECT_EQ(list(y.grad()), (List{2, 4}));
                      return Results{y.grad()};
                    });
}

}  // namespace
}  // namespace weft
