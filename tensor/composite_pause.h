// CompositePause: what runs while one lives is no part of the composite that is being called, nor are its errors.
// Needs dispatch. A trace runs the segments that are complete from within an op that reads a value.
#pragma once

#include "tensor/dispatch.h"

namespace weft {

class CompositePause {
 public:
  CompositePause();
  ~CompositePause();
  CompositePause(const CompositePause&) = delete;
  CompositePause& operator=(const CompositePause&) = delete;

 private:
  const CompositeScope* outer_;
  const SourceLocation* place_;
};

}  // namespace weft
