// SmallVector<T, N>: a std::vector whose first N elements live inside the object, so that sizes, strides and
// argument lists cost no heap allocation. Needs the standard library only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

namespace weft {

// The inline elements make a move O(size) while they hold the contents; iterators do not survive it.
// Indices are not checked; sizes are limited to 2^32 - 1 elements.
template <class T, uint32_t N>
class SmallVector {
  static_assert(N > 0 && std::is_nothrow_move_constructible_v<T>);
  // Elements that may be moved by copying their bytes.
  static constexpr bool kTrivial = std::is_trivially_copyable_v<T>;

 public:
  using value_type = T;
  using size_type = size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() noexcept = default;
  explicit SmallVector(size_t count) { resize(count); }
  SmallVector(size_t count, const T& value) { assign(count, value); }
  SmallVector(std::initializer_list<T> values) { append(values.begin(), values.end()); }
  template <std::forward_iterator It>
  SmallVector(It first, It last) {
    append(first, last);
  }
  template <std::ranges::forward_range R>
  requires(!std::is_same_v<std::remove_cvref_t<R>, SmallVector> &&
           std::convertible_to<std::ranges::range_reference_t<R>, T>) explicit SmallVector(R&& values) {
    append(std::ranges::begin(values), std::ranges::end(values));
  }

  SmallVector(const SmallVector& other) { append(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      destroy_and_free();
      take(other);
    }
    return *this;
  }
  SmallVector& operator=(std::initializer_list<T> values) {
    assign(values);
    return *this;
  }
  ~SmallVector() { destroy_and_free(); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }
  bool is_inline() const noexcept { return data_ == inline_data(); }

  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  auto rbegin() noexcept { return std::reverse_iterator(end()); }
  auto rend() noexcept { return std::reverse_iterator(begin()); }
  auto rbegin() const noexcept { return std::reverse_iterator(end()); }
  auto rend() const noexcept { return std::reverse_iterator(begin()); }

  T& operator[](size_t i) noexcept { return data_[i]; }
  const T& operator[](size_t i) const noexcept { return data_[i]; }
  T& front() noexcept { return data_[0]; }
  const T& front() const noexcept { return data_[0]; }
  T& back() noexcept { return data_[size_ - 1]; }
  const T& back() const noexcept { return data_[size_ - 1]; }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) [[unlikely]] {
      T value(std::forward<Args>(args)...);  // the arguments may point into this vector
      grow(size_t{size_} + 1);
      return *std::construct_at(data_ + size_++, std::move(value));
    }
    return *std::construct_at(data_ + size_++, std::forward<Args>(args)...);
  }
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  void pop_back() noexcept { std::destroy_at(data_ + --size_); }

  T* insert(const T* at, T value) {
    const size_t index = at - data_;
    emplace_back(std::move(value));
    std::rotate(data_ + index, end() - 1, end());
    return data_ + index;
  }
  // [first, last) must not lie in this vector.
  template <std::forward_iterator It>
  T* insert(const T* at, It first, It last) {
    const size_t index = at - data_, old_size = size_;
    append(first, last);
    std::rotate(data_ + index, data_ + old_size, end());
    return data_ + index;
  }
  T* insert(const T* at, std::initializer_list<T> values) { return insert(at, values.begin(), values.end()); }

  T* erase(const T* at) { return erase(at, at + 1); }
  T* erase(const T* first, const T* last) {
    T* const hole = data_ + (first - data_);
    T* const new_end = std::move(data_ + (last - data_), end(), hole);
    std::destroy(new_end, end());
    size_ = static_cast<uint32_t>(new_end - data_);
    return hole;
  }

  // [first, last) must not lie in this vector.
  template <std::forward_iterator It, std::sentinel_for<It> End>
  void append(It first, End last) {
    const auto count = static_cast<size_t>(std::ranges::distance(first, last));
    reserve(size_ + count);
    std::ranges::uninitialized_copy(first, last, end(), end() + count);
    size_ += static_cast<uint32_t>(count);
  }
  template <std::forward_iterator It>
  void assign(It first, It last) {
    clear();
    append(first, last);
  }
  void assign(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  void assign(size_t count, const T& value) {
    T copy(value);
    clear();
    resize(count, copy);
  }

  void resize(size_t count) {
    resize_with(count, [](T* at, size_t n) { std::uninitialized_value_construct_n(at, n); });
  }
  void resize(size_t count, const T& value) {
    T copy(value);
    resize_with(count, [&](T* at, size_t n) { std::uninitialized_fill_n(at, n, copy); });
  }
  void clear() noexcept {
    std::destroy(begin(), end());
    size_ = 0;
  }
  void reserve(size_t count) {
    if (count > capacity_) grow(count);
  }

  friend void swap(SmallVector& a, SmallVector& b) noexcept {
    SmallVector held(std::move(a));
    a = std::move(b);
    b = std::move(held);
  }
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inline_data() noexcept { return reinterpret_cast<T*>(inline_); }
  const T* inline_data() const noexcept { return reinterpret_cast<const T*>(inline_); }

  // Moves count elements into raw memory and ends the lives of the old ones.
  static void relocate(T* from, size_t count, T* to) noexcept {
    if constexpr (kTrivial) {
      if (count > 0) std::memcpy(static_cast<void*>(to), from, count * sizeof(T));
    } else {
      std::uninitialized_move_n(from, count, to);
      std::destroy_n(from, count);
    }
  }

  template <class Fill>
  void resize_with(size_t count, Fill fill) {
    if (count > size_) {
      reserve(count);
      fill(end(), count - size_);
    } else {
      std::destroy(data_ + count, end());
    }
    size_ = static_cast<uint32_t>(count);
  }

  // Doubling keeps push_back amortised O(1).
  void grow(size_t at_least) {
    const size_t wanted = std::max(at_least, size_t{capacity_} * 2);
    T* const memory = std::allocator<T>{}.allocate(wanted);
    relocate(data_, size_, memory);
    free_heap();
    data_ = memory;
    capacity_ = static_cast<uint32_t>(wanted);
  }

  // This vector owns nothing yet; the other one is left empty.
  void take(SmallVector& other) noexcept {
    if (other.is_inline()) {
      data_ = inline_data();
      capacity_ = N;
      relocate(other.data_, other.size_, data_);
    } else {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
    }
    size_ = std::exchange(other.size_, 0);
  }

  void free_heap() noexcept {
    if (!is_inline()) std::allocator<T>{}.deallocate(data_, capacity_);
  }
  void destroy_and_free() noexcept {
    std::destroy(begin(), end());
    free_heap();
  }

  T* data_ = inline_data();
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

}  // namespace weft
