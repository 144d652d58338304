// OrderedDict: names and values in the order in which they were inserted, as libtorch's of that name.
// Needs base/error. Modules keep parameters and children in it and give lists of names and tensors as it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/base/error.h"

namespace weft::nn {

// Lookup is linear: dictionaries hold a module's own entries, or are walked in order.
template <class Value>
class OrderedDict {
 public:
  // `for (auto& item : dict) item.key(), item.value()`, or `for (auto& [name, value] : dict)`.
  struct Item {
    std::string name;
    Value element;

    const std::string& key() const { return name; }
    Value& value() { return element; }
    const Value& value() const { return element; }
    Value& operator*() { return element; }
    const Value& operator*() const { return element; }
    Value* operator->() { return &element; }
    const Value* operator->() const { return &element; }
  };

  OrderedDict() = default;
  OrderedDict(std::initializer_list<Item> items) {
    for (const Item& item : items) insert(item.name, item.element);
  }

  size_t size() const { return items_.size(); }
  bool is_empty() const { return items_.empty(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  Item& front() { return items_.front(); }
  Item& back() { return items_.back(); }
  const std::vector<Item>& items() const { return items_; }

  // Null if there is no such name.
  Value* find(std::string_view key) {
    for (Item& item : items_)
      if (item.name == key) return &item.element;
    return nullptr;
  }
  const Value* find(std::string_view key) const { return const_cast<OrderedDict*>(this)->find(key); }
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  // Error if there is no such name.
  Value& operator[](std::string_view key) {
    Value* value = find(key);
    WEFT_CHECK(value != nullptr, "ordered_dict: there is no '", key, "'; the names are ", list_of_keys());
    return *value;
  }
  const Value& operator[](std::string_view key) const { return const_cast<OrderedDict&>(*this)[key]; }
  Item& operator[](size_t i) { return items_[i]; }
  const Item& operator[](size_t i) const { return items_[i]; }

  // Error if the name is taken.
  Value& insert(std::string key, Value value) {
    WEFT_CHECK(!contains(key), "ordered_dict: '", key, "' is there already");
    return append(std::move(key), std::move(value));
  }
  // For names that are known to be new: makes long lists in linear time.
  Value& append(std::string key, Value value) {
    items_.push_back({std::move(key), std::move(value)});
    return items_.back().element;
  }
  void erase(std::string_view key) {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].name != key) continue;
      items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    WEFT_CHECK(false, "ordered_dict: there is no '", key, "' to erase; the names are ", list_of_keys());
  }
  void clear() { items_.clear(); }

  std::vector<std::string> keys() const {
    std::vector<std::string> result;
    for (const Item& item : items_) result.push_back(item.name);
    return result;
  }
  std::vector<Value> values() const {
    std::vector<Value> result;
    for (const Item& item : items_) result.push_back(item.element);
    return result;
  }
  std::vector<std::pair<std::string, Value>> pairs() const {
    std::vector<std::pair<std::string, Value>> result;
    for (const Item& item : items_) result.emplace_back(item.name, item.element);
    return result;
  }

 private:
  std::string list_of_keys() const {
    std::string text;
    for (const Item& item : items_) text += (text.empty() ? "" : ", ") + item.name;
    return text.empty() ? "none" : text;
  }

  std::vector<Item> items_;
};

}  // namespace weft::nn
