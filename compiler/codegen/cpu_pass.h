// CpuPasses: one pass over the columns as C++: its statements, and the loops of vectors and blocks around them.
// Needs cpu_plan. cpu_codegen puts passes into functions.
#pragma once

#include "compiler/codegen/cpu_plan.h"

namespace weft::compiler {

// A text in which every @word stands for the value of that name.
std::string filled(std::string_view text,
                   std::initializer_list<std::pair<std::string_view, std::string>> values);

class CpuPasses {
 public:
  explicit CpuPasses(CpuPlan& plan) : plan_(plan), body_(plan.body) {}

  struct Pass {
    std::string body;             // the statements of one vector
    std::vector<uint32_t> folds;  // along the columns
    bool is_heavy = false;
  };
  // What the plan says of the pass, put into the section.
  Pass collect(CpuSection& section, uint32_t pass);

  // The statements as a function of the column, the number of lanes and the accumulators.
  std::string lambda(const std::string& name, const Pass& pass) const;
  // Columns first … last-1, where nothing is folded along them.
  std::string plain_loop(const std::string& name, const Pass& pass, const std::string& first,
                         const std::string& last) const;
  // Columns begin … end-1 of one block: four accumulators of each fold, then its value as value<f>.
  std::string block_loop(const std::string& name, const Pass& pass, const std::string& begin,
                         const std::string& end) const;
  // The whole pass within a row: afterwards fold<f> is the result of fold f.
  std::string row_pass(const std::string& name, const Pass& pass) const;

  // Of a fold: its vector type, its element in memory, a call w_<what>_<fold>_<type>, and two of its values combined.
  std::string type_of(uint32_t fold) const;
  const char* element_of(uint32_t fold) const;
  std::string function(const char* what, uint32_t fold) const;
  std::string folded(uint32_t fold, const std::string& a, const std::string& b) const;

 private:
  std::string call(const std::string& name, const Pass& pass, const std::string& c, const std::string& n,
                   const std::string& which) const;
  std::string accumulators(const Pass& pass, bool is_array) const;
  std::string prefetches(CpuSection& section, uint32_t pass);
  std::string ahead_of(CpuSection& section, const CpuSection::Stream& stream);

  CpuPlan& plan_;
  const LoopBody& body_;
};

}  // namespace weft::compiler
