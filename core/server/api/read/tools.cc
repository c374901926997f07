#include "core/server/api/read/tools.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/base/quote.h"

namespace tenon::api {
namespace {

std::string name_of(const Json& tool) {
  return tool["function"]["name"].get<std::string>();
}

// The fault of a tool, without its place in the list; empty: none.
std::string fault_of(const Json& tool) {
  const Json function = tool.is_object() ? tool.value("function", Json()) : Json();
  if (!function.is_object() || tool.value("type", Json("function")) != Json("function")) {
    return "must be {\"type\": \"function\", \"function\": …}";
  }
  const Json name = function.value("name", Json());
  if (!name.is_string() || name.get_ref<const std::string&>().empty()) {
    return "must be a function with a name";
  }
  const Json parameters = function.value("parameters", Json());
  if (!parameters.is_null() && !parameters.is_object()) {
    return "has \"parameters\" that are no object – expected a JSON schema";
  }
  return "";
}

// A schema that has moved into another one: its references to itself move along.
void move_references(Json& schema, const std::string& place, bool keys_are_names = false) {
  constexpr std::string_view kNames[] = {"properties", "$defs", "definitions", "patternProperties",
                                         "dependentSchemas"};
  constexpr std::string_view kValues[] = {"const", "enum", "default", "examples"};
  const auto is_one_of = [](const auto& words, const std::string& key) {
    return std::find(std::begin(words), std::end(words), key) != std::end(words);
  };
  if (schema.is_array()) {
    for (Json& item : schema) move_references(item, place);
  }
  if (!schema.is_object()) return;
  for (auto& [key, value] : schema.items()) {
    if (keys_are_names) {
      move_references(value, place);
    } else if (key == "$ref" && value.is_string()) {
      const auto& reference = value.get_ref<const std::string&>();
      if (reference.starts_with('#')) value = place + reference.substr(1);
    } else if (!is_one_of(kValues, key)) {
      move_references(value, place, is_one_of(kNames, key));
    }
  }
}

// Of the arguments, which are an object.
Json arguments_schema(const Json& tool, const std::string& place) {
  Json schema = tool["function"].value("parameters", Json());
  if (schema.is_null()) return {{"type", "object"}, {"additionalProperties", false}};
  for (const char* key : {"$schema", "$id"}) schema.erase(key);
  move_references(schema, place);
  if (!schema.contains("type")) schema["type"] = "object";
  return schema;
}

bool is_plain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

Json calls_schema(const Json& tools, const ToolUse& use) {
  Json calls = Json::array(), definitions = Json::object();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string name = name_of(tools[i]);
    if (!use.function.empty() && name != use.function) continue;
    // Faults of the schema are told by this place.
    const bool is_sayable = is_plain(name) && !definitions.contains(name);
    const std::string key = is_sayable ? name : "tools[" + std::to_string(i) + "]";
    const std::string place = "#/$defs/" + key;
    definitions[key] = arguments_schema(tools[i], place);
    calls.push_back(
        {{"type", "object"},
         {"properties", {{"name", {{"const", name}}}, {"arguments", {{"$ref", place}}}}},
         {"required", Json::array({"name", "arguments"})},
         {"additionalProperties", false}});
  }
  Json schema = {{"type", "array"},
                 {"items", {{"anyOf", std::move(calls)}}},
                 {"minItems", 1},
                 {"$defs", std::move(definitions)}};
  if (!use.parallel || !use.function.empty()) schema["maxItems"] = 1;
  return schema;
}

}  // namespace

bool read_allowed_tools(const Json& object, ToolUse& use) {
  if (!object.is_object()) return false;
  const Json mode = object.value("mode", Json()), tools = object.value("tools", Json());
  if (mode != Json("auto") && mode != Json("required")) return false;
  if (!tools.is_array() || tools.empty()) return false;
  use.choice = mode.get<std::string>();
  use.allowed.emplace();
  for (const Json& tool : tools) {
    if (!tool.is_object() || tool.value("type", Json()) != Json("function")) return false;
    const Json function = tool.value("function", tool);
    if (!function.is_object() || !function.value("name", Json()).is_string()) return false;
    use.allowed->push_back(function["name"].get<std::string>());
  }
  return true;
}

bool leave_out_tool(Fields& fields, const Json& tool, size_t index,
                    std::span<const std::string_view> types) {
  const Json type = tool.is_object() ? tool.value("type", Json()) : Json();
  if (!type.is_string()) return false;
  const auto& name = type.get_ref<const std::string&>();
  const bool is_one =
      std::ranges::any_of(types, [&](std::string_view known) { return name.starts_with(known); });
  if (is_one) fields.note_ignored("tools[" + std::to_string(index) + "]");
  return is_one;
}

void give_tools(Fields& fields, const Json& tools, ToolUse use, GenerationCall& call) {
  if (!tools.is_array() || tools.empty()) {
    return fields.refuse("tools", "must be a list of tools – leave it out where there are none");
  }
  std::vector<std::string> missing = use.allowed.value_or(std::vector<std::string>());
  if (!use.function.empty()) missing.push_back(use.function);
  Json given = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    if (const std::string fault = fault_of(tools[i]); !fault.empty()) {
      return fields.refuse("tools[" + std::to_string(i) + "]", fault);
    }
    const std::string name = name_of(tools[i]);
    std::erase(missing, name);
    const bool is_given =
        !use.allowed || std::ranges::find(*use.allowed, name) != use.allowed->end();
    if (is_given) given.push_back(tools[i]);
    // Arguments are held to their schema where a call is, and nowhere else.
    if (!use.is_forced() && tools[i]["function"].value("strict", Json()) == Json(true)) {
      fields.note_ignored("strict");
    }
  }
  if (!missing.empty()) {
    return fields.refuse("tool_choice",
                         "names " + in_quotes(missing.front()) + ", which is none of the tools");
  }
  call.chat.tools = to_text(given);
  call.tools = std::move(use);
}

void force_calls(Fields& fields, GenerationCall& call) {
  if (!fields.ok() || !call.tools || !call.tools->is_forced()) return;
  constexpr std::string_view kOfContents[] = {"response_format", "text.format",
                                              "output_config.format"};
  const bool is_of_contents =
      call.form && std::ranges::find(kOfContents, call.form->field) != std::end(kOfContents);
  if (call.form && !is_of_contents) {
    return fields.refuse(call.form->field,
                         "and a \"tool_choice\" that forces a call are two forms for one answer – "
                         "keep one");
  }
  if (call.form) fields.note_ignored(call.form->field);
  const Json tools = from_text(call.chat.tools);
  call.form = AnswerForm{"json_schema", calls_schema(tools, *call.tools), true, "tools"};
}

}  // namespace tenon::api
