#include "core/grammar/schema/schema_writer.h"

#include <algorithm>

#include "core/grammar/schema/json_schema.h"

namespace tenon::grammar {
namespace {

constexpr size_t kMostWritten = 20'000;  // constraints, alternatives multiplied out

}  // namespace

Result<ExprId> SchemaWriter::run(const SchemaRef& root) {
  const ExprId body = value_of({root});
  while (!open_.empty()) {
    const auto [rule, schemas] = std::move(open_.front());
    open_.pop_front();
    TENON_ASSIGN_OR_RETURN(Constraint constraint, reader_.read(schemas));
    TENON_ASSIGN_OR_RETURN(const ExprId text, write(std::move(constraint)));
    e_.define(rule, text);
    if (e_.is_full()) break;
  }
  return body;
}

ExprId SchemaWriter::value_of(const Schemas& schemas) {
  std::vector<const JsonValue*> key;
  for (const SchemaRef& ref : schemas) {
    const bool says_nothing = ref.schema->kind == JsonValue::Kind::boolean && ref.schema->flag;
    if (!says_nothing) key.push_back(ref.schema);
  }
  if (key.empty()) return json_.any_value();
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto found = rules_.find(key);
  if (found != rules_.end()) return e_.rule(found->second);
  const RuleId rule = e_.add_rule(schemas.front().path);
  rules_.emplace(std::move(key), rule);
  open_.emplace_back(rule, schemas);
  return e_.rule(rule);
}

Result<ExprId> SchemaWriter::write(Constraint constraint) {
  if (++written_ > kMostWritten) {
    return unsupported(
        at_schema(constraint.path, "the alternatives of the schema make more than " +
                                       std::to_string(kMostWritten) +
                                       " combinations – that is the limit – make it simpler"));
  }
  if (constraint.never || constraint.types == 0) return e_.nothing();
  if (constraint.values) return write_values(constraint);
  if (!constraint.choices.empty()) return write_choice(std::move(constraint));
  return write_types(constraint);
}

// One alternative after another, each together with all else that applies.
Result<ExprId> SchemaWriter::write_choice(Constraint constraint) {
  const Constraint::Choice choice = std::move(constraint.choices.back());
  constraint.choices.pop_back();
  if (choice.exactly_one) TENON_RETURN_IF_ERROR(check_exactly_one(constraint, choice));
  std::vector<ExprId> parts;
  for (const SchemaRef& alternative : choice.alternatives) {
    Constraint both = constraint;
    TENON_RETURN_IF_ERROR(reader_.fold(both, alternative, choice.chain));
    TENON_ASSIGN_OR_RETURN(const ExprId part, write(std::move(both)));
    parts.push_back(part);
  }
  return e_.choice(std::move(parts));
}

// oneOf is read as anyOf where no value can satisfy two of its alternatives.
Status SchemaWriter::check_exactly_one(const Constraint& rest, const Constraint::Choice& choice) {
  constexpr size_t kMostAlternatives = 200;
  std::vector<Constraint> read;
  for (const SchemaRef& alternative : choice.alternatives) {
    Constraint& both = read.emplace_back(rest);
    TENON_RETURN_IF_ERROR(reader_.fold(both, alternative, choice.chain));
  }
  for (size_t i = 0; i < read.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      bool apart = false;
      if (read.size() <= kMostAlternatives) {
        TENON_ASSIGN_OR_RETURN(apart, exclude_each_other(read[i], read[j]));
      }
      if (apart) continue;
      return unsupported(at_schema(
          choice.path, "alternatives " + std::to_string(j) + " and " + std::to_string(i) +
                           " of the oneOf may hold at the same time, as far as can be seen – they "
                           "must differ in type, const or enum, or in a required property's – use "
                           "anyOf"));
    }
  }
  return {};
}

Result<ExprId> SchemaWriter::write_types(const Constraint& constraint) {
  std::vector<ExprId> parts;
  const auto has = [&](uint8_t type) { return (constraint.types & type) != 0; };
  if (has(kNull)) parts.push_back(e_.literal("null"));
  if (has(kBoolean)) parts.push_back(e_.choice({e_.literal("true"), e_.literal("false")}));
  if (has(kNumber)) {
    NumberLimits limits = constraint.numbers;
    limits.only_integers = !has(kFraction);
    Result<ExprId> number = number_language(e_, limits);
    if (!number.ok()) {
      return unsupported(at_schema(constraint.path, number.status().message()));
    }
    parts.push_back(*number);
  }
  if (has(kString)) {
    TENON_ASSIGN_OR_RETURN(const ExprId text, write_string(constraint));
    parts.push_back(text);
  }
  if (has(kObject)) {
    TENON_ASSIGN_OR_RETURN(const ExprId text, write_object(constraint));
    parts.push_back(text);
  }
  if (has(kArray)) {
    TENON_ASSIGN_OR_RETURN(const ExprId text, write_array(constraint));
    parts.push_back(text);
  }
  return e_.choice(std::move(parts));
}

Result<ExprId> SchemaWriter::write_values(const Constraint& constraint) {
  std::vector<ExprId> parts;
  for (const JsonValue* value : *constraint.values) {
    Constraint rest = constraint;
    rest.values.reset();
    TENON_ASSIGN_OR_RETURN(const bool sound, satisfies(*value, std::move(rest), 0));
    if (sound) parts.push_back(json_.value(*value));
  }
  return e_.choice(std::move(parts));
}

Result<ExprId> SchemaWriter::write_array(const Constraint& constraint) {
  const uint32_t least = constraint.least_items, most = constraint.most_items;
  if (least > most) return e_.nothing();
  if (constraint.prefix.empty() || most == 0) {
    return json_.list('[', value_of(constraint.items), ']', least, most);
  }
  // From the end: after so many items, what may follow.
  const ExprId end = e_.literal("]");
  const size_t drawn = std::min<size_t>(constraint.prefix.size(), most);
  ExprId tail = drawn < constraint.prefix.size() ? e_.sequence({json_.space(), end})
                                                 : array_rest(constraint, end);
  for (size_t i = drawn; i-- > 0;) {
    const ExprId item = value_of(constraint.prefix[i]);
    const ExprId more =
        i == 0 ? e_.sequence({item, tail}) : e_.sequence({json_.comma(), item, tail});
    // An empty array has its space after the bracket already.
    const ExprId stop = i == 0 ? end : e_.sequence({json_.space(), end});
    tail = i >= least ? e_.choice({stop, more}) : more;
  }
  return e_.sequence({e_.literal("["), json_.space(), tail});
}

// After the items that have schemas of their own.
ExprId SchemaWriter::array_rest(const Constraint& constraint, ExprId end) {
  const auto before = static_cast<uint32_t>(constraint.prefix.size());
  const uint32_t least = constraint.least_items > before ? constraint.least_items - before : 0;
  const uint32_t most =
      constraint.most_items == kUnbounded ? kUnbounded : constraint.most_items - before;
  const ExprId item = e_.sequence({json_.comma(), value_of(constraint.items)});
  return e_.sequence({e_.repeat(item, least, most), json_.space(), end});
}

Result<ExprId> parse_json_schema(Expressions& expressions, std::string_view text,
                                 SchemaNotes& notes) {
  TENON_ASSIGN_OR_RETURN(const JsonValue root, parse_json_value(text));
  return SchemaWriter(expressions, root, notes).run({&root, "#"});
}

ExprId any_json_object(Expressions& expressions) {
  return JsonLanguage(expressions).any_object();
}

}  // namespace tenon::grammar
