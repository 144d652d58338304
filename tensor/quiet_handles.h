// QuietHandles: a scope in which handles change without telling compiled functions.
// Needs nothing. Plans run in one; Note [Handles that change] in tensor.cpp.
#pragma once

namespace weft {

// `quiet` false: handles tell again, for code of the user's that is called inside.
class QuietHandles {
 public:
  explicit QuietHandles(bool quiet = true);
  ~QuietHandles();
  QuietHandles(const QuietHandles&) = delete;
  QuietHandles& operator=(const QuietHandles&) = delete;

 private:
  bool before_;
};

}  // namespace weft
