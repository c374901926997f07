// Whether one value, of an enum or a const, satisfies all else that a schema says; whether two
// schemas have a value in common.
#include <algorithm>

#include "core/base/utf8.h"
#include "core/grammar/notation/text_form.h"
#include "core/grammar/schema/schema_writer.h"

namespace tenon::grammar {
namespace {

constexpr uint32_t kDeepest = 64;

uint8_t type_of(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::null:
      return kNull;
    case JsonValue::Kind::boolean:
      return kBoolean;
    case JsonValue::Kind::string:
      return kString;
    case JsonValue::Kind::array:
      return kArray;
    case JsonValue::Kind::object:
      return kObject;
    case JsonValue::Kind::number:
      break;
  }
  const auto number = Decimal::parse(value.text);
  return number && number->is_whole() ? kInteger : kFraction;
}

bool within(size_t count, uint32_t least, uint32_t most) {
  return count >= least && (most == kUnbounded || count <= most);
}

size_t characters_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

}  // namespace

Result<bool> SchemaWriter::satisfies_all(const JsonValue& value, const Schemas& schemas,
                                         uint32_t depth) {
  TENON_ASSIGN_OR_RETURN(Constraint constraint, reader_.read(schemas));
  return satisfies(value, std::move(constraint), depth + 1);
}

Result<bool> SchemaWriter::satisfies(const JsonValue& value, Constraint constraint,
                                     uint32_t depth) {
  if (++written_ > 200'000 || depth > kDeepest) {
    return unsupported(at_schema(constraint.path, "an enum or a const is too large to be checked"));
  }
  if (constraint.never) return false;
  if (constraint.choices.empty()) return satisfies_plain(value, constraint, depth);
  const Constraint::Choice choice = std::move(constraint.choices.back());
  constraint.choices.pop_back();
  size_t holds = 0;
  for (const SchemaRef& alternative : choice.alternatives) {
    Constraint both = constraint;
    TENON_RETURN_IF_ERROR(reader_.fold(both, alternative, choice.chain));
    TENON_ASSIGN_OR_RETURN(const bool sound, satisfies(value, std::move(both), depth));
    holds += sound;
  }
  return choice.exactly_one ? holds == 1 : holds > 0;
}

Result<bool> SchemaWriter::satisfies_plain(const JsonValue& value, const Constraint& constraint,
                                           uint32_t depth) {
  if ((type_of(value) & constraint.types) == 0) return false;
  if (constraint.values) {
    const auto& values = *constraint.values;
    const bool found = std::any_of(values.begin(), values.end(),
                                   [&](const JsonValue* one) { return equal(*one, value); });
    if (!found) return false;
  }
  if (value.kind == JsonValue::Kind::number) {
    const auto number = Decimal::parse(value.text);
    return constraint.numbers.is_free() || (number && is_within(*number, constraint.numbers));
  }
  if (value.kind == JsonValue::Kind::string) {
    if (!within(characters_of(value.text), constraint.least_length, constraint.most_length)) {
      return false;
    }
    for (const Constraint::Pattern& pattern : constraint.patterns) {
      const Result<bool> found = matches(pattern, value.text);
      if (!found.ok()) return with_context("schema, at " + pattern.path, found.status());
      if (!*found) return false;
    }
    return true;
  }
  if (value.kind == JsonValue::Kind::array) {
    if (!within(value.items.size(), constraint.least_items, constraint.most_items)) return false;
    for (size_t i = 0; i < value.items.size(); ++i) {
      const Schemas& schemas =
          i < constraint.prefix.size() ? constraint.prefix[i] : constraint.items;
      TENON_ASSIGN_OR_RETURN(const bool sound, satisfies_all(value.items[i], schemas, depth));
      if (!sound) return false;
    }
  }
  if (!value.is_object()) return true;
  const size_t members = value.members.size();
  if (!within(members, constraint.least_properties, constraint.most_properties)) return false;
  for (const std::string& name : constraint.required) {
    if (value.find(name) == nullptr) return false;
  }
  for (const auto& [name, member] : value.members) {
    const Constraint::Property* property = constraint.property(name);
    const Schemas& schemas = property == nullptr ? constraint.additional : property->schemas;
    TENON_ASSIGN_OR_RETURN(const bool sound, satisfies_all(member, schemas, depth));
    if (!sound) return false;
  }
  return true;
}

Result<bool> SchemaWriter::exclude_each_other(const Constraint& a, const Constraint& b,
                                              uint32_t depth) {
  constexpr uint32_t kDeepestObject = 4;
  if (a.never || b.never || (a.types & b.types) == 0) return true;
  if (a.values && b.values) {
    return std::none_of(a.values->begin(), a.values->end(), [&](const JsonValue* x) {
      return std::any_of(b.values->begin(), b.values->end(),
                         [&](const JsonValue* y) { return equal(*x, *y); });
    });
  }
  if (a.values || b.values) {
    const Constraint& listed = a.values ? a : b;
    const Constraint& other = a.values ? b : a;
    for (const JsonValue* value : *listed.values) {
      TENON_ASSIGN_OR_RETURN(const bool both, satisfies(*value, other, depth));
      if (both) return false;
    }
    return true;
  }
  const auto common = static_cast<uint8_t>(a.types & b.types);
  if ((common & ~kNumber) == 0) {
    const auto above = [](const std::optional<Bound>& low, const std::optional<Bound>& high) {
      if (!low || !high) return false;
      const int order = compare(low->value, high->value);
      return order > 0 || (order == 0 && (low->exclusive || high->exclusive));
    };
    return above(a.numbers.low, b.numbers.high) || above(b.numbers.low, a.numbers.high);
  }
  if (common != kObject || depth >= kDeepestObject) return false;
  for (const Constraint* one : {&a, &b}) {
    const Constraint& other = one == &a ? b : a;
    for (const std::string& name : one->required) {
      const Constraint::Property* mine = one->property(name);
      const Constraint::Property* theirs = other.property(name);
      TENON_ASSIGN_OR_RETURN(const Constraint x,
                             reader_.read(mine == nullptr ? one->additional : mine->schemas));
      TENON_ASSIGN_OR_RETURN(const Constraint y,
                             reader_.read(theirs == nullptr ? other.additional : theirs->schemas));
      TENON_ASSIGN_OR_RETURN(const bool apart, exclude_each_other(x, y, depth + 1));
      if (apart) return true;
    }
  }
  return false;
}

}  // namespace tenon::grammar
