#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/quote.h"
#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/interpreter.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

constexpr size_t kMostNamespaces = 100'000;

Value missing(const Value& value, std::string_view name) {
  return make_undefined("a value of type '" + std::string(type_name(value)) +
                        "' has no attribute " + in_quotes(name, 80));
}

// An item by number, from the end where negative.
const Value* item_at(const List& list, Integer index) {
  const auto count = static_cast<Integer>(list.items.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) return nullptr;
  return &list.items[static_cast<size_t>(index)];
}

Value loop_attribute(const LoopState& loop, std::string_view name, const Value& self) {
  const Values& items = loop.items->items;
  const auto index = static_cast<Integer>(loop.index);
  const auto count = static_cast<Integer>(items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  // Only recursive loops would be deeper.
  if (name == "depth") return Integer{1};
  if (name == "depth0") return Integer{0};
  if (name == "previtem") {
    return index == 0 ? make_undefined("there is no previous item") : items[loop.index - 1];
  }
  if (name == "nextitem") {
    return index + 1 == count ? make_undefined("there is no next item") : items[loop.index + 1];
  }
  return missing(self, name);
}

Value bound_method(const Value& self, const MethodEntry& entry) {
  return std::make_shared<const Method>(Method{self, &entry});
}

}  // namespace

Result<Value> Interpreter::make_namespace(const Arguments& arguments) {
  if (namespaces_.size() >= kMostNamespaces) budget_.exceed("bytes of memory");
  budget_.hold(256);
  auto made = std::make_unique<Namespace>();
  for (const Value& value : arguments.positional) {
    if (value.dict() == nullptr) return type_error("the attributes of a namespace", value);
    for (const auto& [key, item] : value.dict()->items) {
      if (!key.is_text()) return type_error("the name of an attribute", key);
      made->set(key.bytes(), item);
    }
  }
  for (const auto& [name, value] : arguments.named) made->set(name, value);
  for (const auto& attribute : made->attributes) {
    if (attribute.first.starts_with('_')) {
      return invalid_argument("the attribute " + in_quotes(attribute.first) +
                              " of a namespace begins with an underscore, which is not allowed");
    }
  }
  namespaces_.push_back(std::move(made));
  return Value(namespaces_.back().get());
}

Result<Value> Interpreter::attribute_of(const Value& value, std::string_view name) {
  if (value.is_undefined()) return undefined_error(value);
  if (Namespace* space = value.space()) {
    const Value* found = space->find(name);
    return found == nullptr ? missing(value, name) : *found;
  }
  if (const List* list = value.list(); list != nullptr && list->is_group) {
    if (name == "grouper" || name == "list") return list->items[name == "list" ? 1 : 0];
  }
  if (const MethodEntry* method = find_method(value, name)) return bound_method(value, *method);
  if (const LoopState* loop = value.loop()) return loop_attribute(*loop, name, value);
  if (const Macro* macro = value.macro()) {
    if (name == "name") return text(macro->name);
    constexpr std::string_view kMore[] = {"arguments", "caller", "catch_kwargs", "catch_varargs"};
    if (std::find(std::begin(kMore), std::end(kMore), name) != std::end(kMore)) {
      return unsupported("a macro's " + in_quotes(name) + " is not supported – only its name is");
    }
  }
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return missing(value, name);
}

Result<Value> Interpreter::item_of(const Value& value, const Value& key) {
  if (value.is_undefined()) return undefined_error(value);
  const List* list = value.list();
  if (const Dict* dict = value.dict()) {
    if (const Value* found = can_be_key(key) ? dict->find(key) : nullptr) return *found;
  } else if (list != nullptr && key.is_whole()) {
    const bool has_items = list->is_sequence() || list->kind == ListKind::range;
    const Value* found = has_items ? item_at(*list, key.whole()) : nullptr;
    return found == nullptr ? make_undefined("a list has no item " + integer_text(key.whole()))
                            : *found;
  } else if (value.is_text() && key.is_whole()) {
    return character_of(value, key.whole());
  }
  if (key.is_text()) {
    if (const MethodEntry* method = find_method(value, key.bytes())) {
      return bound_method(value, *method);
    }
    const bool is_group = list != nullptr && list->is_group;
    if (is_group || value.loop() != nullptr || value.space() != nullptr) {
      return attribute_of(value, key.bytes());
    }
    return missing(value, key.bytes());
  }
  return make_undefined("a value of type '" + std::string(type_name(value)) + "' has no such item");
}

Result<Value> Interpreter::character_of(const Value& value, Integer index) {
  const std::string_view bytes = value.bytes();
  budget_.spend(bytes.size() / 64);
  const auto count = static_cast<Integer>(count_characters(bytes));
  if (index < 0) index += count;
  if (index < 0 || index >= count) {
    return make_undefined("a text has no character at that place");
  }
  const size_t begin = byte_of_character(bytes, static_cast<size_t>(index));
  return text(value.text().part(begin, begin + tok::rune_bytes(bytes[begin])));
}

