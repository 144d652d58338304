// Progress: one line on stderr that says how far a run is, its loss, its speed and the time left.
// Needs tensor.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "tensor/tensor.h"

namespace weft::train {

// For tests and for programs that draw elsewhere.
struct ProgressOutput {
  std::ostream* out;            // not owned
  bool is_terminal;             // the line is redrawn in place; otherwise lines are added, and rarely
  std::function<double()> now;  // seconds
  static ProgressOutput standard_error();
};

// train::Progress progress("training", epochs * loader.size());
// for (auto [x, y] : loader) progress.update(step(x, y), x.size(0));
class Progress {
 public:
  // `total` in steps; 0 if it is not known.
  explicit Progress(std::string label, int64_t total = 0,
                    ProgressOutput output = ProgressOutput::standard_error());
  // Ends the line; an exception that passes leaves it as it was.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Counts a step of so many items. The loss, a tensor of one element, is read only when the line is due: a device is not
  // waited for at each step.
  void update(const Tensor& loss, int64_t items = 1);
  void update(double loss, int64_t items = 1);
  // What stands before the numbers, from the next line on.
  void set_label(std::string label) { label_ = std::move(label); }
  // Says the totals on a line that stays. Later updates begin a new one.
  void finish();

  int64_t steps() const { return steps_; }
  // Since the first update's beginning.
  double seconds() const { return output_.now() - start_; }

 private:
  void count(int64_t items);
  double read_loss();
  void draw();
  void write(const std::string& line);

  std::string label_;
  int64_t total_, steps_ = 0, items_ = 0;
  ProgressOutput output_;
  double start_, drawn_at_;
  int64_t drawn_items_ = 0, drawn_steps_ = 0;
  double items_per_second_ = 0, steps_per_second_ = 0;  // smoothed over the last lines
  Tensor loss_tensor_;                                  // the last loss, until it is read
  double loss_;
  bool line_is_open_ = false, is_finished_ = false;
  int exceptions_;
};

}  // namespace weft::train
