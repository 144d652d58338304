// View rules: what each view does to a layout, over plain integers or Sym; one rule serves eager views, fake tensors
// and index maps. Needs layout. The rules throw Error and IndexError naming the op; they never touch data.
#pragma once

#include "tensor/base/error.h"
#include "tensor/layout.h"

namespace weft::view_rules {

template <class S>
using List = SmallVector<S, kInlineRank>;
template <class S>
using ListView = std::span<const S>;

namespace detail {

template <class S>
S number(int64_t value) {
  return weft::detail::size_of_int<S>(value);
}
// The marker -1 ("infer", "keep") is always a plain number; asking so leaves no guard on an expression.
inline bool is_marker(int64_t size) { return size == -1; }
inline bool is_marker(Sym size) { return !size.is_symbolic() && size.concrete() == -1; }
inline bool is_symbolic(int64_t) { return false; }
inline bool is_symbolic(Sym size) { return size.is_symbolic(); }

template <class S>
bool any_symbolic(const List<S>& sizes) {
  for (const S& size : sizes)
    if (is_symbolic(size)) return true;
  return false;
}

// "[2, 3]" for messages.
template <class S>
struct Text {
  const List<S>& list;
  friend std::ostream& operator<<(std::ostream& out, const Text& text) {
    out << '[';
    const char* separator = "";
    for (const S& size : text.list) {
      out << separator << size;
      separator = ", ";
    }
    return out << ']';
  }
};
template <class S>
Text(const List<S>&) -> Text<S>;

template <class S>
S product(const List<S>& sizes) {
  S result = number<S>(1);
  for (const S& size : sizes) result = result * size;
  return result;
}

}  // namespace detail

// The sizes with their one -1 replaced so that they hold `count` elements.
template <class S>
List<S> infer_sizes(ListView<S> sizes, S count, const List<S>& from, const char* op) {
  List<S> result(sizes.begin(), sizes.end());
  S known = detail::number<S>(1);
  size_t unknown = result.size();
  for (size_t d = 0; d < result.size(); ++d) {
    if (detail::is_marker(result[d])) {
      WEFT_CHECK(unknown == result.size(), op, ": sizes ", detail::Text(result),
                 " have more than one -1; only one dimension can be inferred");
      unknown = d;
      continue;
    }
    WEFT_CHECK(result[d] >= 0, op, ": sizes ", detail::Text(result), " hold the negative size ", result[d]);
    known = known * result[d];
  }
  if (unknown == result.size()) {
    WEFT_CHECK(known == count, op, ": sizes ", detail::Text(result), " hold ", known,
               " elements, but the tensor ", detail::Text(from), " has ", count);
    return result;
  }
  WEFT_CHECK(known != 0, op, ": sizes ", detail::Text(result),
             " leave -1 ambiguous, because the other sizes hold no elements");
  WEFT_CHECK(count % known == 0, op, ": sizes ", detail::Text(result), " do not divide the ", count,
             " elements of the tensor ", detail::Text(from));
  result[unknown] = count / known;
  return result;
}

// The strides with which the elements of x can be seen as `sizes` (of as many elements); nothing where they need a copy.
template <class S>
std::optional<List<S>> view_strides(const Layout<S>& x, const List<S>& sizes) {
  const S one = detail::number<S>(1);
  if (x.sizes.empty()) return List<S>(sizes.size(), one);
  // Row-major expressions stay whole; the general walk would compare their parts.
  if ((detail::any_symbolic(x.sizes) || detail::any_symbolic(sizes)) && is_contiguous(x))
    return contiguous_strides<S>(sizes);
  List<S> strides(sizes.size(), one);
  const S count = numel(x);
  if (count == 0) {
    if (x.sizes.size() == sizes.size() && std::equal(sizes.begin(), sizes.end(), x.sizes.begin(),
                                                     [](const S& a, const S& b) { return a == b; }))
      return x.strides;
    return contiguous_strides<S>(sizes);
  }
  // Runs of dimensions of x that lie row-major among themselves, innermost first, must each be made of whole dimensions
  // of the view.
  size_t at = sizes.size();
  S step = x.strides.back(), run = one, filled = one;
  for (size_t d = x.sizes.size(); d-- > 0;) {
    run = run * x.sizes[d];
    if (d > 0 && (x.sizes[d - 1] == 1 || x.strides[d - 1] == run * step)) continue;
    while (at > 0 && (filled < run || sizes[at - 1] == 1)) {
      --at;
      strides[at] = filled * step;
      filled = filled * sizes[at];
    }
    if (filled != run) return std::nullopt;
    if (d > 0) {
      step = x.strides[d - 1];
      run = filled = one;
    }
  }
  if (at != 0) return std::nullopt;
  return strides;
}

// The layout of x seen as `sizes`, which may hold one -1; nothing where only a copy has them.
template <class S>
std::optional<Layout<S>> try_view(const Layout<S>& x, ListView<S> sizes, const char* op) {
  List<S> inferred = infer_sizes<S>(sizes, numel(x), x.sizes, op);
  std::optional<List<S>> strides = view_strides(x, inferred);
  if (!strides) return std::nullopt;
  return Layout<S>{std::move(inferred), std::move(*strides), x.offset};
}

template <class S>
Layout<S> view(const Layout<S>& x, ListView<S> sizes) {
  std::optional<Layout<S>> result = try_view(x, sizes, "view");
  WEFT_CHECK(result.has_value(), "view: a tensor of sizes ", detail::Text(x.sizes), " and strides ",
             detail::Text(x.strides), " cannot be seen as ",
             detail::Text(List<S>(sizes.begin(), sizes.end())),
             ": a dimension of the view would span two that are not adjacent; use reshape(), which copies");
  return std::move(*result);
}

template <class S>
Layout<S> transpose(Layout<S> x, int64_t dim0, int64_t dim1, const char* op = "transpose") {
  const int64_t a = normalize_dim(dim0, x.rank(), op), b = normalize_dim(dim1, x.rank(), op);
  if (a == b) return x;
  std::swap(x.sizes[a], x.sizes[b]);
  std::swap(x.strides[a], x.strides[b]);
  return x;
}

template <class S>
Layout<S> permute(const Layout<S>& x, std::span<const int64_t> dims) {
  WEFT_CHECK(static_cast<int64_t>(dims.size()) == x.rank(), "permute: ", dims.size(),
             " dimensions are given for a tensor of rank ", x.rank(), "; each must be named once");
  Layout<S> result{{}, {}, x.offset};
  uint64_t seen = 0;
  for (int64_t given : dims) {
    const int64_t d = normalize_dim(given, x.rank(), "permute");
    WEFT_CHECK(d < 64 && ((seen >> d) & 1) == 0, "permute: dimension ", given, " is named twice");
    seen |= uint64_t{1} << d;
    result.sizes.push_back(x.sizes[d]);
    result.strides.push_back(x.strides[d]);
  }
  return result;
}

// Dimensions of size 1 stretch with stride 0; -1 keeps a size; new dimensions come in front.
template <class S>
Layout<S> expand(const Layout<S>& x, ListView<S> sizes, const char* op = "expand") {
  const List<S> wanted(sizes.begin(), sizes.end());
  const size_t rank = wanted.size(), own = x.sizes.size();
  WEFT_CHECK(rank >= own, op, ": sizes ", detail::Text(wanted), " have fewer dimensions than the tensor ",
             detail::Text(x.sizes));
  const S zero = detail::number<S>(0);
  Layout<S> result{wanted, List<S>(rank, zero), x.offset};
  for (size_t d = rank; d-- > 0;) {
    const bool is_new = d + own < rank;
    const size_t from = d + own - rank;
    if (is_new) {
      WEFT_CHECK(!detail::is_marker(wanted[d]), op, ": size -1 keeps a dimension, but dimension ", d, " of ",
                 detail::Text(wanted), " is new");
      WEFT_CHECK(wanted[d] >= 0, op, ": sizes ", detail::Text(wanted), " hold the negative size ", wanted[d]);
      if (own > 0 && statically_known(SymCompare::Eq, wanted[d], detail::number<S>(1)))
        result.strides[d] = result.sizes[d + 1] * result.strides[d + 1];
      continue;
    }
    if (detail::is_marker(wanted[d]) || x.sizes[from] == wanted[d]) {
      result.sizes[d] = x.sizes[from];
      result.strides[d] = x.strides[from];
      continue;
    }
    WEFT_CHECK(x.sizes[from] == 1, op, ": dimension ", from, " of the tensor ", detail::Text(x.sizes),
               " has size ", x.sizes[from], ", not 1, and cannot become ", wanted[d], " of ",
               detail::Text(wanted));
    WEFT_CHECK(wanted[d] >= 0, op, ": sizes ", detail::Text(wanted), " hold the negative size ", wanted[d]);
  }
  return result;
}

// Drops the dimensions of size 1: all of them, or those named (others stay).
template <class S>
Layout<S> squeeze(const Layout<S>& x, const DimList* dims, const char* op = "squeeze") {
  uint64_t chosen = 0;
  if (dims != nullptr) {
    for (int64_t given : *dims) {
      const int64_t d = normalize_dim(given, x.rank(), op);
      WEFT_CHECK(((chosen >> d) & 1) == 0, op, ": dimension ", given, " is named twice");
      chosen |= uint64_t{1} << d;
    }
  }
  Layout<S> result{{}, {}, x.offset};
  for (size_t d = 0; d < x.sizes.size(); ++d) {
    if ((dims == nullptr || ((chosen >> d) & 1) != 0) && x.sizes[d] == 1) continue;
    result.sizes.push_back(x.sizes[d]);
    result.strides.push_back(x.strides[d]);
  }
  return result;
}

template <class S>
Layout<S> unsqueeze(const Layout<S>& x, int64_t dim, const char* op = "unsqueeze") {
  const int64_t at = normalize_dim(dim, x.rank() + 1, op);
  const S one = detail::number<S>(1);
  Layout<S> result{{}, {}, x.offset};
  for (int64_t d = 0; d <= x.rank(); ++d) {
    if (d == at) {
      result.sizes.push_back(one);
      result.strides.push_back(d < x.rank() ? x.sizes[d] * x.strides[d] : one);
    }
    if (d == x.rank()) break;
    result.sizes.push_back(x.sizes[d]);
    result.strides.push_back(x.strides[d]);
  }
  return result;
}

// start:end:step along dim; negative bounds count from the end, and bounds outside are clamped.
template <class S>
Layout<S> slice(Layout<S> x, int64_t dim, std::optional<S> start, std::optional<S> end, S step) {
  WEFT_CHECK(x.rank() > 0, "slice: a tensor without dimensions cannot be sliced");
  const int64_t d = normalize_dim(dim, x.rank(), "slice");
  WEFT_CHECK(step > 0, "slice: step is ", step, "; it must be 1 or more");
  const S size = x.sizes[d], zero = detail::number<S>(0);
  const auto bound = [&](S value) {
    if (value < 0) value = value + size;
    return value < 0 ? zero : value > size ? size : value;
  };
  const S from = start ? bound(*start) : zero;
  const S to = end ? bound(*end) : size;
  if (to <= from) x.sizes[d] = zero;
  else if (statically_known(SymCompare::Eq, step, detail::number<S>(1))) x.sizes[d] = to - from;
  else x.sizes[d] = (to - from + step - 1) / step;
  x.offset = x.offset + from * x.strides[d];
  x.strides[d] = x.strides[d] * step;
  return x;
}

template <class S>
Layout<S> select(const Layout<S>& x, int64_t dim, S index) {
  if (x.rank() == 0)
    throw IndexError("select: a tensor without dimensions cannot be indexed; item() reads its value");
  const int64_t d = normalize_dim(dim, x.rank(), "select");
  const S size = x.sizes[d];
  if (index < -size || index >= size)
    throw IndexError(weft::detail::concat("select: index ", index, " is out of range for dimension ", d,
                                          " of the tensor ", detail::Text(x.sizes), "; it takes ", -size,
                                          " to ", size - 1));
  Layout<S> result{{}, {}, x.offset + (index < 0 ? index + size : index) * x.strides[d]};
  for (int64_t k = 0; k < x.rank(); ++k) {
    if (k == d) continue;
    result.sizes.push_back(x.sizes[k]);
    result.strides.push_back(x.strides[k]);
  }
  return result;
}

// The elements whose index in dim2 is that in dim1 plus offset, as a new last dimension.
template <class S>
Layout<S> diagonal(const Layout<S>& x, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t a = normalize_dim(dim1, x.rank(), "diagonal"), b = normalize_dim(dim2, x.rank(), "diagonal");
  WEFT_CHECK(a != b, "diagonal: dim1 and dim2 are both ", dim1, "; they must differ");
  const S zero = detail::number<S>(0);
  const S rows = offset < 0 ? x.sizes[a] + offset : x.sizes[a];
  const S columns = offset > 0 ? x.sizes[b] - offset : x.sizes[b];
  S length = rows < columns ? rows : columns;
  Layout<S> result{{}, {}, x.offset};
  if (length <= 0) length = zero;
  else result.offset = offset > 0 ? x.offset + offset * x.strides[b] : x.offset - offset * x.strides[a];
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d == a || d == b) continue;
    result.sizes.push_back(x.sizes[d]);
    result.strides.push_back(x.strides[d]);
  }
  result.sizes.push_back(length);
  result.strides.push_back(x.strides[a] + x.strides[b]);
  return result;
}