Result<Value> Interpreter::path_of(const Value& value, std::string_view path,
                                   const Value* otherwise) {
  Value at = value;
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    int64_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = read.ec == std::errc() && read.ptr == name.data() + name.size();
    TENON_ASSIGN_OR_RETURN(at,
                           item_of(at, is_index ? Value(static_cast<Integer>(index)) : text(name)));
    if (at.is_undefined() && otherwise != nullptr) at = *otherwise;
    if (dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
}

Result<Values> Interpreter::items_of(const Value& value) {
  Values items;
  if (value.is_undefined()) return items;
  if (List* list = value.list()) {
    if (!budget_.allows_values(list->items.size() - list->used)) return budget_.status();
    items.assign(list->items.begin() + static_cast<ptrdiff_t>(list->used), list->items.end());
    if (list->kind == ListKind::generator) list->used = list->items.size();
    return items;
  }
  if (const Dict* dict = value.dict()) {
    if (!budget_.allows_values(dict->items.size())) return budget_.status();
    for (const auto& item : dict->items) items.push_back(item.first);
    return items;
  }
  if (!value.is_text()) return type_error("iterated over", value);
  const std::string_view bytes = value.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = tok::rune_bytes(bytes[at]);
    items.push_back(text(value.text().part(at, at + length)));
    at += length;
    TENON_RETURN_IF_ERROR(step());
  }
  return items;
}

Result<Value> Interpreter::call(const Value& callee, const Arguments& arguments,
                                const Value* caller) {
  if (const Macro* macro = callee.macro()) return call_macro(*macro, arguments, caller);
  if (const Method* method = callee.method()) {
    if (method->self.is_text() && method->self.text_object()->is_markup) {
      return unsupported("methods of a text that 'safe' returned are not supported – call " +
                         in_quotes(method->entry->name) + " before 'safe'");
    }
    return method->entry->run(*this, method->self, arguments);
  }
  if (const Function* function = callee.function()) return function->run(*this, arguments);
  return type_error("called", callee);
}

// A macro writes its text into the scope that it was made in, plus its parameters.
Result<Value> Interpreter::call_macro(const Macro& macro, const Arguments& arguments,
                                      const Value* caller) {
  std::shared_ptr<Scope> made_in = macro.scope.lock();
  if (made_in == nullptr) {
    return unsupported("the macro " + in_quotes(macro.name) +
                       " is called outside of the block that it was made in");
  }
  std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(made_in));
  push_scope();
  Status bound = bind_macro(macro, arguments, caller);
  Flow flow = Flow::next;
  Result<Value> written =
      bound.ok() ? capture(macro.statement->bodies.front(), flow) : Result<Value>(std::move(bound));
  scope_ = std::move(outer);
  return written;
}

// What the parameters get, null for what is left out; `rest` takes what is not theirs.
Result<std::vector<const Value*>> Interpreter::macro_values(const Macro& macro,
                                                            const Arguments& arguments,
                                                            Arguments& rest) {
  const Parameters& parameters = macro.statement->parameters;
  std::vector<const Value*> values(parameters.names.size(), nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < values.size()) {
      values[i] = &arguments.positional[i];
    } else {
      rest.positional.push_back(arguments.positional[i]);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(parameters.names, name, &Target::name);
    if (found == parameters.names.end()) {
      rest.named.emplace_back(name, value);
      continue;
    }
    const Value*& place = values[static_cast<size_t>(found - parameters.names.begin())];
    if (place != nullptr) {
      return invalid_argument("the macro " + in_quotes(macro.name) + " got " + in_quotes(name) +
                              " twice");
    }
    place = &value;
  }
  return values;
}

Status Interpreter::bind_macro(const Macro& macro, const Arguments& arguments,
                               const Value* caller) {
  const Parameters& parameters = macro.statement->parameters;
  Arguments rest;
  TENON_ASSIGN_OR_RETURN(const auto values, macro_values(macro, arguments, rest));
  const size_t without_default = values.size() - parameters.defaults.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const Target& name = parameters.names[i];
    Value value;
    if (values[i] != nullptr) {
      value = *values[i];
    } else if (i >= without_default) {
      TENON_ASSIGN_OR_RETURN(value, evaluate(*parameters.defaults[i - without_default]));
    } else {
      value = make_undefined("the parameter " + in_quotes(name.name) + " of the macro " +
                             in_quotes(macro.name) + " was not given");
    }
    scope_->set(name.symbol, std::move(value));
  }
  // A caller may be passed on by name.
  for (auto at = rest.named.begin(); at != rest.named.end(); ++at) {
    if (at->first != "caller" || !parameters.takes_caller) continue;
    scope_->set(*template_.symbols.find("caller"), at->second);
    rest.named.erase(at);
    break;
  }
  if (parameters.takes_caller && caller != nullptr) {
    scope_->set(*template_.symbols.find("caller"), *caller);
  } else if (caller != nullptr) {
    return invalid_argument("the macro " + in_quotes(macro.name) + " does not use a caller");
  }
  if (parameters.takes_positional) {
    scope_->set(*template_.symbols.find("varargs"),
                list(std::move(rest.positional), ListKind::tuple));
  } else if (!rest.positional.empty()) {
    return invalid_argument("the macro " + in_quotes(macro.name) + " takes at most " +
                            std::to_string(values.size()) + " arguments");
  }
  if (!parameters.takes_named && !rest.named.empty()) {
    return invalid_argument("the macro " + in_quotes(macro.name) + " has no parameter " +
                            in_quotes(rest.named.front().first));
  }
  if (parameters.takes_named) {
    std::vector<Dict::Item> items;
    for (auto& [name, value] : rest.named) items.emplace_back(text(name), std::move(value));
    scope_->set(*template_.symbols.find("kwargs"), make_dict(budget_, std::move(items)));
  }
  return Status();
}

}  // namespace tenon::chat
