// Reads what a tool's schema says of one parameter.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/base/ascii.h"
#include "core/base/json/json_pointer.h"
#include "core/chat/calls/allowed_values.h"
#include "core/jinja/json_values.h"

namespace tenon::chat {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostSteps = 100'000;
constexpr size_t kDeepest = 200;  // of schemas that refer to each other

// Names that tools use for the types besides those of JSON Schema: Python's and OpenAPI's.
JsonTypes types_called(std::string_view written) {
  const std::string name = lower_ascii(written);
  const auto of = [](auto... types) {
    return static_cast<JsonTypes>((static_cast<unsigned>(types) | ...));
  };
  const auto is = [&name](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is({"string", "str", "text"})) return of(JsonType::text);
  if (is({"integer", "int", "long"})) return of(JsonType::integer);
  if (is({"number", "float", "double"})) return of(JsonType::integer, JsonType::fraction);
  if (is({"boolean", "bool"})) return of(JsonType::boolean);
  if (is({"null", "none"})) return of(JsonType::null);
  if (is({"array", "list", "tuple", "set"})) return of(JsonType::list);
  if (is({"object", "dict", "map"})) return of(JsonType::object);
  return kAllJsonTypes;
}

class SchemaWalk {
 public:
  SchemaWalk(const ordered_json& root, std::span<const std::string> path)
      : root_(root), path_(path) {}

  ParameterSchema run() {
    const Found found = look(root_, 0);
    ParameterSchema schema;
    if (found && !found->is_nothing() && steps_ <= kMostSteps) schema.values = *found;
    schema.is_expected = is_listed_ || !lists_any_ || steps_ > kMostSteps;
    return schema;
  }

 private:
  // Null: a schema that only leads back to itself, which neither allows nor forbids.
  using Found = std::optional<AllowedValues>;
  using Asked = std::pair<const ordered_json*, size_t>;

  // What the schema of the value that the first `at` steps lead to allows at the end of the path.
  Found look(const ordered_json& schema, size_t at) {
    if (schema.is_boolean() && !schema.get<bool>()) return AllowedValues{.types = 0};
    if (!schema.is_object()) return AllowedValues{};
    const Asked asked{&schema, at};
    if (const auto known = known_.find(asked); known != known_.end()) return spend(known->second);
    if (open_.size() == kDeepest || ++steps_ > kMostSteps) return AllowedValues{};
    if (!open_.insert(asked).second) {
      has_circle_ = true;
      return std::nullopt;
    }
    Found found = everything_in(schema, at);
    open_.erase(asked);
    // Within a circle the answer depends on where it was entered.
    if (!has_circle_) known_[asked] = found;
    return found;
  }

  // All that stands in a schema holds at the same time.
  Found everything_in(const ordered_json& schema, size_t at) {
    std::vector<Found> parts = {reference(schema, at)};
    for (const char* const key : {"anyOf", "oneOf"}) {
      parts.push_back(alternatives(json_member(schema, key), at));
    }
    if (const ordered_json* all = json_member(schema, "allOf"); all != nullptr && all->is_array()) {
      for (const ordered_json& part : *all) parts.push_back(look(part, at));
    }
    parts.push_back(conditional(schema, at));
    Found found = is_end(at) ? own_value(schema) : own_part(schema, at);
    bool leads_back = false;
    for (const Found& part : parts) {
      leads_back |= !part;
      narrow(found, part);
    }
    if (leads_back && found && found->is_anything()) return std::nullopt;
    const ordered_json* nullable = json_member(schema, "nullable");
    if (is_end(at) && found && nullable != nullptr && *nullable == true) {
      found->types |= static_cast<JsonTypes>(JsonType::null);
    }
    return found;
  }

  Found spend(const Found& found) {
    steps_ += 1 + (found ? found->members.size() : 0);
    return steps_ > kMostSteps ? AllowedValues{} : found;
  }

  void narrow(Found& found, const Found& more) {
    if (!more) return;
    if (found) steps_ += found->members.size() + more->members.size();
    found = found ? allowed_in_both(*found, *more) : *more;
  }

  Found own_value(const ordered_json& schema) {
    AllowedValues allowed;
    const ordered_json* type = json_member(schema, "type");
    if (type != nullptr && type->is_string()) {
      allowed.types = types_called(type->get_ref<const std::string&>());
    }
    if (type != nullptr && type->is_array()) {
      allowed.types = 0;
      for (const ordered_json& one : *type) {
        if (one.is_string()) allowed.types |= types_called(one.get_ref<const std::string&>());
      }
    }
    if (const ordered_json* value = json_member(schema, "const")) {
      allowed = allowed_in_both(allowed, only({&value, 1}));
    }
    const ordered_json* list = json_member(schema, "enum");
    if (list == nullptr || !list->is_array()) return allowed;
    std::vector<const ordered_json*> values;
    for (const ordered_json& value : *list) values.push_back(&value);
    return allowed_in_both(allowed, only(values));
  }