// Any layout on the storage of x; the offset counts from its start. Whoever has the storage checks the bounds.
template <class S>
Layout<S> as_strided(const Layout<S>& x, ListView<S> sizes, ListView<S> strides, std::optional<S> offset) {
  WEFT_CHECK(sizes.size() == strides.size(), "as_strided: ", sizes.size(), " sizes and ", strides.size(),
             " strides are given; each dimension needs both");
  Layout<S> result{List<S>(sizes.begin(), sizes.end()), List<S>(strides.begin(), strides.end()),
                   offset ? *offset : x.offset};
  WEFT_CHECK(result.offset >= 0, "as_strided: the offset ", result.offset, " is negative");
  for (size_t d = 0; d < sizes.size(); ++d) {
    WEFT_CHECK(sizes[d] >= 0, "as_strided: sizes ", detail::Text(result.sizes), " hold the negative size ",
               sizes[d]);
    WEFT_CHECK(strides[d] >= 0, "as_strided: strides ", detail::Text(result.strides),
               " hold the negative stride ", strides[d]);
  }
  return result;
}

// All windows of `size` elements, `step` apart, along dim; the place inside the window is a new last dimension.
template <class S>
Layout<S> unfold(Layout<S> x, int64_t dim, S size, S step) {
  const int64_t d = normalize_dim(dim, x.rank(), "unfold");
  const S one = detail::number<S>(1);
  const bool is_scalar = x.rank() == 0;
  const S extent = is_scalar ? one : x.sizes[d], stride = is_scalar ? one : x.strides[d];
  WEFT_CHECK(size >= 0 && size <= extent, "unfold: the window of ", size, " does not fit into dimension ", d,
             " of the tensor ", detail::Text(x.sizes));
  WEFT_CHECK(step > 0, "unfold: step is ", step, "; it must be 1 or more");
  if (!is_scalar) {
    x.sizes[d] = (extent - size) / step + 1;
    x.strides[d] = stride * step;
  }
  x.sizes.push_back(size);
  x.strides.push_back(stride);
  return x;
}

