// A program as a short C++ function, and its calls.
// Place: beside program.cpp.
#include <cmath>
#include <sstream>

#include "tests/fuzz/program.h"

namespace weft::tests {
namespace {

std::string text_of(ValueName name) { return "v" + std::to_string(name); }

std::string text_of(const Extent& extent) {
  std::string text;
  switch (extent.of) {
    case Extent::Of::Nothing: return std::to_string(extent.plus);
    case Extent::Of::Batch: text = "B"; break;
    case Extent::Of::Size: text = text_of(extent.value) + ".size(" + std::to_string(extent.dim) + ")"; break;
    case Extent::Of::Numel: text = text_of(extent.value) + ".numel()"; break;
  }
  if (extent.plus != 0) text += (extent.plus > 0 ? " + " : " - ") + std::to_string(std::abs(extent.plus));
  return text;
}

std::string text_of(const std::vector<Extent>& extents) {
  std::string text = "{";
  for (size_t i = 0; i < extents.size(); ++i) text += (i == 0 ? "" : ", ") + text_of(extents[i]);
  return text + "}";
}

std::string text_of(const Scalar& number) {
  std::ostringstream text;
  text.precision(17);
  if (number.is_bool()) text << (number.to_bool() ? "true" : "false");
  else if (number.is_floating())
    text << number.to_double() << (number.to_double() == std::floor(number.to_double()) ? ".0" : "");
  else text << number.to_int();
  return text.str();
}

std::string text_of(const ProgramOperand& operand) {
  switch (operand.kind) {
    case ProgramOperand::Kind::None: return "{}";
    case ProgramOperand::Kind::Value: return text_of(operand.value);
    case ProgramOperand::Kind::Number: return text_of(operand.number);
    case ProgramOperand::Kind::Argument: return "s" + std::to_string(operand.argument);
  }
  return {};
}

std::string text_of(const ProgramAttr& attr) {
  if (const auto* extent = std::get_if<Extent>(&attr)) return text_of(*extent);
  if (const auto* list = std::get_if<std::vector<Extent>>(&attr)) return text_of(*list);
  const Attr& plain = std::get<Attr>(attr);
  std::ostringstream text;
  if (plain.is_none()) text << "{}";
  else text << plain;
  return text.str();
}

std::string text_of(const ProgramInput& input) {
  std::ostringstream text;
  text << text_of(input.name) << " = ";
  switch (input.shares) {
    case ProgramInput::Shares::Nothing: {
      text << short_name_of(input.dtype) << text_of(input.sizes);
      if (input.layout != Arrangement::Contiguous) text << ' ' << name_of(input.layout);
      if (input.below > 0) text << " below " << input.below;
      else text << " from " << input.low << " to " << input.high;
      if (input.specials) text << " with specials";
      break;
    }
    case ProgramInput::Shares::Itself: text << text_of(input.with); break;
    case ProgramInput::Shares::Transposed: text << text_of(input.with) << ".transpose(0, 1)"; break;
    case ProgramInput::Shares::Tail: text << text_of(input.with) << ".slice(0, 1)"; break;
    case ProgramInput::Shares::EverySecond: text << text_of(input.with) << ".slice(0, 0, {}, 2)"; break;
  }
  if (input.requires_grad) text << ", requires grad";
  return text.str();
}

std::string text_of(const ProgramStep& step) {
  std::string text;
  if (step.results.size() == 1) {
    text = "auto " + text_of(step.results[0]) + " = ";
  } else if (!step.results.empty()) {
    text = "auto [";
    for (size_t i = 0; i < step.results.size(); ++i) text += (i == 0 ? "" : ", ") + text_of(step.results[i]);
    text += "] = ";
  }
  text += step.op->name() + "(";
  size_t operand = 0, attr = 0, written = 0;
  const auto add = [&](const std::string& part) { text += (written++ == 0 ? "" : ", ") + part; };
  size_t num_lists = 0, num_single = 0;
  for (const Param& param : step.op->schema.params) {
    const bool is_list = param.type == ParamType::TensorList || param.type == ParamType::OptionalTensorList;
    num_lists += is_list;
    num_single += param.is_operand() && !is_list;
  }
  for (const Param& param : step.op->schema.params) {
    if (!param.is_operand()) {
      if (attr < step.attrs.size()) add(param.name + "=" + text_of(step.attrs[attr]));
      ++attr;
    } else if (param.type == ParamType::TensorList || param.type == ParamType::OptionalTensorList) {
      std::string list = "{";
      for (size_t i = num_single; i < step.operands.size(); ++i)
        list += (i == num_single ? "" : ", ") + text_of(step.operands[i]);
      add(list + "}");
    } else {
      if (operand < step.operands.size()) add(text_of(step.operands[operand]));
      ++operand;
    }
  }
  return text + ");";
}

}  // namespace

std::string to_string(const Program& program) {
  std::string text = "// seed " + std::to_string(program.seed) + "; B =";
  for (size_t i = 0; i < program.batches.size(); ++i)
    text += (i == 0 ? " " : ", then ") + std::to_string(program.batches[i]);
  if (program.dynamic) text += "; dynamic = true";
  text += "\n";
  std::string params;
  for (const ProgramInput& input : program.inputs) {
    text += "// " + text_of(input) + "\n";
    params += (params.empty() ? "Tensor " : ", Tensor ") + text_of(input.name);
  }
  for (uint32_t i = 0; i < program.num_numbers; ++i) params += ", Scalar s" + std::to_string(i);
  text += "[](" + params + ") {\n";
  for (size_t i = 0; i < program.steps.size(); ++i)
    text += "  " + text_of(program.steps[i]) + "  // program:" + std::to_string(i + 1) + "\n";
  text += "  return {";
  for (size_t i = 0; i < program.results.size(); ++i)
    text += (i == 0 ? "" : ", ") + text_of(program.results[i]);
  text += "};";
  switch (program.backward) {
    case Backward::None: break;
    case Backward::Outside: text += "  // backward() of the results by the caller"; break;
    case Backward::GradInside: text += "  // and grad() of sum(r * sin(r.detach())) over them"; break;
    case Backward::BackwardInside:
      text += "  // after backward() of sum(r * sin(r.detach())) over them";
      break;
  }
  return text + "\n}\n";
}

}  // namespace weft::tests
