// Progress: when a line is due, and what it says.
#include "nn/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <iostream>

namespace weft::train {

namespace {

// Seconds between two drawings: quick enough to look alive, and rare enough to cost nothing.
constexpr double kRedraw = 0.1;
// Between two lines in a log file.
constexpr double kLine = 10;
// The weight of the newest interval in the speeds: the first steps of a run are slow and must be forgotten.
constexpr double kNewest = 0.3;

// 12345678 -> "12,345,678"
std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > 0; i -= 3)
    text.insert(static_cast<size_t>(i), ",");
  return text;
}

// "0:07", "12:30", "3:00:05"
std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::ceil(std::min(std::max(seconds, 0.0), 1e9)));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string speed_text(double items_per_second) {
  return items_per_second < 10 ? fmt::format("{:.2f} items/s", items_per_second)
                               : grouped(std::llround(std::min(items_per_second, 1e15))) + " items/s";
}

}  // namespace

ProgressOutput ProgressOutput::standard_error() {
  return {&std::cerr, ::isatty(STDERR_FILENO) == 1, [] {
            return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
          }};
}

Progress::Progress(std::string label, int64_t total, ProgressOutput output)
    : label_(std::move(label)),
      total_(total),
      output_(std::move(output)),
      start_(output_.now()),
      drawn_at_(start_),
      loss_(std::nan("")),
      exceptions_(std::uncaught_exceptions()) {
  WEFT_CHECK(total >= 0, "progress: the total is ", total, " steps; it must be 0 (not known) or more");
}

Progress::~Progress() {
  try {
    if (std::uncaught_exceptions() == exceptions_) finish();
    else if (line_is_open_) *output_.out << std::endl;
  } catch (...) {  // NOLINT(bugprone-empty-catch): a line that cannot be drawn must not end the program
  }
}

void Progress::update(const Tensor& loss, int64_t items) {
  // Not the tensor itself, which holds the graph of its step.
  loss_tensor_ = loss.requires_grad() ? loss.detach() : loss;
  count(items);
}

void Progress::update(double loss, int64_t items) {
  loss_tensor_.reset();
  loss_ = loss;
  count(items);
}

void Progress::count(int64_t items) {
  ++steps_;
  items_ += items;
  is_finished_ = false;
  if (output_.now() - drawn_at_ >= (output_.is_terminal ? kRedraw : kLine)) draw();
}

double Progress::read_loss() {
  if (loss_tensor_.defined()) loss_ = loss_tensor_.item<double>();
  loss_tensor_.reset();
  return loss_;
}

void Progress::draw() {
  const double now = output_.now();
  const double interval = std::max(now - drawn_at_, 1e-9);
  const bool first = drawn_steps_ == 0;
  const auto smooth = [&](double& speed, int64_t done) {
    const double newest = static_cast<double>(done) / interval;
    speed = first ? newest : (1 - kNewest) * speed + kNewest * newest;
  };
  smooth(items_per_second_, items_ - drawn_items_);
  smooth(steps_per_second_, steps_ - drawn_steps_);
  drawn_at_ = now;
  drawn_items_ = items_;
  drawn_steps_ = steps_;

  std::string line = label_ + "  " + grouped(steps_);
  if (total_ > 0) line += "/" + grouped(total_);
  line += fmt::format("  loss {:.4g}  {}", read_loss(), speed_text(items_per_second_));
  if (total_ >= steps_ && steps_per_second_ > 0)
    line += "  " + clock_text(static_cast<double>(total_ - steps_) / steps_per_second_) + " left";
  write(line);
}

void Progress::finish() {
  if (is_finished_ || steps_ == 0) return;
  is_finished_ = true;
  const double seconds = std::max(this->seconds(), 1e-9);
  write(fmt::format("{}  {} steps  loss {:.4g}  {}  {:.2f} s", label_, grouped(steps_), read_loss(),
                    speed_text(static_cast<double>(items_) / seconds), seconds));
  if (output_.is_terminal) *output_.out << std::endl;
  line_is_open_ = false;
}

void Progress::write(const std::string& line) {
  if (output_.is_terminal) {
    *output_.out << '\r' << line << "\x1b[K" << std::flush;  // and clear what a longer line left behind
    line_is_open_ = true;
  } else {
    *output_.out << line << std::endl;
  }
}

}  // namespace weft::train
