// Samples: calls of an op with which the table harness exercises it, from the texts of its entry or made up.
// Needs tests/support. A sample is fixed but for the dtype and the values of its tensors.
#pragma once

#include "tests/support/boxed_call.h"
#include "tests/support/safetensors_file.h"

namespace weft::tests {

// "[3, 4]" takes the dtype under test; "[3, 4]:i64<5" is an index tensor with values from 0 to 4; "[3]:bool" a mask.
struct TensorSpec {
  std::vector<int64_t> sizes;
  std::optional<DType> dtype;
  int64_t below = 0;
};

class Sample {
 public:
  struct Entry {
    size_t param;
    std::vector<TensorSpec> tensors = {};  // several for a list
    bool is_list = false;
    std::vector<size_t> nones = {};  // the places of a list that hold None, counted with them
    Arg arg = {};                    // where the parameter takes no tensor here
  };

  std::string text;        // "x=[3,4] dim=0"
  bool must_work = false;  // with at least one dtype; an Error is a fair answer to the others
  std::vector<Entry> entries;

  std::vector<TensorSpec> tensors() const;
  // The call on these tensors, which are those of tensors(), in that order.
  BoundCall call(const Op& op, const std::vector<Tensor>& tensors) const;
};

// The op's name with _ for what a test's name may not hold.
std::string test_name_of(const Op& op);

// Empty if no call is known: the op has arguments that cannot be made up and its entry gives no text.
std::vector<Sample> samples_of(const Op& op);

enum class Fill {
  Plain,      // within the range of the op's Samples
  Specials,   // with NaN, infinities, zeros and subnormals in between, unless the op excludes them
  Gradients,  // away from integers, halves and each other, where bodies have kinks
};
// Contiguous tensors for a sample.
std::vector<Tensor> make_tensors(const Op& op, const Sample& sample, DType dtype, Fill fill);

// The values of x, or of its first slice repeated for Expanded, in another layout.
enum class Arrangement { Contiguous, Transposed, Gaps, Expanded };
Tensor arranged(const Tensor& x, Arrangement how);
const char* name_of(Arrangement how);

}  // namespace weft::tests
