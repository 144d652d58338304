// Size lists: printing, normalising, broadcasting.
// Place: the out-of-line half of tensor/shape.h.
#include "tensor/shape.h"

#include <algorithm>
#include <ostream>

#include "tensor/base/error.h"

namespace weft {
namespace {

template <class List>
std::ostream& print_list(std::ostream& out, const List& list) {
  out << '[';
  const char* separator = "";
  for (const auto& value : list) {
    out << separator << value;
    separator = ", ";
  }
  return out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const SizesView& sizes) { return print_list(out, sizes); }
std::ostream& operator<<(std::ostream& out, const DimList& dims) { return print_list(out, dims); }

int64_t normalize_dim(int64_t dim, int64_t rank, const char* op) {
  const int64_t reach = std::max<int64_t>(rank, 1);
  if (dim < -reach || dim >= reach) [[unlikely]] {
    throw IndexError(detail::concat(op, ": dimension ", dim, " is out of range for a tensor of rank ", rank,
                                    "; it takes ", -reach, " to ", reach - 1));
  }
  return dim < 0 ? dim + reach : dim;
}

Sym product(std::span<const Sym> sizes) {
  Sym result = Sym::from_int(1);
  for (Sym size : sizes) {
    if (!size.is_symbolic() && size.concrete() == 0) return Sym::from_int(0);
  }
  for (Sym size : sizes) result = result * size;
  return result;
}

Sizes broadcast_sizes(std::span<const Sym> a, std::span<const Sym> b, const char* op) {
  const size_t rank = std::max(a.size(), b.size());
  Sizes result(rank, Sym::from_int(1));
  for (size_t back = 1; back <= rank; ++back) {
    const bool in_a = back <= a.size(), in_b = back <= b.size();
    Sym& out = result[rank - back];
    if (!in_b) {
      out = a[a.size() - back];
    } else if (!in_a) {
      out = b[b.size() - back];
    } else {
      const Sym x = a[a.size() - back], y = b[b.size() - back];
      if (statically_known(SymCompare::Eq, x, y) || y == 1) {
        out = x;
      } else if (x == 1 || x == y) {
        out = y;
      } else {
        detail::throw_error(detail::concat(op, ": sizes ", SizesView(a), " and ", SizesView(b),
                                           " do not broadcast: dimension ", -static_cast<int64_t>(back),
                                           " is ", x, " and ", y, "; they must be equal or one of them 1"));
      }
    }
  }
  return result;
}

}  // namespace weft
