// Objects: members in order, optional ones left out, others last.
#include <algorithm>
#include <map>
#include <string>

#include "core/base/utf8.h"
#include "core/grammar/notation/text_form.h"
#include "core/grammar/schema/schema_writer.h"

namespace tenon::grammar {
namespace {

constexpr size_t kMostCounted = 40'000;  // members times how many of them may be there

}  // namespace

Result<ExprId> SchemaWriter::write_object(const Constraint& constraint) {
  TENON_ASSIGN_OR_RETURN(ObjectPlan plan, plan_object(constraint));
  if (plan.least > plan.most) return e_.nothing();
  return e_.sequence({e_.literal("{"), json_.space(), object_tail(plan, 0, 0)});
}

Result<SchemaWriter::ObjectPlan> SchemaWriter::plan_object(const Constraint& constraint) {
  ObjectPlan plan;
  const auto add = [&](const std::string& name, const Schemas& schemas, bool required) {
    const ExprId key = e_.literal("\"" + json_escaped(name) + "\"");
    plan.members.push_back({name, e_.sequence({key, json_.colon(), value_of(schemas)}), required});
  };
  for (const Constraint::Property& property : constraint.properties) {
    add(property.name, property.schemas, constraint.requires_property(property.name));
  }
  for (const std::string& name : constraint.required) {
    if (constraint.property(name) == nullptr) add(name, constraint.additional, true);
  }
  if (plan.members.size() > kMostMembers) {
    return unsupported(at_schema(
        constraint.path, "the object has " + std::to_string(plan.members.size()) +
                             " properties – " + std::to_string(kMostMembers) + " are possible"));
  }
  plan.takes_others = std::none_of(
      constraint.additional.begin(), constraint.additional.end(), [](const SchemaRef& ref) {
        return ref.schema->kind == JsonValue::Kind::boolean && !ref.schema->flag;
      });
  const auto required =
      static_cast<uint32_t>(std::count_if(plan.members.begin(), plan.members.end(),
                                          [](const Member& member) { return member.required; }));
  plan.least = constraint.least_properties;
  plan.most = constraint.most_properties;
  if (plan.takes_others && plan.least > required) {
    return unsupported(at_schema(
        constraint.path,
        "minProperties asks for more than the required properties, and a key that is not in "
        "'properties' could come twice – name what must be there in 'required', or set "
        "additionalProperties to false"));
  }
  // As many as there are at most need no count.
  if (!plan.takes_others && plan.most >= plan.members.size()) plan.most = kUnbounded;
  plan.counts = plan.least > required || plan.most != kUnbounded;
  const size_t counted =
      plan.members.size() * std::min<size_t>(plan.members.size(), plan.most == kUnbounded
                                                                      ? plan.members.size()
                                                                      : plan.most);
  if (plan.counts && counted > kMostCounted) {
    return unsupported(
        at_schema(constraint.path, "minProperties or maxProperties with so many properties – " +
                                       std::to_string(kMostCounted) +
                                       " is the limit of properties times their number"));
  }
  if (plan.takes_others) {
    plan.other =
        e_.sequence({other_key(plan.members), json_.colon(), value_of(constraint.additional)});
  }
  return plan;
}

// The members that may follow the first `at` members, of which `written` are there (0 or 1 where
// nobody counts).
ExprId SchemaWriter::object_tail(ObjectPlan& plan, size_t at, uint32_t written) {
  const auto found = plan.tails.find({at, written});
  if (found != plan.tails.end()) return found->second;
  ExprId tail = 0;
  if (at == plan.members.size()) {
    tail = other_members(plan, written);
  } else {
    const Member& member = plan.members[at];
    std::vector<ExprId> parts;
    if (written < plan.most) {
      const uint32_t next = plan.counts ? written + 1 : 1;
      const ExprId behind = object_tail(plan, at + 1, next);
      parts.push_back(written == 0 ? e_.sequence({member.text, behind})
                                   : e_.sequence({json_.comma(), member.text, behind}));
    }
    if (!member.required) parts.push_back(object_tail(plan, at + 1, written));
    tail = e_.choice(std::move(parts));
  }
  plan.tails.emplace(std::make_pair(at, written), tail);
  return tail;
}

ExprId SchemaWriter::other_members(const ObjectPlan& plan, uint32_t written) {
  const ExprId end = e_.literal("}");
  const ExprId spaced_end = e_.sequence({json_.space(), end});
  const bool enough = !plan.counts || written >= plan.least;
  std::vector<ExprId> parts;
  if (enough) parts.push_back(written == 0 ? end : spaced_end);
  const bool room = !plan.counts || written < plan.most;
  if (plan.takes_others && room) {
    uint32_t more = kUnbounded;
    if (plan.counts && plan.most != kUnbounded) more = plan.most - written - 1;
    const ExprId further = e_.repeat(e_.sequence({json_.comma(), plan.other}), 0, more);
    std::vector<ExprId> others = {plan.other, further, spaced_end};
    if (written > 0) others.insert(others.begin(), json_.comma());
    parts.push_back(e_.sequence(std::move(others)));
  }
  return e_.choice(std::move(parts));
}

// Any key but those of the members, which would be there twice. Escapes are as short as they can
// be, so that each key is written in one way only.
ExprId SchemaWriter::other_key(const std::vector<Member>& members) {
  if (members.empty()) return json_.string();
  struct Node {
    std::map<uint32_t, size_t> next;  // by character
    bool is_name = false;
  };
  std::vector<Node> nodes(1);  // of the names, those after others later
  for (const Member& member : members) {
    size_t at = 0;
    for (std::string_view rest = member.name; !rest.empty();) {
      const Utf8Character character = first_character(rest);
      if (character.bytes == 0) break;  // JSON texts are UTF-8
      rest.remove_prefix(character.bytes);
      const auto [place, is_new] = nodes[at].next.try_emplace(character.code, nodes.size());
      at = place->second;
      if (is_new) nodes.emplace_back();
    }
    nodes[at].is_name = true;
  }
  const ExprId quote = e_.literal("\"");
  const ExprId any = json_.plain_text(0, kUnbounded);
  std::vector<ExprId> behind(nodes.size());
  for (size_t at = nodes.size(); at-- > 0;) {
    std::vector<CodeRange> taken;
    std::vector<ExprId> parts;
    for (const auto& [code, next] : nodes[at].next) {
      taken.push_back({code, code});
      const ExprId character = write_character(e_, CodeSet{{code, code}}, TextForm::json_string);
      parts.push_back(e_.sequence({character, behind[next]}));
    }
    const CodeSet others = CodeSet(std::move(taken)).complement();
    parts.push_back(e_.sequence({write_character(e_, others, TextForm::json_string), any, quote}));
    if (!nodes[at].is_name) parts.push_back(quote);
    behind[at] = e_.choice(std::move(parts));
  }
  return e_.sequence({quote, behind.front()});
}

}  // namespace tenon::grammar
