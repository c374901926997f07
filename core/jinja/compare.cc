#include "core/jinja/compare.h"

#include <algorithm>
#include <cmath>

namespace tenon::chat {
namespace {

bool equal_lists(const List& a, const List& b, Budget* budget) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return &a == &b;
  if (a.kind == ListKind::generator || a.kind == ListKind::view) return &a == &b;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    [&](const Value& x, const Value& y) { return are_equal(x, y, budget); });
}

bool equal_dicts(const Dict& a, const Dict& b, Budget* budget) {
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&](const Dict::Item& item) {
    const Value* other = b.find(item.first);
    return other != nullptr && are_equal(item.second, *other, budget);
  });
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.whole() == b.whole();
  return a.real() == b.real();
}

}  // namespace

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_whole()) return value.whole() != 0;
  if (value.is_real()) return value.real() != 0;
  if (value.is_text()) return !value.bytes().empty();
  if (const List* list = value.list()) {
    return list->kind == ListKind::generator || !list->items.empty();
  }
  if (const Dict* dict = value.dict()) return !dict->items.empty();
  return true;
}

bool are_equal(const Value& a, const Value& b, Budget* budget) {
  if (budget != nullptr) {
    budget->spend(a.is_text() ? 1 + a.bytes().size() / 64 : 1);
    if (budget->is_exceeded()) return false;
  }
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.is_text() && b.is_text()) return a.bytes() == b.bytes();
  if (a.list() != nullptr && b.list() != nullptr) return equal_lists(*a.list(), *b.list(), budget);
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(*a.dict(), *b.dict(), budget);
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.space() != nullptr) return a.space() == b.space();
  if (a.macro() != nullptr) return a.macro() == b.macro();
  if (a.function() != nullptr) return a.function() == b.function();
  if (a.loop() != nullptr) return a.loop() == b.loop();
  return false;
}

Result<bool> is_less(const Value& a, const Value& b, Budget& budget) {
  budget.spend(a.is_text() ? 1 + a.bytes().size() / 64 : 1);
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.is_whole() && b.is_whole()) return a.whole() < b.whole();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  // The order of UTF-8 bytes is the order of the characters.
  if (a.is_text() && b.is_text()) return a.bytes() < b.bytes();
  const List *left = a.list(), *right = b.list();
  if (left != nullptr && right != nullptr && left->kind == right->kind && left->is_sequence()) {
    const size_t common = std::min(left->items.size(), right->items.size());
    for (size_t i = 0; i < common; ++i) {
      if (!are_equal(left->items[i], right->items[i], &budget)) {
        return is_less(left->items[i], right->items[i], budget);
      }
    }
    return left->items.size() < right->items.size();
  }
  return invalid_argument("'" + std::string(type_name(a)) + "' and '" + std::string(type_name(b)) +
                          "' have no order");
}

Result<bool> contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_undefined()) return false;
  if (container.is_text()) {
    if (!item.is_text()) {
      return invalid_argument("'in <text>' needs a text on its left, not '" +
                              std::string(type_name(item)) + "'");
    }
    budget.spend(container.bytes().size() / 16);
    return container.bytes().find(item.bytes()) != std::string_view::npos;
  }
  if (List* list = container.list()) {
    const auto begin = list->items.begin() + static_cast<ptrdiff_t>(list->used);
    const auto found = std::find_if(begin, list->items.end(), [&](const Value& value) {
      return are_equal(value, item, &budget);
    });
    if (list->kind == ListKind::generator) {
      list->used =
          static_cast<size_t>(found - list->items.begin()) + (found == list->items.end() ? 0 : 1);
    }
    return found != list->items.end();
  }
  if (const Dict* dict = container.dict()) {
    if (item.is_undefined()) return false;
    if (!can_be_key(item)) return type_error("a key", item);
    return dict->find(item) != nullptr;
  }
  return type_error("searched", container);
}

bool can_be_key(const Value& value) {
  return value.is_text() || value.is_number() || value.is_none();
}

Status type_error(std::string_view doing, const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  return invalid_argument("a value of type '" + std::string(type_name(value)) + "' cannot be " +
                          std::string(doing));
}

Status undefined_error(const Value& value) {
  const auto& what = value.undefined().what;
  return invalid_argument(what == nullptr ? "a value is undefined" : *what);
}

}  // namespace tenon::chat
