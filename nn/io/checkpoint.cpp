// save() and load(): comparing a stored state with the one at hand before anything is written.
#include "nn/io/checkpoint.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/grad_mode.h"
#include "nn/io/tensor_bytes.h"
#include "tensor/dispatch.h"

namespace weft {
namespace io::detail {

using weft::detail::concat;

namespace {

// Long lists say nothing that their beginning does not.
constexpr size_t kMaxListed = 20;

std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size() && i < kMaxListed; ++i) text += (i == 0 ? "" : ", ") + parts[i];
  if (parts.size() > kMaxListed) text += concat(" and ", parts.size() - kMaxListed, " more");
  return text;
}

struct Stored {
  size_t position;
  std::vector<int64_t> sizes;
};
using StoredByName = std::unordered_map<std::string_view, Stored>;

// Which stored tensor each entry of the list gets; -1 for none.
std::vector<int64_t> match(const StateList& list, const StoredByName& stored, bool strict,
                           const std::string& who, LoadReport& report) {
  WEFT_CHECK(current_trace() == nullptr, who, ": a state is loaded outside of compiled functions");
  std::vector<int64_t> positions;
  std::vector<std::string> shapes;
  std::unordered_set<std::string_view> wanted;
  for (const StateList::Entry& entry : list.entries) {
    wanted.insert(entry.name);
    const auto found = stored.find(entry.name);
    positions.push_back(found == stored.end() ? -1 : static_cast<int64_t>(found->second.position));
    if (found == stored.end()) {
      report.missing.push_back(entry.name);
      continue;
    }
    const std::vector<int64_t>& sizes = found->second.sizes;
    const std::vector<int64_t> own = entry.cell ? std::vector<int64_t>{} : entry.tensor.sizes().vec();
    if (own != sizes)
      shapes.push_back(concat(entry.name, " is ", entry.cell ? "a number" : shape_text(own), " here and ",
                              shape_text(sizes), " there"));
  }
  std::vector<const StoredByName::value_type*> unexpected;
  for (const auto& item : stored)
    if (!wanted.contains(item.first)) unexpected.push_back(&item);
  std::sort(unexpected.begin(), unexpected.end(),
            [](const auto* a, const auto* b) { return a->second.position < b->second.position; });
  for (const auto* item : unexpected) report.unexpected.push_back(printable(item->first, 200));

  const bool names_fail = strict && !(report.missing.empty() && report.unexpected.empty());
  if (!names_fail && shapes.empty()) return positions;
  std::string text = who + " does not fit; nothing was changed";
  if (strict && !report.missing.empty()) text += "\n  missing there: " + listed(report.missing);
  if (strict && !report.unexpected.empty()) text += "\n  unexpected there: " + listed(report.unexpected);
  if (!shapes.empty()) text += "\n  other shapes: " + listed(shapes);
  weft::detail::throw_error(text);
}

void write(const StateList::Entry& entry, const Tensor& value) {
  if (entry.cell) {
    entry.cell->set(value.item<double>());
  } else {
    Tensor target = entry.tensor;
    target.copy_(value);
  }
}

}  // namespace

NamedTensors to_named_tensors(const StateList& list) {
  NamedTensors result;
  for (const StateList::Entry& entry : list.entries) {
    Tensor tensor = entry.tensor;
    if (entry.cell) {
      tensor = make_tensor({}, kFloat64);
      *data_of<double>(tensor) = entry.cell->value();
    }
    result.emplace_back(entry.name, tensor);
  }
  return result;
}

LoadReport load_state(const StateList& list, const NamedTensors& state, bool strict) {
  const std::string who = "load_state_dict: the state";
  StoredByName stored;
  for (size_t i = 0; i < state.size(); ++i) {
    WEFT_CHECK(state[i].second.defined(), who, " holds ", in_quotes(state[i].first), ", which is undefined");
    WEFT_CHECK(stored.emplace(state[i].first, Stored{i, state[i].second.sizes().vec()}).second, who,
               " holds ", in_quotes(state[i].first), " twice");
  }
  LoadReport report;
  const std::vector<int64_t> positions = match(list, stored, strict, who, report);
  const NoGradGuard no_grad;
  for (size_t i = 0; i < positions.size(); ++i)
    if (positions[i] >= 0) write(list.entries[i], state[static_cast<size_t>(positions[i])].second);
  return report;
}

LoadReport load_file(const StateList& list, const std::string& path, bool strict) {
  const SafetensorsFile file(path);
  StoredByName stored;
  for (size_t i = 0; i < file.entries().size(); ++i)
    stored.emplace(file.entries()[i].name, Stored{i, file.entries()[i].sizes});
  LoadReport report;
  const std::vector<int64_t> positions = match(list, stored, strict, "load: '" + path + "'", report);
  // A file that turns out to be damaged must not leave half a state behind.
  std::vector<Tensor> values(positions.size());
  for (size_t i = 0; i < positions.size(); ++i)
    if (positions[i] >= 0) values[i] = file.load(file.entries()[static_cast<size_t>(positions[i])].name);
  const NoGradGuard no_grad;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].defined()) write(list.entries[i], values[i]);
  return report;
}

}  // namespace io::detail

void save(const Tensor& x, const std::string& path) { io::save_safetensors(path, {{"0", x}}); }

void load(Tensor& x, const std::string& path) {
  const io::SafetensorsFile file(path);
  WEFT_CHECK(file.entries().size() == 1, "load: '", path, "' holds ", file.entries().size(),
             " tensors, and one is asked for; io::load_safetensors gives all with their names");
  x = file.load(file.entries()[0].name);
}

void save(const std::vector<Tensor>& tensors, const std::string& path) {
  io::NamedTensors named;
  for (const Tensor& tensor : tensors) named.emplace_back(std::to_string(named.size()), tensor);
  io::save_safetensors(path, named);
}

void load(std::vector<Tensor>& tensors, const std::string& path) {
  const io::SafetensorsFile file(path);
  std::vector<Tensor> loaded;
  for (size_t i = 0; i < file.entries().size(); ++i) {
    const std::string name = std::to_string(i);
    WEFT_CHECK(file.contains(name), "load: '", path, "' holds ", io::in_quotes(file.entries()[i].name),
               ", and tensors named 0 to ", file.entries().size() - 1,
               " are asked for; io::load_safetensors gives all with their names");
    loaded.push_back(file.load(name));
  }
  tensors = std::move(loaded);
}

}  // namespace weft
