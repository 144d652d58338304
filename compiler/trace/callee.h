// Callee: the user's function and the arguments of one call, without their types; and the leaves of both.
// Needs tensor. flatten.h makes it from a typed call; the tracer and the compiled function see no more than this.
#pragma once

#include <memory>
#include <string>

#include "tensor/tensor.h"

namespace weft::compiler {

// A number among the arguments or results.
struct NumberLeaf {
  enum class Kind : uint8_t {
    Float,   // a plain floating number: guarded by value
    Int,     // a plain integer or enum: guarded by value
    Bool,    // guarded by value
    Scalar,  // read at each call, never guarded by value
    Size,    // a Sym: dynamic like the size of a tensor
  };
  Kind kind = Kind::Scalar;
  Scalar value;
};

// What a call brings. Borrowed: valid while the call runs.
struct ArgumentLeaves {
  SmallVector<const Tensor*, 8> tensors;  // never null; the tensor may be undefined
  SmallVector<NumberLeaf, 4> numbers;
  uint64_t structure = 0;  // hash of everything else: lengths of vectors, presence of optionals, strings
};

struct ResultLeaves {
  std::vector<Tensor> tensors;
  std::vector<NumberLeaf> numbers;
};

class Callee {
 public:
  virtual ~Callee() = default;
  // Runs the function on copies of the arguments whose leaves are these, and keeps the result.
  virtual void run(std::span<const Tensor> tensors, std::span<const Scalar> numbers) = 0;
  // Runs it on the arguments as they came, and keeps the result: eager.
  virtual void run_eager() = 0;
  // The leaves of the kept result, and its structure without tensors, to make results of later calls from.
  virtual ResultLeaves result() const = 0;
  virtual std::shared_ptr<const void> structure() const = 0;
  // Drops the kept result.
  virtual void clear() = 0;
  // Makes the result of this call: `structure` with these leaves.
  virtual void give(const void* structure, std::span<Tensor> tensors, std::span<const Scalar> numbers) = 0;
  // "x", "batch.0": how messages call a leaf of the arguments.
  virtual std::string tensor_name(size_t leaf) const = 0;
  virtual std::string number_name(size_t leaf) const = 0;
};

}  // namespace weft::compiler
