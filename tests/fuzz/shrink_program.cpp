// Changes are tried one after another, the large ones first; what still fails is kept.
// Place: the out-of-line half of shrink_program.h.
#include "tests/fuzz/shrink_program.h"

#include <algorithm>
#include <map>

namespace weft::tests {
namespace {

bool is_read(const Program& program, ValueName name) {
  const auto in_extent = [&](const Extent& extent) {
    return (extent.of == Extent::Of::Size || extent.of == Extent::Of::Numel) && extent.value == name;
  };
  for (const ProgramInput& input : program.inputs)
    if (input.shares != ProgramInput::Shares::Nothing && input.with == name) return true;
  for (const ProgramStep& step : program.steps) {
    for (const ProgramOperand& operand : step.operands)
      if (operand.kind == ProgramOperand::Kind::Value && operand.value == name) return true;
    for (const ProgramAttr& attr : step.attrs) {
      if (const auto* extent = std::get_if<Extent>(&attr); extent != nullptr && in_extent(*extent))
        return true;
      if (const auto* list = std::get_if<std::vector<Extent>>(&attr);
          list != nullptr && std::any_of(list->begin(), list->end(), in_extent))
        return true;
    }
  }
  return std::count(program.results.begin(), program.results.end(), name) > 0;
}

// Of an operand; those of a list come last.
ParamType type_of(const Op& op, size_t operand) {
  ParamType list = ParamType::TensorList;
  for (const Param& param : op.schema.params) {
    if (!param.is_operand()) continue;
    if (param.type == ParamType::TensorList || param.type == ParamType::OptionalTensorList) list = param.type;
    else if (operand-- == 0) return param.type;
  }
  return list;
}

void rename(Program& program, ValueName from, ValueName to) {
  for (ProgramStep& step : program.steps) {
    for (ProgramOperand& operand : step.operands)
      if (operand.kind == ProgramOperand::Kind::Value && operand.value == from) operand.value = to;
    for (ProgramAttr& attr : step.attrs) {
      if (auto* extent = std::get_if<Extent>(&attr); extent != nullptr && extent->value == from)
        extent->value = to;
      if (auto* list = std::get_if<std::vector<Extent>>(&attr))
        for (Extent& extent : *list)
          if (extent.value == from) extent.value = to;
    }
  }
  for (ValueName& result : program.results)
    if (result == from) result = to;
}

// Sizes and dtype of every value at every call, as far as eager code comes.
std::map<ValueName, std::vector<OutputSpec>> specs_of(const Program& program) {
  std::map<ValueName, std::vector<OutputSpec>> specs;
  for (size_t call = 0; call < program.batches.size(); ++call) {
    const Tensors inputs = make_inputs(program, call);
    const Numbers numbers = make_numbers(program, call);
    ProgramValues values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[program.inputs[i].name] = inputs[i];
      specs[program.inputs[i].name].push_back(spec_of(inputs[i]));
    }
    manual_seed(program.seed + 1);
    try {
      for (size_t step = 0; step < program.steps.size(); ++step) {
        run_step(program, step, values, numbers, false);
        for (const ValueName name : program.steps[step].results) specs[name].push_back(spec_of(values[name]));
      }
    } catch (const Error&) {
    }
  }
  return specs;
}

class Shrinker {
 public:
  Shrinker(Program program, const FailureOf& failure_of, int max_tries)
      : best_(std::move(program)), failure_of_(failure_of), tries_(max_tries) {}

  Program shrink() {
    bool is_smaller = true;
    while (is_smaller && tries_ > 0) {
      is_smaller = false;
      is_smaller |= drop_calls();
      is_smaller |= drop_results();
      is_smaller |= drop_steps();
      is_smaller |= replace_steps();
      is_smaller |= simplify_operands();
      is_smaller |= simplify_inputs();
    }
    return std::move(best_);
  }

 private:
  // Keeps the changed program if it fails.
  bool keep(Program changed) {
    if (tries_-- <= 0) return false;
    std::erase_if(changed.inputs, [&](const ProgramInput& input) {
      return changed.inputs.size() > 1 && !is_read(changed, input.name);
    });
    try {
      if (failure_of_(changed).empty()) return false;
    } catch (const std::exception&) {
      return false;
    }
    best_ = std::move(changed);
    return true;
  }
  template <class Change>
  bool try_change(const Change& change) {
    Program changed = best_;
    change(changed);
    return keep(std::move(changed));
  }

