#include <limits>
#include <utility>

#include "core/base/quote.h"
#include "core/tokenizer/files/json_reader.h"

namespace tenon::tok {
namespace {

std::string described(const nlohmann::json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  if (value.is_null()) return "null";
  return value.is_boolean() ? "a boolean" : "a number";
}

}  // namespace

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) return std::nullopt;
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  const std::string name(key.substr(0, 80));
  return JsonNode(*found, where_.empty() ? name : where_ + "." + name);
}

Result<JsonNode> JsonNode::at(std::string_view key) const {
  if (!value_->is_object()) return wrong("an object");
  if (auto node = find(key)) return *std::move(node);
  return invalid_argument((where_.empty() ? "the document" : where_) + " has no " + in_quotes(key));
}

Result<std::string> JsonNode::text() const {
  if (!value_->is_string()) return wrong("a string");
  return value_->get_ref<const std::string&>();
}

Result<bool> JsonNode::boolean() const {
  if (!value_->is_boolean()) return wrong("true or false");
  return value_->get<bool>();
}

Result<int64_t> JsonNode::integer() const {
  const bool is_large = value_->is_number_unsigned() &&
                        value_->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (!value_->is_number_integer() || is_large) return wrong("a whole number");
  return value_->get<int64_t>();
}

Result<std::vector<JsonNode>> JsonNode::list() const {
  if (!value_->is_array()) return wrong("a list");
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (const nlohmann::json& item : *value_) {
    nodes.emplace_back(item, where_ + "[" + std::to_string(nodes.size()) + "]");
  }
  return nodes;
}

Result<std::vector<std::pair<std::string, JsonNode>>> JsonNode::members() const {
  if (!value_->is_object()) return wrong("an object");
  std::vector<std::pair<std::string, JsonNode>> nodes;
  for (const auto& [key, item] : value_->items()) {
    nodes.emplace_back(key, JsonNode(item, where_ + "." + key.substr(0, 80)));
  }
  return nodes;
}

Result<std::string> JsonNode::text_at(std::string_view key) const {
  TENON_ASSIGN_OR_RETURN(const JsonNode node, at(key));
  return node.text();
}

Result<bool> JsonNode::boolean_at(std::string_view key) const {
  TENON_ASSIGN_OR_RETURN(const JsonNode node, at(key));
  return node.boolean();
}

Result<bool> JsonNode::boolean_or(std::string_view key, bool otherwise) const {
  const auto node = find(key);
  return node ? node->boolean() : otherwise;
}

Status JsonNode::refuse(std::string_view what) const {
  constexpr size_t kLongest = 200;
  const bool is_long = what.size() > kLongest;
  return unsupported(where_ + " is " + std::string(what.substr(0, kLongest)) +
                     (is_long ? "…'" : "") + ", which is not supported");
}

Status JsonNode::wrong(std::string_view expected) const {
  return invalid_argument((where_.empty() ? "the document" : where_) + " is " + described(*value_) +
                          "; expected " + std::string(expected));
}

}  // namespace tenon::tok
