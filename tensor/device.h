// Where a tensor lives, and the options that factories take.
// Needs base and scalar (for the default dtype).
#pragma once

#include <iosfwd>
#include <optional>

#include "tensor/scalar.h"

namespace weft {

enum class DeviceType : uint8_t { CPU, CUDA };
inline constexpr DeviceType kCPU = DeviceType::CPU;
inline constexpr DeviceType kCUDA = DeviceType::CUDA;

struct Device {
  constexpr Device(DeviceType t = kCPU, int i = 0) : type(t), index(static_cast<int8_t>(i)) {}  // NOLINT
  // "cpu", "cuda" or "cuda:1".
  explicit Device(const std::string& text);

  constexpr bool is_cpu() const { return type == kCPU; }
  constexpr bool is_cuda() const { return type == kCUDA; }
  friend constexpr bool operator==(Device a, Device b) = default;

  DeviceType type;
  int8_t index;
};

std::ostream& operator<<(std::ostream& out, Device device);

// What a factory makes: zeros({2, 3}, kFloat64), or TensorOptions().dtype(kInt64).requires_grad(true).
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(DType dtype) : dtype_(dtype) {}                  // NOLINT
  TensorOptions(Device device) : device_(device) {}              // NOLINT
  TensorOptions(DeviceType device) : device_(Device(device)) {}  // NOLINT

  TensorOptions dtype(DType value) const {
    auto o = *this;
    o.dtype_ = value;
    return o;
  }
  TensorOptions device(Device value) const {
    auto o = *this;
    o.device_ = value;
    return o;
  }
  TensorOptions device(DeviceType value, int index = 0) const { return device(Device(value, index)); }
  TensorOptions requires_grad(bool value) const {
    auto o = *this;
    o.requires_grad_ = value;
    return o;
  }

  DType dtype() const { return dtype_.value_or(default_dtype()); }
  bool has_dtype() const { return dtype_.has_value(); }
  Device device() const { return device_.value_or(Device(kCPU)); }
  bool has_device() const { return device_.has_value(); }
  bool requires_grad() const { return requires_grad_; }

 private:
  std::optional<DType> dtype_;
  std::optional<Device> device_;
  bool requires_grad_ = false;
};

inline TensorOptions dtype(DType value) { return TensorOptions(value); }
inline TensorOptions device(Device value) { return TensorOptions(value); }
inline TensorOptions requires_grad(bool value = true) { return TensorOptions().requires_grad(value); }

}  // namespace weft
