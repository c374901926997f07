#include "core/server/api/chat_messages.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/server/api/fields.h"

namespace tenon::api {
namespace {

constexpr std::string_view kRoles[] = {"system",    "developer", "user",
                                       "assistant", "tool",      "function"};
constexpr size_t kMostMessages = 65536;

std::string known_roles() {
  std::string text;
  for (const std::string_view role : kRoles) {
    if (!text.empty()) text += ", ";
    text += role;
  }
  return text;
}

void read_own_content(Fields& fields, Json& out) {
  const Json* content = fields.take("content");
  if (content == nullptr) {
    const bool may_lack =
        out.value("role", "") == "assistant" &&
        (fields.object().contains("tool_calls") || fields.object().contains("function_call"));
    if (!may_lack) fields.refuse("content", "is missing – expected a text");
    return;
  }
  auto text = read_content(*content, fields.path("content"));
  if (text.ok()) {
    out["content"] = *std::move(text);
  } else {
    fields.refuse(text.error());
  }
}

Outcome<Json> read_message(const Json& message, size_t index) {
  const std::string where = "messages[" + std::to_string(index) + "]";
  if (!message.is_object()) {
    return ApiError{.message = "\"" + where + "\" must be an object", .param = where};
  }
  Fields fields(message, where);
  Json out = Json::object();
  out["role"] = read_role(fields);
  read_own_content(fields, out);
  for (const char* name : {"name", "tool_call_id", "reasoning_content", "reasoning", "thinking"}) {
    if (std::string text = fields.text(name); !text.empty()) out[name] = std::move(text);
  }
  if (const Json* calls = fields.take("tool_calls")) {
    if (!calls->is_array()) fields.refuse("tool_calls", "must be a list");
    if (calls->is_array() && !calls->empty()) out["tool_calls"] = *calls;
  }
  // What an answer of OpenAI's has, so that it can be sent back as it came.
  for (const char* name : {"refusal", "audio", "annotations", "function_call"}) {
    const Json* value = fields.take(name);
    if (value != nullptr && !value->empty()) {
      fields.refuse(name, "is not offered – leave it out");
    }
  }
  fields.refuse_unknown();
  if (fields.fault()) return *fields.fault();
  return out;
}

}  // namespace

std::string read_role(Fields& fields) {
  std::string role = fields.text("role");
  if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
    const std::string found = role.empty() ? "is missing" : "is " + shown_text(role);
    fields.refuse("role", found + " – expected one of " + known_roles());
  }
  return role;
}

Outcome<std::string> read_content(const Json& content, const std::string& name) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array() || content.empty()) {
    return ApiError{.message = "\"" + name + "\" must be a text or a list of parts", .param = name};
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string where = name + "[" + std::to_string(i) + "]";
    const std::string type = part.is_object() && part.value("type", Json()).is_string()
                                 ? part["type"].get<std::string>()
                                 : std::string();
    if (type != "text" && type != "input_text" && type != "output_text") {
      const std::string found =
          type.empty() ? "is a part without a type" : "is a part of type " + shown_text(type);
      return ApiError{.message = "\"" + where + "\" " + found + " – only text is taken here",
                      .param = where};
    }
    if (!part.value("text", Json()).is_string()) {
      return ApiError{.message = "\"" + where + ".text\" must be a text", .param = where + ".text"};
    }
    if (!text.empty()) text += '\n';
    text += part["text"].get<std::string>();
  }
  return text;
}

Outcome<Json> read_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty()) {
    return ApiError{.message = "\"messages\" must be a list of at least one message",
                    .param = "messages"};
  }
  if (messages.size() > kMostMessages) {
    return ApiError{.message = "\"messages\" has " + std::to_string(messages.size()) +
                               " messages – at most 65536 are taken",
                    .param = "messages"};
  }
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    auto message = read_message(messages[i], i);
    if (!message.ok()) return message.error();
    out.push_back(*std::move(message));
  }
  return out;
}

}  // namespace tenon::api
