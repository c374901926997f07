// Constraints as languages of JSON texts.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/grammar/schema/json_language.h"
#include "core/grammar/schema/schema_constraint.h"

namespace tenon::grammar {

class SchemaWriter {
 public:
  SchemaWriter(Expressions& expressions, const JsonValue& root, SchemaNotes& notes);
  ~SchemaWriter();
  SchemaWriter(const SchemaWriter&) = delete;
  SchemaWriter& operator=(const SchemaWriter&) = delete;

  Result<ExprId> run(const SchemaRef& root);

 private:
  // Values to which all of `schemas` apply: a rule, whose body is written when its turn comes.
  ExprId value_of(const Schemas& schemas);
  Result<ExprId> write(Constraint constraint);
  Result<ExprId> write_choice(Constraint constraint);
  Status check_exactly_one(const Constraint& rest, const Constraint::Choice& choice);
  Result<ExprId> write_types(const Constraint& constraint);
  Result<ExprId> write_values(const Constraint& constraint);
  Result<ExprId> write_string(const Constraint& constraint);
  Result<ExprId> write_array(const Constraint& constraint);
  ExprId array_rest(const Constraint& constraint, ExprId end);

  Result<ExprId> write_object(const Constraint& constraint);
  struct Member {
    std::string name;
    ExprId text = 0;  // key, colon and value
    bool required = false;
  };
  struct ObjectPlan {
    std::vector<Member> members;
    ExprId other = 0;  // any other member
    bool takes_others = true;
    uint32_t least = 0, most = kUnbounded;
    bool counts = false;  // members are counted
    std::map<std::pair<size_t, uint32_t>, ExprId> tails;
  };
  Result<ObjectPlan> plan_object(const Constraint& constraint);
  ExprId object_tail(ObjectPlan& plan, size_t at, uint32_t written);
  ExprId other_members(const ObjectPlan& plan, uint32_t written);
  ExprId other_key(const std::vector<Member>& members);

  // The texts between the quotes that all patterns and lengths allow.
  Result<ExprId> write_common_text(const Constraint& constraint);
  struct Recogniser;
  Result<bool> matches(const Constraint::Pattern& pattern, std::string_view text);
  // Whether no value can satisfy both.
  Result<bool> exclude_each_other(const Constraint& a, const Constraint& b, uint32_t depth = 0);
  Result<bool> satisfies(const JsonValue& value, Constraint constraint, uint32_t depth);
  Result<bool> satisfies_plain(const JsonValue& value, const Constraint& constraint,
                               uint32_t depth);
  Result<bool> satisfies_all(const JsonValue& value, const Schemas& schemas, uint32_t depth);

  Expressions& e_;
  JsonLanguage json_;
  SchemaReader reader_;
  std::map<std::vector<const JsonValue*>, RuleId> rules_;
  std::deque<std::pair<RuleId, Schemas>> open_;  // called, and not written yet
  std::map<std::pair<std::string, bool>, std::unique_ptr<Recogniser>> recognisers_;
  size_t written_ = 0;
};

}  // namespace tenon::grammar
