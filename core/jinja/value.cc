#include "core/jinja/value.h"

#include <algorithm>

#include "core/jinja/compare.h"
#include "core/jinja/run/builtins.h"
#include "core/jinja/run/interpreter.h"

namespace tenon::chat {
namespace {

uint32_t deepest(const Values& values) {
  uint32_t depth = 0;
  for (const Value& value : values) depth = std::max(depth, value.depth());
  return depth + 1;
}

}  // namespace

bool Value::is_callable() const {
  return macro() != nullptr || method() != nullptr || function() != nullptr || loop() != nullptr;
}

Namespace* Value::space() const {
  const auto* held = std::get_if<Namespace*>(&data_);
  return held == nullptr ? nullptr : *held;
}

const Function* Value::function() const {
  const auto* held = std::get_if<const Function*>(&data_);
  return held == nullptr ? nullptr : *held;
}

Integer Value::whole() const {
  return is_boolean() ? static_cast<Integer>(boolean()) : std::get<Integer>(data_);
}

double Value::real() const {
  return is_real() ? std::get<double>(data_) : static_cast<double>(whole());
}

uint32_t Value::depth() const {
  if (const List* values = list()) return values->depth;
  if (const Dict* entries = dict()) return entries->depth;
  if (const Method* bound = method()) return bound->self.depth() + 1;
  if (const LoopState* state = loop()) return state->items->depth + 1;
  return 0;
}

List::List(ListKind list_kind, Values values, Budget* budget)
    : kind(list_kind),
      items(std::move(values)),
      depth(deepest(items)),
      held(budget, items.size() * sizeof(Value) + 96) {
  if (budget != nullptr && depth > kDeepestValue) budget->exceed("levels of nesting");
}

Dict::Dict(std::vector<Item> entries, Budget* budget)
    : budget_(budget), held_(budget, entries.size() * (sizeof(Item) + 48) + 128) {
  items.reserve(entries.size());
  for (Item& entry : entries) {
    if (budget != nullptr && budget->is_exceeded()) break;
    depth = std::max({depth, entry.first.depth() + 1, entry.second.depth() + 1});
    const bool is_text = entry.first.is_text();
    if (Value* same = const_cast<Value*>(find(entry.first))) {
      *same = std::move(entry.second);
      continue;
    }
    if (is_text) index_.emplace(entry.first.bytes(), items.size());
    items.push_back(std::move(entry));
  }
  if (budget != nullptr && depth > kDeepestValue) budget->exceed("levels of nesting");
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &items[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_text()) return find(key.bytes());
  if (index_.size() == items.size()) return nullptr;
  for (const auto& [name, value] : items) {
    if (budget_ != nullptr && budget_->is_exceeded()) return nullptr;
    if (!name.is_text() && are_equal(name, key, budget_)) return &value;
  }
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [key, held] : attributes) {
    if (key == name) {
      held = std::move(value);
      return;
    }
  }
  attributes.emplace_back(name, std::move(value));
}

Value make_text(Budget& budget, MarkedText text) {
  return std::make_shared<const TextObject>(std::move(text), &budget);
}
Value make_text(Budget& budget, std::string text, bool is_trusted) {
  return make_text(budget, MarkedText(std::move(text), is_trusted));
}
Value make_list(Budget& budget, Values items, ListKind kind) {
  return std::make_shared<List>(kind, std::move(items), &budget);
}
Value make_dict(Budget& budget, std::vector<Dict::Item> items) {
  return std::make_shared<const Dict>(std::move(items), &budget);
}
Value make_undefined(std::string what) {
  return Undefined{std::make_shared<const std::string>(std::move(what))};
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_boolean()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_real()) return "float";
  if (value.is_text()) return "str";
  if (value.dict() != nullptr) return "dict";
  if (value.space() != nullptr) return "namespace";
  if (value.macro() != nullptr) return "macro";
  if (value.loop() != nullptr) return "loop";
  const List* list = value.list();
  if (list == nullptr) return "function";
  switch (list->kind) {
    case ListKind::list:
      return "list";
    case ListKind::tuple:
      return "tuple";
    case ListKind::range:
      return "range";
    case ListKind::view:
      return "view";
    case ListKind::generator:
      return "generator";
  }
  return "list";
}

}  // namespace tenon::chat
