// What a stored training run is made of: model, optimizer, schedule and the digits, by the names of the manifest.
// Needs weft.h and nlohmann-json. The meaning of the names is that of tests/data/golden/README.md.
#pragma once

#include <weft.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace weft::tests {

// The names of its parameters are those of the stored weights.
struct Model : nn::Module {
  virtual Tensor forward(const Tensor& x) = 0;
};

// Errors: Error for a name that is not there.
std::shared_ptr<Model> make_model(const std::string& name);
std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<Tensor>& parameters);
// Null for a name that is null.
std::unique_ptr<optim::LRScheduler> make_schedule(const nlohmann::json& name, optim::Optimizer& optimizer,
                                                  int64_t steps);

struct Batch {
  Tensor x, y;
};

class Digits {
 public:
  Digits(const std::string& folder, Device device);
  int64_t rows() const { return rows_; }
  // On the device: rows first, …, first + count - 1, starting again at the end; pixels divided by 16.
  Batch batch(int64_t first, int64_t count) const;

 private:
  static constexpr int64_t kPixels = 64;
  Device device_;
  std::vector<float> values_;
  int64_t rows_ = 0;
};

}  // namespace weft::tests