  bool drop_calls() {
    bool any = false;
    for (size_t i = best_.batches.size(); i-- > 0 && best_.batches.size() > 1;)
      any |= try_change(
          [&](Program& p) { p.batches.erase(p.batches.begin() + static_cast<std::ptrdiff_t>(i)); });
    if (best_.backward != Backward::None)
      any |= try_change([](Program& p) {
               p.backward = Backward::None;
               for (ProgramInput& input : p.inputs) input.requires_grad = false;
             }) ||
             (best_.backward != Backward::Outside &&
              try_change([](Program& p) { p.backward = Backward::Outside; }));
    if (best_.dynamic) any |= try_change([](Program& p) { p.dynamic = false; });
    return any;
  }

  bool drop_results() {
    bool any = false;
    for (size_t i = best_.results.size(); i-- > 0;)
      any |= try_change(
          [&](Program& p) { p.results.erase(p.results.begin() + static_cast<std::ptrdiff_t>(i)); });
    return any;
  }

  bool drop_steps() {
    bool any = false;
    // All from some step on, with the last values as results.
    for (size_t n = 1; n < best_.steps.size(); n = n * 2) {
      any |= try_change([&](Program& p) {
        const size_t kept = p.steps.size() - n;
        for (size_t i = kept; i < p.steps.size(); ++i)
          for (const ValueName name : p.steps[i].results) std::erase(p.results, name);
        p.steps.resize(kept);
        for (size_t i = kept; p.results.empty() && i-- > 0;) p.results = p.steps[i].results;
      });
    }
    for (size_t i = best_.steps.size(); i-- > 0;) {
      if (i >= best_.steps.size()) continue;
      const std::vector<ValueName>& results = best_.steps[i].results;
      if (std::any_of(results.begin(), results.end(), [&](ValueName name) { return is_read(best_, name); }))
        continue;
      any |= try_change([&](Program& p) { p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(i)); });
    }
    return any;
  }