  AllowedValues only(std::span<const ordered_json* const> values) {
    AllowedValues allowed{.types = 0};
    steps_ += values.size();
    for (const ordered_json* value : values) {
      allowed.members[member_key(*value)] = json_type_of(*value);
    }
    return allowed;
  }

  bool is_end(size_t at) const { return at == path_.size(); }

  // Of the next step.
  Found own_part(const ordered_json& schema, size_t at) {
    const std::string& step = path_[at];
    if (step.empty()) {
      const ordered_json* items = json_member(schema, "items");
      const bool one_by_one = json_member(schema, "prefixItems") != nullptr;
      return items == nullptr || one_by_one ? AllowedValues{} : look(*items, at + 1);
    }
    const ordered_json* properties = json_member(schema, "properties");
    lists_any_ |= properties != nullptr && properties->is_object() && !properties->empty();
    if (const ordered_json* own =
            properties == nullptr ? nullptr : json_member(*properties, step)) {
      is_listed_ = true;
      return look(*own, at + 1);
    }
    const ordered_json* others = json_member(schema, "additionalProperties");
    const bool has_patterns = json_member(schema, "patternProperties") != nullptr;
    is_listed_ |= has_patterns || (others != nullptr && *others != false);
    if (has_patterns || others == nullptr) return AllowedValues{};
    return look(*others, at + 1);
  }

  Found reference(const ordered_json& schema, size_t at) {
    for (const char* const key : {"$ref", "$dynamicRef"}) {
      const ordered_json* text = json_member(schema, key);
      if (text == nullptr || !text->is_string()) continue;
      const ordered_json* target = target_of(text->get_ref<const std::string&>());
      return target == nullptr ? AllowedValues{} : look(*target, at);
    }
    return AllowedValues{};
  }

  const ordered_json* target_of(std::string_view reference) {
    if (!reference.starts_with('#')) return nullptr;
    const std::string pointer = without_percent_escapes(reference.substr(1));
    if (!pointer.empty() && pointer.front() != '/') return anchor(root_, reference.substr(1));
    const ordered_json* at = &root_;
    for (const std::string& step : json_pointer_steps(pointer)) {
      if (at->is_array()) {
        const size_t index = json_pointer_index(step).value_or(at->size());
        at = index < at->size() ? &(*at)[index] : nullptr;
      } else {
        at = json_member(*at, step);
      }
      if (at == nullptr) return nullptr;
    }
    return at;
  }

  // The schema that calls itself so.
  const ordered_json* anchor(const ordered_json& schema, std::string_view name) {
    if (++steps_ > kMostSteps || !schema.is_structured()) return nullptr;
    for (const char* const key : {"$anchor", "$dynamicAnchor"}) {
      const ordered_json* own = json_member(schema, key);
      if (own != nullptr && own->is_string() && own->get_ref<const std::string&>() == name) {
        return &schema;
      }
    }
    for (const ordered_json& inner : schema) {
      if (const ordered_json* found = anchor(inner, name)) return found;
    }
    return nullptr;
  }

  Found alternatives(const ordered_json* list, size_t at) {
    if (list == nullptr || !list->is_array()) return AllowedValues{};
    Found found;
    for (const ordered_json& one : *list) {
      const Found more = look(one, at);
      if (!more) continue;
      steps_ += more->members.size();
      found = found ? allowed_in_either(*std::move(found), *more) : *more;
    }
    return found;
  }

  Found conditional(const ordered_json& schema, size_t at) {
    if (json_member(schema, "if") == nullptr) return AllowedValues{};
    Found found;
    for (const char* const key : {"then", "else"}) {
      const ordered_json* branch = json_member(schema, key);
      const Found more = branch == nullptr ? AllowedValues{} : look(*branch, at);
      if (more) found = found ? allowed_in_either(*std::move(found), *more) : *more;
    }
    return found;
  }

  const ordered_json& root_;
  std::span<const std::string> path_;
  std::map<Asked, Found> known_;
  std::set<Asked> open_;
  size_t steps_ = 0;
  bool has_circle_ = false, is_listed_ = false, lists_any_ = false;
};

}  // namespace

ParameterSchema schema_of_value(const ordered_json& schema, std::span<const std::string> path) {
  return SchemaWalk(schema, path).run();
}

}  // namespace tenon::chat
