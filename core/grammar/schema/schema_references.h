// Where the references of a schema lead: JSON pointers (RFC 6901, as URI fragments:
// percent-encoded), anchors, and identifiers of schemas within the same document.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/schema/json_value.h"

namespace tenon::grammar {

// A schema and its place: "#/properties/name".
struct SchemaRef {
  const JsonValue* schema = nullptr;
  std::string path;
};

class SchemaReferences {
 public:
  // The root outlives it.
  explicit SchemaReferences(const JsonValue& root);

  // Where the schema `from` refers to by `keyword` ($ref, $dynamicRef, $recursiveRef). Errors
  // without their place: invalid_argument (to nothing), unsupported (out of the document, or to
  // what depends on the way to it).
  Result<const JsonValue*> resolve(const JsonValue& from, std::string_view keyword,
                                   std::string_view reference);

 private:
  // A schema with an identifier, and what is relative to it.
  struct Resource {
    const JsonValue* root = nullptr;
    std::string uri;
    std::map<std::string, const JsonValue*, std::less<>> anchors;  // null: given twice
  };
  void index(const JsonValue& schema, size_t resource);
  void index_below(const JsonValue& schema, size_t resource);
  size_t named(const JsonValue& schema, const std::string& id, size_t resource);
  Status check_dynamic(std::string_view keyword, std::string_view fragment) const;

  std::vector<Resource> resources_;  // the first is the root's
  std::unordered_map<const JsonValue*, size_t> resource_of_;
  std::map<std::string, size_t, std::less<>> by_uri_;
  std::set<const JsonValue*> two_meanings_;  // $id next to $ref
  std::map<std::string, int, std::less<>> dynamic_anchors_;
  bool has_recursive_anchor_ = false;
};

}  // namespace tenon::grammar
