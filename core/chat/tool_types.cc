#include "core/chat/tool_types.h"

#include <nlohmann/json.hpp>

#include "core/chat/json_values.h"

namespace tenon::chat {
namespace {

using nlohmann::ordered_json;

const ordered_json* member(const ordered_json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string text_member(const ordered_json& object, const char* key) {
  const ordered_json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

ToolTypes types_of(const ordered_json& function) {
  ToolTypes types;
  const ordered_json* schema = member(function, "parameters");
  if (schema == nullptr) schema = member(function, "input_schema");
  const ordered_json* properties = schema == nullptr ? nullptr : member(*schema, "properties");
  if (properties == nullptr || !properties->is_object()) return types;
  for (const auto& [name, property] : properties->items()) {
    types.parameters[name] = text_member(property, "type");
  }
  return types;
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
    const ordered_json* function = member(tool, "function");
    if (function == nullptr) function = &tool;
    tools.tools_[text_member(*function, "name")] = types_of(*function);
  }
  return tools;
}

bool Tools::is_text(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return false;
  const auto type = found->second.parameters.find(parameter);
  return type != found->second.parameters.end() && type->second == "string";
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
