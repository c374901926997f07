// What several schemas say together of members and items, and which schemas exclude each other.
#include <algorithm>
#include <utility>

#include "core/grammar/schema/schema_constraint.h"

namespace tenon::grammar {

// Members of both: what one schema names and the other does not must satisfy what the other says
// of members that it does not name.
Status SchemaReader::merge_properties(Constraint& into, const JsonValue& schema,
                                      const std::string& path) {
  const JsonValue* properties = schema.find("properties");
  const JsonValue* additional = schema.find("additionalProperties");
  if (properties == nullptr && additional == nullptr) return {};
  static const JsonValue kNone;
  const JsonValue& named = properties == nullptr ? kNone : *properties;
  const std::string named_path = below(path, "properties");
  const SchemaRef others{additional, below(path, "additionalProperties")};
  for (Constraint::Property& property : into.properties) {
    const JsonValue* here = named.find(property.name);
    if (here != nullptr) {
      property.schemas.push_back({here, below(named_path, property.name)});
    } else if (additional != nullptr) {
      property.schemas.push_back(others);
    }
  }
  const size_t before = into.properties.size();
  if (before + named.members.size() > kMostMembers) {
    return unsupported(at_schema(path, "the object has more than " + std::to_string(kMostMembers) +
                                           " properties – that is the limit"));
  }
  for (const auto& [name, value] : named.members) {
    const auto end = into.properties.begin() + static_cast<std::ptrdiff_t>(before);
    const bool known =
        std::any_of(into.properties.begin(), end,
                    [&wanted = name](const auto& property) { return property.name == wanted; });
    if (known) continue;
    Constraint::Property property{name, {{&value, below(named_path, name)}}};
    property.schemas.insert(property.schemas.end(), into.additional.begin(), into.additional.end());
    into.properties.push_back(std::move(property));
  }
  if (additional != nullptr) into.additional.push_back(others);
  return {};
}

Status SchemaReader::merge_items(Constraint& into, const JsonValue& schema,
                                 const std::string& path) {
  const JsonValue* items = schema.find("items");
  const JsonValue* prefix = schema.find("prefixItems");
  std::string items_path = below(path, "items"), prefix_path = below(path, "prefixItems");
  if (items != nullptr && items->kind == JsonValue::Kind::array) {  // as drafts before 2020-12
    prefix = items;
    prefix_path = items_path;
    items = schema.find("additionalItems");
    items_path = below(path, "additionalItems");
  }
  if (items == nullptr && prefix == nullptr) return {};
  const size_t here = prefix == nullptr ? 0 : prefix->items.size();
  const size_t before = into.prefix.size();
  for (size_t i = before; i < here; ++i) into.prefix.push_back(into.items);
  for (size_t i = 0; i < into.prefix.size(); ++i) {
    if (i < here) {
      into.prefix[i].push_back({&prefix->items[i], below(prefix_path, std::to_string(i))});
    } else if (items != nullptr) {
      into.prefix[i].push_back({items, items_path});
    }
  }
  if (items != nullptr) into.items.push_back({items, items_path});
  return {};
}

}  // namespace tenon::grammar
