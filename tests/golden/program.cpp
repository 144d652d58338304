// Reading and running reference programs.
// Place: between tests/support and the command line of main.cpp.
#include "tests/golden/program.h"

#include <fstream>
#include <limits>

#include "autograd/grad.h"

namespace weft::tests {

using Json = nlohmann::json;

namespace {

template <class T>
T field_or(const Json& object, const char* key, T otherwise) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : found->get<T>();
}

InputSet read_set(const Json& json) {
  InputSet set;
  for (const auto& [name, entry] : json.at("inputs").items()) {
    const std::string view = field_or<std::string>(entry, "view", "");
    WEFT_CHECK(view.empty() || view == "transpose01", "input ", name, " has the unknown view '", view, "'");
    set.inputs.push_back({name, entry.at("t"), field_or(entry, "requires_grad", false), !view.empty(),
                          field_or(entry, "mul1", false)});
  }
  const auto names = [&](const char* key) {
    return field_or(json, key, std::map<std::string, std::string>());
  };
  set.outputs = names("outputs");
  set.grad_outputs = names("grad_outputs");
  set.grads = names("grads");
  if (const auto views = json.find("views"); views != json.end()) {
    for (const auto& [name, view] : views->items())
      set.views[name] = {view.at("of"), view.at("strides"), view.at("offset")};
  }
  return set;
}

using Values = std::map<std::string, Tensor>;

Arg arg_of(const Json& json, const Values& values) {
  if (json.is_object()) {
    if (const auto name = json.find("v"); name != json.end()) {
      const auto found = values.find(name->get<std::string>());
      WEFT_CHECK(found != values.end(), "the program reads ", *name, " before it is made");
      return found->second;
    }
    const std::string number = json.at("f");
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return number == "inf"    ? infinity
           : number == "-inf" ? -infinity
                              : std::numeric_limits<double>::quiet_NaN();
  }
  if (json.is_array()) {
    Arg::List list;
    for (const Json& entry : json) list.push_back(arg_of(entry, values));
    return list;
  }
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  return {};
}

// A statement on its way to an op of the table.
struct Request {
  std::string op;
  Args args;
  Kwargs kwargs;
};

// Names of the manifest that are not ops of the table become such here.
void translate(Request& request) {
  Args& args = request.args;
  if (request.op == "index") {
    // x, i0, i1, … -> x, [i0, i1, …]
    Arg::List indices(args.begin() + 1, args.end());
    args = {args[0], std::move(indices)};
  }
}

// A program names no device: what it makes is where it runs.
void add_device(const Op& op, Kwargs& kwargs) {
  for (const Param& param : op.schema.params)
    if (param.type == ParamType::Device) kwargs.emplace_back(param.name, "cuda");
}

std::vector<Tensor> run_statement(const Statement& statement, const Values& values, Device device) {
  Request request{statement.op, {}, {}};
  for (const Json& arg : statement.args) request.args.push_back(arg_of(arg, values));
  for (const auto& [name, arg] : statement.kwargs.items())
    request.kwargs.emplace_back(name, arg_of(arg, values));
  translate(request);
  const Op* op = OpTable::instance().find(request.op);
  WEFT_CHECK(op != nullptr, "op '", request.op, "' is not there");
  if (device.is_cuda()) add_device(*op, request.kwargs);
  return bind_call(*op, request.args, request.kwargs).run();
}

}  // namespace

std::vector<Program> read_programs(const std::string& manifest) {
  std::ifstream file(manifest);
  WEFT_CHECK(file.good(), manifest, ": cannot be opened");
  std::vector<Program> programs;
  const Json json = Json::parse(file);
  for (const auto& [group, list] : json.at("groups").items()) {
    for (const Json& entry : list) {
      Program program{group, entry.at("id"), {}, entry.at("outputs"), {}};
      for (const Json& statement : entry.at("program"))
        program.statements.push_back({statement.at(0), statement.at(1), statement.at(2), statement.at(3)});
      for (const Json& set : entry.at("sets")) program.sets.push_back(read_set(set));
      programs.push_back(std::move(program));
    }
  }
  return programs;
}

ProgramFunction function_of(const Program& program) {
  return [&program](std::vector<Tensor> inputs) {
    Values values;
    for (size_t i = 0; i < inputs.size(); ++i) values[program.sets[0].inputs[i].name] = inputs[i];
    for (const Statement& statement : program.statements) {
      const std::vector<Tensor> results = run_statement(statement, values, program.device);
      WEFT_CHECK(statement.results.empty() || results.size() == statement.results.size(), statement.op,
                 " gave ", results.size(), " results instead of ", statement.results.size());
      for (size_t i = 0; i < statement.results.size(); ++i) values[statement.results[i]] = results[i];
    }
    std::vector<Tensor> outputs;
    for (const std::string& name : program.outputs) outputs.push_back(values.at(name));
    return outputs;
  };
}

RunResult run_program(const Program& program, const ProgramFunction& function, const InputSet& set,
                      const NamedTensors& tensors) {
  RunResult run;
  run.device = program.device;
  std::vector<Tensor> inputs;
  for (const InputSet::Input& input : set.inputs) {
    Tensor leaf = copy_of(tensors.at(input.tensor)).to(program.device);
    if (input.requires_grad) leaf.requires_grad_();
    run.leaves[input.name] = leaf;
    Tensor fed = leaf;
    if (input.is_transposed) fed = bind_call(OpTable::instance().get("transpose"), {fed, 0, 1}).run()[0];
    if (input.is_times_one) fed = bind_call(OpTable::instance().get("mul"), {fed, 1}).run()[0];
    run.values[input.name] = fed;
    inputs.push_back(fed);
  }
  const std::vector<Tensor> outputs = function(std::move(inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = program.outputs[i];
    const auto input = run.values.find(name);
    WEFT_CHECK(input == run.values.end() || input->second.is_same(outputs[i]), name,
               ": came back as another tensor than was given");
    run.values[name] = outputs[i];
  }
  return run;
}

std::map<std::string, Tensor> gradients_of(const RunResult& run, const InputSet& set,
                                           const NamedTensors& tensors, Pullback how) {
  std::vector<Tensor> outputs, grad_outputs, leaves;
  for (const auto& [name, key] : set.grad_outputs) {
    outputs.push_back(run.values.at(name));
    grad_outputs.push_back(copy_of(tensors.at(key)).to(run.device));
  }
  std::vector<std::string> names;
  for (const InputSet::Input& input : set.inputs) {
    if (!input.requires_grad) continue;
    names.push_back(input.name);
    leaves.push_back(run.leaves.at(input.name));
  }
  std::map<std::string, Tensor> gradients;
  if (how == Pullback::Grad) {
    const std::vector<Tensor> found =
        autograd::grad(outputs, leaves, grad_outputs, std::nullopt, false, /*allow_unused=*/true);
    for (size_t i = 0; i < names.size(); ++i) gradients[names[i]] = found[i];
  } else {
    autograd::backward(outputs, grad_outputs);
    for (size_t i = 0; i < names.size(); ++i) gradients[names[i]] = leaves[i].grad();
  }
  return gradients;
}

}  // namespace weft::tests
