// What one value must satisfy, collected from all the schemas that apply to it: a schema, what it
// refers to, what allOf adds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/automaton/expression.h"
#include "core/grammar/schema/json_value.h"
#include "core/grammar/schema/number_language.h"
#include "core/grammar/schema/schema_references.h"
#include "core/grammar/schema/schema_words.h"

namespace tenon::grammar {

using Schemas = std::vector<SchemaRef>;  // all of them apply

enum TypeBits : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kObject = 4,
  kArray = 8,
  kString = 16,
  kInteger = 32,   // a number without a fraction
  kFraction = 64,  // one with a fraction
  kNumber = kInteger | kFraction,
  kAnyType = 127,
};

struct Constraint {
  uint8_t types = kAnyType;
  bool never = false;
  std::string path;  // of the first schema, for messages
  // enum and const: one of these.
  std::optional<std::vector<const JsonValue*>> values;

  NumberLimits numbers;

  uint32_t least_length = 0, most_length = kUnbounded;
  struct Pattern {
    std::string text;
    bool is_format = false;  // `text` is the expression of a format, and is the whole string
    std::string path;
  };
  std::vector<Pattern> patterns;

  struct Property {
    std::string name;
    Schemas schemas;
  };
  std::vector<Property> properties;
  std::vector<std::string> required;
  Schemas additional;
  uint32_t least_properties = 0, most_properties = kUnbounded;

  std::vector<Schemas> prefix;
  Schemas items;
  uint32_t least_items = 0, most_items = kUnbounded;

  // One of each must apply too.
  struct Choice {
    Schemas alternatives;
    bool exactly_one = false;
    std::vector<const JsonValue*> chain;  // schemas that are only here because of each other
    std::string path;
  };
  std::vector<Choice> choices;
  std::vector<const JsonValue*> folded;  // the schemas that are in here

  const Property* property(std::string_view name) const;
  bool requires_property(std::string_view name) const;
};

// Reads keywords into constraints.
class SchemaReader {
 public:
  SchemaReader(const JsonValue& root, SchemaNotes& notes) : references_(root), notes_(notes) {}

  Result<Constraint> read(const Schemas& schemas);
  // Lets one more schema apply. `chain`: as Constraint::Choice has it.
  Status fold(Constraint& constraint, const SchemaRef& schema,
              std::vector<const JsonValue*> chain = {});

 private:
  struct Keyword {
    Constraint& into;
    const JsonValue& schema;
    const std::string& path;
    const std::string& name;
    const JsonValue& value;
    const std::vector<const JsonValue*>& chain;
  };
  Status keyword(const Keyword& keyword);
  Result<bool> general_keyword(const Keyword& keyword);
  Result<bool> limit_keyword(const Keyword& keyword);
  Result<bool> text_keyword(const Keyword& keyword);
  Result<bool> object_keyword(const Keyword& keyword);
  Result<bool> array_keyword(const Keyword& keyword);
  Status types(const Keyword& keyword);
  Status nullable(const Keyword& keyword);
  Status values(const Keyword& keyword);
  Status refer(const Keyword& keyword);
  Status choice(const Keyword& keyword);
  Status merge_properties(Constraint& into, const JsonValue& schema, const std::string& path);
  Status merge_items(Constraint& into, const JsonValue& schema, const std::string& path);
  Status unknown(const Keyword& keyword);

  SchemaReferences references_;
  SchemaNotes& notes_;
};

// Names in 'properties' or 'required' of what applies to one object, and values of an enum.
constexpr size_t kMostMembers = 1000;
constexpr size_t kMostValues = 5000;

// "schema, at #/properties/a: …"
std::string at_schema(const std::string& path, std::string_view what);
// A path with one more step.
std::string below(const std::string& path, std::string_view step);
// The regular expression of a format; empty where it is not known.
std::string_view format_pattern(std::string_view format);

}  // namespace tenon::grammar
