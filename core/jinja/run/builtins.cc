#include "core/jinja/run/builtins.h"

#include <algorithm>
#include <array>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/jinja/compare.h"

namespace tenon::chat {
namespace {

template <typename Entry>
const Entry* find_in(std::span<const Entry> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

template <typename Entry>
const Entry* find_in(std::initializer_list<std::span<const Entry>> tables, std::string_view name) {
  for (const auto& table : tables) {
    if (const Entry* entry = find_in(table, name)) return entry;
  }
  return nullptr;
}

std::array<std::span<const Filter>, 7> filter_tables() {
  return {text_filters(),   list_filters(),   selection_filters(), number_filters(),
          markup_filters(), layout_filters(), value_filters()};
}

template <typename Entry>
void add_names(std::span<const Entry> table, std::vector<std::string>& names) {
  for (const Entry& entry : table) names.emplace_back(entry.name);
}

}  // namespace

const Filter* find_filter(std::string_view name) {
  for (const auto& table : filter_tables()) {
    if (const Filter* filter = find_in(table, name)) return filter;
  }
  return nullptr;
}

const MethodEntry* find_method(const Value& self, std::string_view name) {
  if (self.is_text()) return find_in({text_methods(), text_search_methods()}, name);
  if (self.dict() != nullptr) return find_in(dict_methods(), name);
  if (self.loop() != nullptr) return find_in(loop_methods(), name);
  const List* list = self.list();
  return list != nullptr && list->is_sequence() ? find_in(list_methods(), name) : nullptr;
}

bool is_method_name(std::string_view name) {
  return find_in({text_methods(), text_search_methods(), list_methods(), dict_methods(),
                  loop_methods()},
                 name) != nullptr;
}

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const auto& table : filter_tables()) add_names(table, names);
  return names;
}

std::string no_such_filter(std::string_view name) {
  return "there is no filter " + in_quotes(name) + " – expected one of Jinja's or 'from_json'" +
         did_you_mean(name, filter_names()) + " – change the template, or give another";
}

std::string no_such_test(std::string_view name) {
  return "there is no test " + in_quotes(name) + " – expected one of Jinja's" +
         did_you_mean(name, test_names()) + " – change the template, or give another";
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const auto& table :
       {text_methods(), text_search_methods(), list_methods(), dict_methods(), loop_methods()}) {
    add_names(table, names);
  }
  return names;
}

Result<Bound> bind(std::string_view callee, const Arguments& arguments,
                   std::initializer_list<std::string_view> names, size_t required) {
  const std::string name = in_quotes(callee);
  if (arguments.positional.size() > names.size()) {
    return invalid_argument(name + " takes at most " + std::to_string(names.size()) +
                            " arguments and got " + std::to_string(arguments.positional.size()));
  }
  Bound bound(names.size(), nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [key, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), key);
    if (found == names.end()) return invalid_argument(name + " has no argument " + in_quotes(key));
    const Value*& place = bound[static_cast<size_t>(found - names.begin())];
    if (place != nullptr) return invalid_argument(name + " got " + in_quotes(key) + " twice");
    place = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) {
      return invalid_argument(name + " needs the argument " + in_quotes(names.begin()[i]));
    }
  }
  return bound;
}

Result<Integer> whole_argument(std::string_view callee, const Value* value, Integer otherwise) {
  if (value == nullptr) return otherwise;
  if (value->is_undefined()) return undefined_error(*value);
  if (!value->is_whole()) {
    return invalid_argument(in_quotes(callee) + " needs a whole number, not a value of type '" +
                            std::string(type_name(*value)) + "'");
  }
  return value->whole();
}

Result<bool> flag_argument(const Value* value, bool otherwise) {
  return value == nullptr ? otherwise : is_true(*value);
}

Result<const MarkedText*> text_argument(std::string_view callee, const Value* value) {
  if (value == nullptr || value->is_none()) return static_cast<const MarkedText*>(nullptr);
  if (value->is_undefined()) return undefined_error(*value);
  if (!value->is_text()) {
    return invalid_argument(in_quotes(callee) + " needs a text, not a value of type '" +
                            std::string(type_name(*value)) + "'");
  }
  return &value->text();
}

}  // namespace tenon::chat
