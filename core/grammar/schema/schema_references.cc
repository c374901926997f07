#include "core/grammar/schema/schema_references.h"

#include <algorithm>
#include <array>

#include "core/base/json/json_pointer.h"
#include "core/base/quote.h"

namespace tenon::grammar {
namespace {

// Words whose values hold schemas. What else there is (enum, const, default, unknown words) may
// look like a schema and is none.
constexpr std::array<std::string_view, 12> kOneSchema = {"additionalProperties",
                                                         "additionalItems",
                                                         "items",
                                                         "contains",
                                                         "propertyNames",
                                                         "not",
                                                         "if",
                                                         "then",
                                                         "else",
                                                         "unevaluatedItems",
                                                         "contentSchema",
                                                         "unevaluatedProperties"};
constexpr std::array<std::string_view, 5> kSchemaList = {"allOf", "anyOf", "oneOf", "prefixItems",
                                                         "items"};
constexpr std::array<std::string_view, 6> kSchemaMap = {
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"};

template <size_t N>
bool may_hold_schemas(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// RFC 6901; null where it leads to nothing.
const JsonValue* follow_pointer(const JsonValue& root, std::string_view pointer) {
  const JsonValue* at = &root;
  for (const std::string& step : json_pointer_steps(pointer)) {
    if (at->kind == JsonValue::Kind::array) {
      const size_t index = json_pointer_index(step).value_or(at->items.size());
      at = index < at->items.size() ? &at->items[index] : nullptr;
    } else {
      at = at->find(step);
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

size_t scheme_length(std::string_view uri) {
  const size_t end =
      uri.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
  return end != uri.npos && end > 0 && uri[end] == ':' ? end + 1 : 0;
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> kept;
  const bool is_absolute = path.starts_with('/');
  bool ends_open = false;
  while (!path.empty()) {
    if (path.starts_with('/')) path.remove_prefix(1);
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(part.size());
    ends_open = part.empty() || part == "." || part == "..";
    if (part == ".." && !kept.empty()) kept.pop_back();
    if (!ends_open) kept.push_back(part);
  }
  std::string out = is_absolute ? "/" : "";
  for (const std::string_view part : kept) out.append(part).append("/");
  if (!ends_open && !kept.empty()) out.pop_back();
  return out;
}

// RFC 3986, section 5.2: a reference without its fragment, from where `base` stands.
std::string resolved_uri(std::string_view base, std::string_view reference) {
  if (reference.empty()) return std::string(base);
  if (scheme_length(reference) > 0) return std::string(reference);
  const size_t scheme = scheme_length(base);
  std::string_view rest = base.substr(scheme);
  size_t authority = 0;
  if (rest.starts_with("//")) authority = std::min(rest.find_first_of("/?", 2), rest.size());
  const std::string_view path = rest.substr(authority, rest.find('?') - authority);
  if (reference.starts_with("//")) return std::string(base.substr(0, scheme)).append(reference);
  const std::string head(base.substr(0, scheme + authority));
  if (reference.starts_with('?')) return head + std::string(path).append(reference);
  const size_t query = std::min(reference.find('?'), reference.size());
  const std::string_view own = reference.substr(0, query);
  std::string merged(own);
  if (!own.starts_with('/')) {
    const size_t folder = path.rfind('/');
    merged = folder == path.npos ? (authority > 0 ? "/" : "") : std::string(path, 0, folder + 1);
    merged.append(own);
  }
  return head + without_dots(merged).append(reference.substr(query));
}

}  // namespace

SchemaReferences::SchemaReferences(const JsonValue& root) {
  resources_.push_back({&root, "", {}});
  by_uri_.emplace("", 0);
  index(root, 0);
}

void SchemaReferences::index(const JsonValue& schema, size_t resource) {
  if (!schema.is_object() || resource_of_.contains(&schema)) return;
  const auto text = [&](std::string_view word) -> const std::string* {
    const JsonValue* value = schema.find(word);
    return value != nullptr && value->is_string() ? &value->text : nullptr;
  };
  if (const std::string* id = text("$id")) {
    if (schema.find("$ref") != nullptr && &schema != resources_[0].root) {
      two_meanings_.insert(&schema);
    }
    resource = named(schema, *id, resource);
  }
  resource_of_.emplace(&schema, resource);
  for (const std::string_view word : {"$anchor", "$dynamicAnchor"}) {
    const std::string* name = text(word);
    if (name == nullptr) continue;
    const auto [place, is_new] = resources_[resource].anchors.try_emplace(*name, &schema);
    if (!is_new && place->second != &schema) place->second = nullptr;
    if (word == "$dynamicAnchor") ++dynamic_anchors_[*name];
  }
  const JsonValue* recursive = schema.find("$recursiveAnchor");
  has_recursive_anchor_ = has_recursive_anchor_ || (recursive != nullptr && recursive->flag);
  index_below(schema, resource);
}

void SchemaReferences::index_below(const JsonValue& schema, size_t resource) {
  for (const auto& [word, value] : schema.members) {
    if (may_hold_schemas(kOneSchema, word)) index(value, resource);
    if (may_hold_schemas(kSchemaList, word)) {
      for (const JsonValue& item : value.items) index(item, resource);
    }
    if (may_hold_schemas(kSchemaMap, word)) {
      for (const auto& [name, member] : value.members) index(member, resource);
    }
  }
}

// The resource that an identifier begins; an anchor, as draft 7 writes it, begins none.
size_t SchemaReferences::named(const JsonValue& schema, const std::string& id, size_t resource) {
  const std::string_view whole(id);
  const std::string_view uri = whole.substr(0, whole.find('#'));
  if (uri.empty()) {
    if (whole.size() > 1) resources_[resource].anchors.try_emplace(id.substr(1), &schema);
    return resource;
  }
  const std::string absolute = resolved_uri(resources_[resource].uri, uri);
  if (&schema == resources_[0].root) {
    resources_[0].uri = absolute;
    by_uri_.emplace(absolute, 0);
    return 0;
  }
  resources_.push_back({&schema, absolute, {}});
  const auto [place, is_new] = by_uri_.try_emplace(absolute, resources_.size() - 1);
  if (!is_new) two_meanings_.insert(resources_[place->second].root);
  return resources_.size() - 1;
}

// A dynamic reference leads to where a plain one does, where the document has one place only that
// it could lead to.
Status SchemaReferences::check_dynamic(std::string_view keyword, std::string_view fragment) const {
  const auto places = dynamic_anchors_.find(fragment);
  const bool is_plain = keyword == "$dynamicRef"
                            ? places == dynamic_anchors_.end() || places->second == 1
                            : !has_recursive_anchor_ || resources_.size() == 1;
  if (is_plain) return {};
  return unsupported(
      "depends on the way that leads to it, and several schemas offer it – only one may – write "
      "$ref to the one that is meant");
}

Result<const JsonValue*> SchemaReferences::resolve(const JsonValue& from, std::string_view keyword,
                                                   std::string_view reference) {
  const std::string_view uri = reference.substr(0, reference.find('#'));
  const std::string_view raw =
      uri.size() < reference.size() ? reference.substr(uri.size() + 1) : std::string_view();
  const std::string fragment = without_percent_escapes(raw);
  const auto at = resource_of_.find(&from);
  size_t resource = at == resource_of_.end() ? 0 : at->second;
  if (!uri.empty()) {
    const auto found = by_uri_.find(resolved_uri(resources_[resource].uri, uri));
    if (found == by_uri_.end()) {
      return unsupported(
          "leads elsewhere – only those into the same schema, #/…, #name or an $id in it, are "
          "supported");
    }
    resource = found->second;
  }
  const JsonValue* root = resources_[resource].root;
  if (two_meanings_.contains(&from) || two_meanings_.contains(root)) {
    return unsupported(
        "may lead to two places: an $id is given twice, or stands next to a $ref, where draft 7 "
        "and later ones differ – give each schema an $id of its own, and the $ref a schema of its "
        "own");
  }
  if (keyword != "$ref") TENON_RETURN_IF_ERROR(check_dynamic(keyword, fragment));
  const JsonValue* target = nullptr;
  if (fragment.empty() || fragment.starts_with('/')) {
    target = follow_pointer(*root, fragment);
    // A key that only looks encoded.
    if (target == nullptr && raw.starts_with('/')) target = follow_pointer(*root, raw);
  } else {
    const auto& anchors = resources_[resource].anchors;
    const auto anchor = anchors.find(fragment);
    if (anchor != anchors.end()) target = anchor->second;
  }
  if (target == nullptr) return invalid_argument("leads to nothing");
  index(*target, resource);
  return target;
}

}  // namespace tenon::grammar
