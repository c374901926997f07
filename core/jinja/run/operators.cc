#include "core/jinja/run/operators.h"

#include <algorithm>
#include <cmath>

#include "core/jinja/compare.h"
#include "core/jinja/html_entities.h"
#include "core/jinja/read_number.h"
#include "core/jinja/run/format.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};

Status mismatch(Operator operation, const Value& left, const Value& right) {
  if (left.is_undefined()) return undefined_error(left);
  if (right.is_undefined()) return undefined_error(right);
  return invalid_argument("'" + std::string(kSigns[static_cast<size_t>(operation)]) +
                          "' cannot take '" + std::string(type_name(left)) + "' and '" +
                          std::string(type_name(right)) + "'");
}

Status division_by_zero() {
  return invalid_argument("a division by zero");
}

Integer floor_quotient(Integer a, Integer b) {
  const Integer quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<Value> whole_power(Integer base, Integer exponent) {
  if (exponent < 0) {
    if (base == 0) return division_by_zero();
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value(exponent == 0 ? Integer{1} : base);
  if (exponent > 127 && base != -1) return beyond_integers();
  if (base == -1) return Value(exponent % 2 == 0 ? Integer{1} : Integer{-1});
  Integer result = 1;
  for (Integer i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return beyond_integers();
  }
  return Value(result);
}

Result<Value> whole_operation(Operator operation, Integer a, Integer b) {
  constexpr Integer kLowest = -(Integer{1} << 126) * 2;
  Integer result = 0;
  bool overflows = false;
  switch (operation) {
    case Operator::add:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::subtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::multiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::power:
      return whole_power(a, b);
    default:
      if (b == 0) return division_by_zero();
      if (operation == Operator::divide) {
        return Value(static_cast<double>(a) / static_cast<double>(b));
      }
      if (a == kLowest && b == -1) return beyond_integers();
      result = floor_quotient(a, b);
      if (operation == Operator::modulo) result = a - result * b;
      break;
  }
  if (overflows) return beyond_integers();
  return Value(result);
}

Result<Value> real_operation(Operator operation, double a, double b) {
  switch (operation) {
    case Operator::add:
      return Value(a + b);
    case Operator::subtract:
      return Value(a - b);
    case Operator::multiply:
      return Value(a * b);
    case Operator::power:
      return Value(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) return division_by_zero();
  if (operation == Operator::divide) return Value(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (operation == Operator::modulo) return Value(remainder);
  return Value(std::floor((a - remainder) / b + 0.5));
}

Value repeated(const Value& value, Integer times, Budget& budget) {
  const uint64_t count =
      times <= 0 ? 0 : static_cast<uint64_t>(std::min<Integer>(times, Integer{1} << 40));
  if (value.is_text()) {
    const size_t bytes = value.bytes().size();
    TextBuilder out(budget);
    if (bytes > 0 && count > budget.limits().text_bytes / bytes) budget.exceed("bytes of text");
    for (uint64_t i = 0; i < count && bytes > 0 && !budget.is_exceeded(); ++i) {
      out.add(value.text());
    }
    return make_text(budget, out.take());
  }
  const List& list = *value.list();
  Values items;
  if (!list.items.empty() &&
      budget.allows_values(std::max<uint64_t>(count, 1) * list.items.size())) {
    for (uint64_t i = 0; i < count; ++i) {
      items.insert(items.end(), list.items.begin(), list.items.end());
    }
  }
  return make_list(budget, std::move(items), list.kind);
}

bool is_repeatable(const Value& value) {
  return value.is_text() || (value.list() != nullptr && value.list()->is_sequence());
}

// What is added to a safe text is escaped, and the whole is safe.
Value sum_of_texts(const TextObject& left, const TextObject& right, Budget& budget) {
  TextBuilder out(budget);
  const bool is_markup = left.is_markup || right.is_markup;
  for (const TextObject* part : {&left, &right}) {
    if (is_markup && !part->is_markup) {
      add_html_escaped(part->text, out);
    } else {
      out.add(part->text);
    }
  }
  return std::make_shared<const TextObject>(out.take(), &budget, is_markup);
}

Result<Value> sum(const Value& left, const Value& right, Budget& budget) {
  if (left.is_text() && right.is_text()) {
    return sum_of_texts(*left.text_object(), *right.text_object(), budget);
  }
  const List *a = left.list(), *b = right.list();
  if (a == nullptr || b == nullptr || a->kind != b->kind || !a->is_sequence()) {
    return mismatch(Operator::add, left, right);
  }
  Values items;
  if (budget.allows_values(a->items.size() + b->items.size())) {
    items = a->items;
    items.insert(items.end(), b->items.begin(), b->items.end());
  }
  return make_list(budget, std::move(items), a->kind);
}

// A bound of a slice as Python reads it: from the end where negative, and never out of reach.
int64_t slice_bound(const Value& bound, int64_t length, bool is_backward, bool is_begin) {
  const int64_t low = is_backward ? -1 : 0;
  const int64_t high = is_backward ? length - 1 : length;
  if (bound.is_none()) return is_begin == is_backward ? high : low;
  Integer at = bound.whole();
  if (at < 0) at += length;
  return static_cast<int64_t>(std::clamp<Integer>(at, low, high));
}

Value slice_text(const MarkedText& text, int64_t begin, int64_t end, int64_t step, Budget& budget) {
  const std::string_view bytes = text.bytes();
  TextBuilder out(budget);
  if (step == 1) {
    if (begin < end) {
      const size_t from = byte_of_character(bytes, static_cast<size_t>(begin));
      const size_t length = byte_of_character(bytes.substr(from), static_cast<size_t>(end - begin));
      out.add(text, from, from + length);
    }
    return make_text(budget, out.take());
  }
  std::vector<size_t> starts;
  for (size_t at = 0; at < bytes.size(); at += tok::rune_bytes(bytes[at])) starts.push_back(at);
  budget.spend(starts.size() / 16);
  starts.push_back(bytes.size());
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    const auto at = static_cast<size_t>(i);
    out.add(text, starts[at], starts[at + 1]);
    if (budget.is_exceeded()) break;
  }
  return make_text(budget, out.take());
}

}  // namespace

Result<Value> apply_operator(Operator operation, const Value& left, const Value& right,
                             Budget& budget) {
  if (left.is_number() && right.is_number()) {
    if (left.is_whole() && right.is_whole()) {
      return whole_operation(operation, left.whole(), right.whole());
    }
    return real_operation(operation, left.real(), right.real());
  }
  if (operation == Operator::add) return sum(left, right, budget);
  if (operation == Operator::multiply && is_repeatable(left) && right.is_whole()) {
    return repeated(left, right.whole(), budget);
  }
  if (operation == Operator::multiply && is_repeatable(right) && left.is_whole()) {
    return repeated(right, left.whole(), budget);
  }
  if (operation == Operator::modulo && left.is_text()) {
    if (left.text_object()->is_markup) {
      return unsupported("'%' on a text that 'safe' returned is not supported – format first");
    }
    return format_percent(left.text(), right, budget);
  }
  return mismatch(operation, left, right);
}

Result<Value> negated(const Value& value) {
  if (value.is_real()) return Value(-value.real());
  if (!value.is_whole()) return type_error("negated", value);
  return whole_operation(Operator::subtract, 0, value.whole());
}

Result<bool> compare_values(Operator operation, const Value& left, const Value& right,
                            Budget& budget) {
  switch (operation) {
    case Operator::equal:
      return are_equal(left, right, &budget);
    case Operator::unequal:
      return !are_equal(left, right, &budget);
    case Operator::less:
      return is_less(left, right, budget);
    case Operator::greater:
      return is_less(right, left, budget);
    case Operator::in:
      return contains(right, left, budget);
    case Operator::not_in: {
      TENON_ASSIGN_OR_RETURN(const bool found, contains(right, left, budget));
      return !found;
    }
    default:
      break;
  }
  const Value& smaller = operation == Operator::less_equal ? left : right;
  const Value& larger = operation == Operator::less_equal ? right : left;
  TENON_ASSIGN_OR_RETURN(const bool below, is_less(smaller, larger, budget));
  return below || are_equal(smaller, larger, &budget);
}

Result<Value> slice_of(const Value& value, const Value& begin, const Value& end, const Value& step,
                       Budget& budget) {
  if (value.is_undefined()) return undefined_error(value);
  for (const Value* bound : {&begin, &end, &step}) {
    if (bound->is_undefined()) return undefined_error(*bound);
    if (!bound->is_none() && !bound->is_whole()) return type_error("a bound of a slice", *bound);
  }
  const Integer stride = step.is_none() ? Integer{1} : step.whole();
  if (stride == 0) return invalid_argument("a slice has the step 0");
  const List* list = value.list();
  if (!value.is_text() &&
      (list == nullptr || list->kind == ListKind::view || list->kind == ListKind::generator)) {
    return type_error("sliced", value);
  }
  const size_t count = value.is_text() ? count_characters(value.bytes()) : list->items.size();
  const auto length = static_cast<int64_t>(count);
  const int64_t first = slice_bound(begin, length, stride < 0, true);
  const int64_t last = slice_bound(end, length, stride < 0, false);
  const auto by = static_cast<int64_t>(std::clamp<Integer>(stride, -length - 1, length + 1));
  if (value.is_text()) {
    budget.spend(value.bytes().size() / 64);
    return slice_text(value.text(), first, last, by, budget);
  }
  Values items;
  for (int64_t i = first; by > 0 ? i < last : i > last; i += by) {
    items.push_back(list->items[static_cast<size_t>(i)]);
  }
  budget.spend(items.size());
  return make_list(budget, std::move(items), list->kind);
}

}  // namespace tenon::chat
