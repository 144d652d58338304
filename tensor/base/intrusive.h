// RefCounted, an object that carries its own reference count, and Intrusive<T>, the 8-byte handle that owns
// one reference. Needs the standard library only. Tensors, storages and tape nodes are held this way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace weft {

// Base of a counted type: `class Storage : public RefCounted<Storage>`. A new object holds one reference,
// which make_intrusive adopts. When the last one goes, Derived::destroy(ptr) runs: `delete` unless Derived
// hides it with its own.
template <class Derived>
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  // A new reference is made from a living one, which already orders the memory: relaxed suffices.
  void add_ref() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

  void drop_ref() const noexcept {
    // A sole owner cannot be raced by another, so the costly read-modify-write is skipped.
    if (count_.load(std::memory_order_acquire) == 1 || count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Derived::destroy(const_cast<Derived*>(static_cast<const Derived*>(this)));
    }
  }

  // With 1 the caller is the only owner and may reuse the object; larger values may be out of date at once.
  uint32_t use_count() const noexcept { return count_.load(std::memory_order_acquire); }

  static void destroy(Derived* object) noexcept { delete object; }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> count_{1};
};

// Owns one reference or none.
template <class T>
class Intrusive {
 public:
  using element_type = T;

  constexpr Intrusive() noexcept = default;
  constexpr Intrusive(std::nullptr_t) noexcept {}
  Intrusive(const Intrusive& other) noexcept : ptr_(other.ptr_) { add_ref(); }
  Intrusive(Intrusive&& other) noexcept : ptr_(std::exchange(other.ptr_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Intrusive(Intrusive<U> other)
  noexcept : ptr_(other.release()) {}
  Intrusive& operator=(const Intrusive& other) noexcept {
    Intrusive(other).swap(*this);
    return *this;
  }
  Intrusive& operator=(Intrusive&& other) noexcept {
    Intrusive(std::move(other)).swap(*this);
    return *this;
  }
  ~Intrusive() { drop_ref(); }

  // Takes over a reference that the caller owns, such as that of a new object or one from release().
  static Intrusive adopt(T* ptr) noexcept { return Intrusive(ptr); }
  // Adds a reference, as for a handle made from `this`.
  static Intrusive share(T* ptr) noexcept {
    Intrusive handle(ptr);
    handle.add_ref();
    return handle;
  }
  // Gives the reference to the caller, who must adopt it again; the handle is empty.
  [[nodiscard]] T* release() noexcept { return std::exchange(ptr_, nullptr); }
  void reset() noexcept { Intrusive().swap(*this); }
  void swap(Intrusive& other) noexcept { std::swap(ptr_, other.ptr_); }

  T* get() const noexcept { return ptr_; }
  T* operator->() const noexcept { return ptr_; }
  T& operator*() const noexcept { return *ptr_; }
  explicit operator bool() const noexcept { return ptr_ != nullptr; }
  uint32_t use_count() const noexcept { return ptr_ != nullptr ? ptr_->use_count() : 0; }

  friend bool operator==(const Intrusive& a, const Intrusive& b) noexcept { return a.ptr_ == b.ptr_; }
  friend bool operator==(const Intrusive& a, std::nullptr_t) noexcept { return a.ptr_ == nullptr; }

 private:
  explicit Intrusive(T* ptr) noexcept : ptr_(ptr) {}
  void add_ref() const noexcept {
    if (ptr_ != nullptr) ptr_->add_ref();
  }
  void drop_ref() const noexcept {
    if (ptr_ != nullptr) ptr_->drop_ref();
  }

  T* ptr_ = nullptr;
};

template <class T, class... Args>
Intrusive<T> make_intrusive(Args&&... args) {
  return Intrusive<T>::adopt(new T(std::forward<Args>(args)...));
}

}  // namespace weft

template <class T>
struct std::hash<weft::Intrusive<T>> {
  size_t operator()(const weft::Intrusive<T>& handle) const noexcept { return std::hash<T*>{}(handle.get()); }
};
