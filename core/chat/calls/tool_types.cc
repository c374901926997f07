#include "core/chat/calls/tool_types.h"

#include <nlohmann/json.hpp>

#include "core/jinja/json_values.h"

namespace tenon::chat {
namespace {

using nlohmann::ordered_json;

std::string name_of_tool(const ordered_json& function) {
  const ordered_json* name = json_member(function, "name");
  return name != nullptr && name->is_string() ? name->get<std::string>() : std::string();
}

}  // namespace

Result<Tools> Tools::read(std::string_view json) {
  Tools tools;
  if (json.empty()) return tools;
  Result<ordered_json> list = parse_json_text(json);
  if (!list.ok()) return with_context("tools", list.status());
  if (!list->is_array()) return invalid_argument("the tools are no list – expected one of objects");
  for (const ordered_json& tool : *list) {
    if (!tool.is_object()) return invalid_argument("a tool is no object – expected a function");
    const ordered_json* function = json_member(tool, "function");
    if (function == nullptr) function = &tool;
    const ordered_json* schema = json_member(*function, "parameters");
    if (schema == nullptr) schema = json_member(*function, "input_schema");
    Tool& made = tools.tools_[name_of_tool(*function)];
    if (schema != nullptr) made.schema = std::make_shared<const ordered_json>(*schema);
  }
  return tools;
}

const ParameterSchema& Tools::parameter(std::string_view tool, std::string_view name) const {
  return value(tool, {std::string(name)});
}

const ParameterSchema& Tools::value(std::string_view tool, const ValuePath& path) const {
  static const ParameterSchema kUnknown;
  const auto found = tools_.find(tool);
  if (found == tools_.end() || found->second.schema == nullptr) return kUnknown;
  auto& asked = found->second.asked;
  const auto known = asked.find(path);
  if (known != asked.end()) return known->second;
  return asked.emplace(path, schema_of_value(*found->second.schema, path)).first->second;
}

std::string unquoted_value_json(std::string_view text) {
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text == "None") return "null";
  if (parse_json_text(text).ok()) return std::string(text);
  return '"' + escaped_json(text) + '"';
}

std::string escaped_json(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '"':
        escaped += "\\\"";
        break;
      case '\\':
        escaped += "\\\\";
        break;
      case '\n':
        escaped += "\\n";
        break;
      case '\r':
        escaped += "\\r";
        break;
      case '\t':
        escaped += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          constexpr std::string_view kHex = "0123456789abcdef";
          escaped += "\\u00";
          escaped += kHex[static_cast<unsigned char>(c) >> 4];
          escaped += kHex[static_cast<unsigned char>(c) & 15];
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

}  // namespace tenon::chat
