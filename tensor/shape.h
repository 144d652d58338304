// Lists of sizes and dimensions, as arguments (SymList, DimList) and as answers (SizesView).
// Needs sym and base/small_vector.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "tensor/base/small_vector.h"
#include "tensor/sym.h"

namespace weft {

// Ranks up to this one need no heap for their sizes and strides.
inline constexpr int kInlineRank = 5;

using Sizes = SmallVector<Sym, kInlineRank>;

// A list of sizes handed to an op: {2, x.size(0), -1}, a std::vector<int64_t>, or x.sizes().
class SymList : public Sizes {
 public:
  SymList() = default;
  SymList(std::initializer_list<SymArg> values) {
    reserve(values.size());
    for (Sym value : values) push_back(value);
  }
  SymList(std::span<const Sym> values) : Sizes(values.begin(), values.end()) {}  // NOLINT
  SymList(const Sizes& values) : Sizes(values) {}                                // NOLINT
  template <std::integral T>
  SymList(const std::vector<T>& values) {  // NOLINT
    reserve(values.size());
    for (T value : values) push_back(Sym::from_int(value));
  }
};

// A list of dimensions handed to an op: 1, {0, -1}, or a std::vector. Empty means what the op says it means.
class DimList : public SmallVector<int64_t, kInlineRank> {
 public:
  DimList() = default;
  DimList(std::initializer_list<int64_t> dims) : SmallVector(dims.begin(), dims.end()) {}
  template <std::integral T>
  DimList(T dim) : SmallVector(1, static_cast<int64_t>(dim)) {}  // NOLINT
  template <std::integral T>
  DimList(const std::vector<T>& dims) : SmallVector(dims.begin(), dims.end()) {}     // NOLINT
  DimList(std::span<const int64_t> dims) : SmallVector(dims.begin(), dims.end()) {}  // NOLINT
};

// What x.sizes() and x.strides() return: a view into the tensor, valid while the tensor lives unchanged.
class SizesView {
 public:
  SizesView(std::span<const Sym> values) : values_(values) {}                // NOLINT
  SizesView(const Sizes& values) : values_(values.data(), values.size()) {}  // NOLINT

  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  Sym operator[](size_t i) const { return values_[i]; }
  Sym front() const { return values_.front(); }
  Sym back() const { return values_.back(); }
  const Sym* begin() const { return values_.data(); }
  const Sym* end() const { return values_.data() + values_.size(); }
  const Sym* data() const { return values_.data(); }

  std::vector<int64_t> vec() const { return {begin(), end()}; }
  operator std::vector<int64_t>() const { return vec(); }    // NOLINT
  operator std::span<const Sym>() const { return values_; }  // NOLINT
  operator SymList() const { return SymList(values_); }      // NOLINT

  friend bool operator==(const SizesView& a, const SizesView& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) return false;
    return true;
  }
  friend bool operator==(const SizesView& a, const std::vector<int64_t>& b) {
    return a == SizesView(SymList(b));
  }

 private:
  std::span<const Sym> values_;
};

// "[2, 3]"
std::ostream& operator<<(std::ostream& out, const SizesView& sizes);
inline std::ostream& operator<<(std::ostream& out, const Sizes& sizes) { return out << SizesView(sizes); }
std::ostream& operator<<(std::ostream& out, const DimList& dims);

// The dimension counted from the front: -1 is the last. Throws IndexError naming the op when it is not below rank.
// A 0-d tensor takes 0 and -1, as in PyTorch.
int64_t normalize_dim(int64_t dim, int64_t rank, const char* op);

// The product of sizes; concrete sizes that overflow are an Error.
Sym product(std::span<const Sym> sizes);

// The sizes that both broadcast to (PyTorch's rule: aligned from the right, 1 stretches). Throws Error naming the op.
Sizes broadcast_sizes(std::span<const Sym> a, std::span<const Sym> b, const char* op);

}  // namespace weft
