// Values of templates: Python's, as far as templates can make and meet them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "core/jinja/marked_text.h"

namespace tenon::chat {

class Value;
struct Dict;
struct Namespace;
struct Macro;
struct Method;
struct Function;
struct LoopState;

// Python's whole numbers have no end; here they end where 128 bits do, and what would be larger is
// an error.
using Integer = __int128;

// What a name or a key that does not exist gives. It prints nothing and is false; whatever else is
// done with it is an error that says what did not exist.
struct Undefined {
  std::shared_ptr<const std::string> what;  // "'tools' is undefined"
};
struct None {};

struct TextObject {
  TextObject(MarkedText marked, Budget* budget, bool markup = false)
      : text(std::move(marked)), is_markup(markup), held(budget, text.size() + 64) {}
  MarkedText text;
  bool is_markup;  // what the filter `safe` returns: '+' escapes what it is added to
  Held held;
};

// Everything that is iterated over. Only its printed form, its truth and what it can be asked for
// differ.
enum class ListKind {
  list,
  tuple,
  range,
  view,      // of a dictionary's keys, values or items
  generator  // what select, map and others return: has no length and is used up by one reading
};
struct List;

class Value {
 public:
  Value() : data_(None()) {}
  Value(Undefined value) : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Value(None value) : data_(value) {}                  // NOLINT(google-explicit-constructor)
  Value(bool value) : data_(value) {}                  // NOLINT(google-explicit-constructor)
  Value(Integer value) : data_(value) {}               // NOLINT(google-explicit-constructor)
  Value(double value) : data_(value) {}                // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const TextObject> value)       // NOLINT(google-explicit-constructor)
      : data_(std::move(value)) {}
  Value(std::shared_ptr<List> value)  // NOLINT(google-explicit-constructor)
      : data_(std::move(value)) {}
  Value(std::shared_ptr<const Dict> value)  // NOLINT(google-explicit-constructor)
      : data_(std::move(value)) {}
  Value(Namespace* value) : data_(value) {}  // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const Macro> value)  // NOLINT(google-explicit-constructor)
      : data_(std::move(value)) {}
  Value(std::shared_ptr<const Method> value)  // NOLINT(google-explicit-constructor)
      : data_(std::move(value)) {}
  Value(const Function* value) : data_(value) {}  // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<LoopState> value)         // NOLINT(google-explicit-constructor)
      : data_(std::move(value)) {}

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_boolean() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<Integer>(data_); }  // and no boolean
  bool is_real() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_boolean() || is_integer() || is_real(); }
  bool is_whole() const { return is_boolean() || is_integer(); }
  bool is_text() const { return text_object() != nullptr; }
  bool is_callable() const;

  // Null, or only after is_…().
  const TextObject* text_object() const { return object<const TextObject>(); }
  const MarkedText& text() const { return text_object()->text; }
  std::string_view bytes() const { return text().bytes(); }
  List* list() const { return object<List>(); }
  const Dict* dict() const { return object<const Dict>(); }
  const Macro* macro() const { return object<const Macro>(); }
  const Method* method() const { return object<const Method>(); }
  LoopState* loop() const { return object<LoopState>(); }
  Namespace* space() const;
  const Function* function() const;
  bool boolean() const { return std::get<bool>(data_); }
  Integer whole() const;  // of a whole number
  double real() const;    // of any number
  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  // How deep it holds other values: 0 for what holds none.
  uint32_t depth() const;

 private:
  template <typename T>
  T* object() const {
    const auto* held = std::get_if<std::shared_ptr<T>>(&data_);
    return held == nullptr ? nullptr : held->get();
  }
  std::variant<Undefined, None, bool, Integer, double, std::shared_ptr<const TextObject>,
               std::shared_ptr<List>, std::shared_ptr<const Dict>, Namespace*,
               std::shared_ptr<const Macro>, std::shared_ptr<const Method>, const Function*,
               std::shared_ptr<LoopState>>
      data_;
};

using Values = std::vector<Value>;

struct List {
  List(ListKind list_kind, Values values, Budget* budget);
  bool is_sequence() const { return kind == ListKind::list || kind == ListKind::tuple; }
  ListKind kind;
  Values items;
  size_t used = 0;        // of a generator: how many items were taken
  bool is_group = false;  // a tuple of groupby: its items are called `grouper` and `list` too
  uint32_t depth = 1;
  Held held;
};

// In the order in which keys were first set.
struct Dict {
  using Item = std::pair<Value, Value>;
  Dict(std::vector<Item> entries, Budget* budget);  // of equal keys the last value counts
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;

  std::vector<Item> items;
  uint32_t depth = 1;

 private:
  std::unordered_map<std::string_view, size_t> index_;  // of keys that are texts
  Budget* budget_;  // others are looked for one by one, and each costs a step
  Held held_;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

Value make_text(Budget& budget, MarkedText text);
Value make_text(Budget& budget, std::string text, bool is_trusted);
Value make_list(Budget& budget, Values items, ListKind kind = ListKind::list);
Value make_dict(Budget& budget, std::vector<Dict::Item> items);
Value make_undefined(std::string what);

// "str", "list", … as Python names it.
std::string_view type_name(const Value& value);

}  // namespace tenon::chat