  // An input, or an operand of its sizes and dtype, in the place of what a step gives.
  bool replace_steps() {
    bool any = false;
    for (size_t i = best_.steps.size(); i-- > 0;) {
      if (i >= best_.steps.size() || best_.steps[i].results.empty()) continue;
      const auto specs = specs_of(best_);
      const ProgramStep step = best_.steps[i];
      bool is_gone = false;
      for (const ProgramOperand& operand : step.operands) {
        if (is_gone || operand.kind != ProgramOperand::Kind::Value || step.results.size() != 1) continue;
        const auto from = specs.find(step.results[0]), to = specs.find(operand.value);
        if (from == specs.end() || to == specs.end() || from->second[0].dtype != to->second[0].dtype ||
            SizesView(from->second[0].sizes) != SizesView(to->second[0].sizes))
          continue;
        is_gone = try_change([&](Program& p) {
          p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(i));
          rename(p, step.results[0], operand.value);
        });
      }
      if (!is_gone) {
        is_gone = try_change([&](Program& p) {
          p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(i));
          for (const ValueName name : step.results) {
            const auto found = specs.find(name);
            if (found == specs.end() || !is_read(p, name)) continue;
            p.inputs.push_back(input_like(p, name, found->second));
          }
        });
      }
      any |= is_gone;
    }
    return any;
  }

  static ProgramInput input_like(const Program& program, ValueName name,
                                 const std::vector<OutputSpec>& specs) {
    ProgramInput input;
    input.name = name;
    input.dtype = specs[0].dtype;
    input.requires_grad = program.backward != Backward::None && is_floating(input.dtype);
    for (size_t d = 0; d < specs[0].sizes.size(); ++d) {
      bool is_fixed = true;
      for (const OutputSpec& spec : specs)
        is_fixed =
            is_fixed && d < spec.sizes.size() && spec.sizes[d].concrete() == specs[0].sizes[d].concrete();
      if (is_fixed) input.sizes.push_back({.plus = specs[0].sizes[d].concrete()});
      else
        input.sizes.push_back(
            {.of = Extent::Of::Batch, .plus = specs[0].sizes[d].concrete() - program.batches[0]});
    }
    return input;
  }

  bool simplify_operands() {
    bool any = false;
    for (size_t i = 0; i < best_.steps.size(); ++i) {
      for (size_t k = 0; k < best_.steps[i].operands.size(); ++k) {
        const ProgramOperand operand = best_.steps[i].operands[k];
        if (operand.kind == ProgramOperand::Kind::None) continue;
        const ParamType type = type_of(*best_.steps[i].op, k);
        bool is_done = (type == ParamType::OptionalTensor || type == ParamType::OptionalTensorList ||
                        type == ParamType::OptionalValue) &&
                       try_change([&](Program& p) { p.steps[i].operands[k] = {}; });
        if (!is_done && operand.kind != ProgramOperand::Kind::Number &&
            (type == ParamType::Value || type == ParamType::OptionalValue || type == ParamType::Number))
          is_done = try_change([&](Program& p) {
            p.steps[i].operands[k] = {ProgramOperand::Kind::Number, 0, Scalar(int64_t{2}), 0};
          });
        any |= is_done;
        // Few different inputs read better than many.
        if (is_done || operand.kind != ProgramOperand::Kind::Value) continue;
        for (const ProgramInput& input : std::vector<ProgramInput>(best_.inputs)) {
          if (input.name >= operand.value) break;
          if (try_change([&](Program& p) { p.steps[i].operands[k].value = input.name; })) {
            any = true;
            break;
          }
        }
      }
      for (size_t a = 0; a < best_.steps[i].attrs.size(); ++a) {
        const auto* extent = std::get_if<Extent>(&best_.steps[i].attrs[a]);
        if (extent != nullptr && extent->of == Extent::Of::Size)
          any |= try_change([&](Program& p) { p.steps[i].attrs[a] = Extent{.plus = 2}; });
      }
    }
    const bool has_numbers = std::any_of(best_.steps.begin(), best_.steps.end(), [](const ProgramStep& step) {
      return std::any_of(step.operands.begin(), step.operands.end(), [](const ProgramOperand& operand) {
        return operand.kind == ProgramOperand::Kind::Argument;
      });
    });
    if (best_.num_numbers > 0 && !has_numbers) any |= try_change([](Program& p) { p.num_numbers = 0; });
    return any;
  }

  bool simplify_inputs() {
    bool any = false;
    for (size_t i = 0; i < best_.inputs.size(); ++i) {
      const auto change = [&](const auto& set) {
        if (i >= best_.inputs.size()) return;
        any |= try_change([&](Program& p) { set(p.inputs[i]); });
      };
      const ProgramInput input = best_.inputs[i];
      if (input.shares != ProgramInput::Shares::Nothing) {
        const auto specs = specs_of(best_);
        change([&](ProgramInput& x) { x = input_like(best_, x.name, specs.at(x.name)); });
      }
      if (input.layout != Arrangement::Contiguous)
        change([](ProgramInput& x) { x.layout = Arrangement::Contiguous; });
      if (input.specials) change([](ProgramInput& x) { x.specials = false; });
      if (input.requires_grad) change([](ProgramInput& x) { x.requires_grad = false; });
      if (input.dtype != DType::Float32) change([](ProgramInput& x) { x.dtype = DType::Float32; });
      for (size_t d = 0; d < input.sizes.size(); ++d) {
        change([&](ProgramInput& x) { x.sizes.erase(x.sizes.begin() + static_cast<std::ptrdiff_t>(d)); });
        if (best_.inputs.size() <= i || best_.inputs[i].sizes.size() != input.sizes.size()) break;
        if (input.sizes[d].of == Extent::Of::Batch)
          change([&](ProgramInput& x) { x.sizes[d] = {.plus = 3}; });
        for (const int64_t size : {1, 2, 3})
          if (best_.inputs[i].sizes[d].of == Extent::Of::Nothing && size < best_.inputs[i].sizes[d].plus)
            change([&](ProgramInput& x) { x.sizes[d].plus = size; });
      }
    }
    for (size_t call = 0; call < best_.batches.size(); ++call)
      for (const int64_t size : {2, 3, 5})
        if (size < best_.batches[call] && std::count(best_.batches.begin(), best_.batches.end(), size) == 0 &&
            try_change([&](Program& p) { p.batches[call] = size; }))
          any = true;
    return any;
  }

  Program best_;
  const FailureOf& failure_of_;
  int tries_;
};

}  // namespace

Program shrink_program(Program program, const FailureOf& failure_of, int max_tries) {
  return Shrinker(std::move(program), failure_of, max_tries).shrink();
}

}  // namespace weft::tests