// The same bytes in elements of another size.
template <class S>
Layout<S> reinterpret(Layout<S> x, int64_t from_bytes, int64_t to_bytes) {
  if (from_bytes == to_bytes) return x;
  WEFT_CHECK(x.rank() > 0, "view: a tensor without dimensions keeps the size of its element; it has ",
             from_bytes, " bytes, the wanted dtype ", to_bytes);
  const size_t last = x.sizes.size() - 1;
  WEFT_CHECK(x.strides[last] == 1, "view: the last stride is ", x.strides[last], " (strides ",
             detail::Text(x.strides), "); elements of another size need 1");
  if (from_bytes > to_bytes) {
    const int64_t ratio = from_bytes / to_bytes;
    for (size_t d = 0; d < last; ++d) x.strides[d] = x.strides[d] * ratio;
    x.sizes[last] = x.sizes[last] * ratio;
    x.offset = x.offset * ratio;
    return x;
  }
  const int64_t ratio = to_bytes / from_bytes;
  WEFT_CHECK(x.sizes[last] % ratio == 0, "view: the last dimension of ", detail::Text(x.sizes), " has ",
             x.sizes[last], " elements of ", from_bytes, " bytes, which do not fill elements of ", to_bytes,
             " bytes");
  WEFT_CHECK(x.offset % ratio == 0, "view: the offset ", x.offset, " is not a multiple of ", ratio,
             ", so elements of ", to_bytes, " bytes would start between two");
  for (size_t d = 0; d < last; ++d) {
    WEFT_CHECK(x.strides[d] % ratio == 0, "view: the stride ", x.strides[d], " of dimension ", d,
               " is not a multiple of ", ratio, ", so elements of ", to_bytes,
               " bytes would start between two");
    x.strides[d] = x.strides[d] / ratio;
  }
  x.sizes[last] = x.sizes[last] / ratio;
  x.offset = x.offset / ratio;
  return x;
}

}  // namespace weft::view_rules
