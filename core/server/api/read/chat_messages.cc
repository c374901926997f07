#include "core/server/api/read/chat_messages.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/server/api/read/fields.h"

namespace tenon::api {
namespace {

constexpr std::string_view kRoles[] = {"system",    "developer", "user",
                                       "assistant", "tool",      "function"};
// What servers call the reasoning of an answer.
constexpr const char* kThoughts[] = {"reasoning_content", "reasoning", "thinking"};
constexpr size_t kMostMessages = 65536;

std::string known_roles() {
  std::string text;
  for (const std::string_view role : kRoles) {
    if (!text.empty()) text += ", ";
    text += role;
  }
  return text;
}

// An answer that thought or called something need not say anything.
bool has_thought(const Json& message) {
  return std::ranges::any_of(kThoughts, [&](const char* name) {
    const Json thought = message.value(name, Json());
    return thought.is_string() && thought != Json("");
  });
}

void read_own_content(Fields& fields, Json& out, Notes& notes) {
  const Json* content = fields.take("content");
  if (content != nullptr) {
    auto text = read_content(*content, fields.path("content"), notes);
    if (text.ok()) {
      out["content"] = *std::move(text);
    } else {
      fields.refuse(text.error());
    }
    return;
  }
  const Json& message = fields.object();
  const bool calls = message.contains("tool_calls") || message.contains("function_call");
  const bool may_lack = out.value("role", "") == "assistant" && (calls || has_thought(message));
  if (!may_lack) return fields.refuse("content", "is missing – expected a text");
  // Templates write it after the reasoning.
  if (message.value("tool_calls", Json()).empty()) out["content"] = "";
}

// As a template is shown them: without what clients keep next to a call.
void read_calls(Fields& fields, Json& out, Notes& notes) {
  const Json* calls = fields.take("tool_calls");
  if (calls == nullptr) return;
  if (!calls->is_array()) return fields.refuse("tool_calls", "must be a list");
  if (calls->empty()) return;
  Json shown = *calls;
  for (Json& call : shown) {
    if (!call.is_object()) continue;
    call.erase("index");  // among the pieces of a stream
    const auto function = call.find("function");
    if (function == call.end() || !function->is_object()) continue;
    const auto parsed = function->find("parsed_arguments");
    if (parsed == function->end()) continue;
    if (!parsed->is_null()) notes.insert("parsed_arguments");
    function->erase(parsed);
  }
  out["tool_calls"] = std::move(shown);
}

Outcome<Json> read_message(const Json& message, size_t index, Notes& notes) {
  const std::string where = "messages[" + std::to_string(index) + "]";
  if (!message.is_object()) {
    return ApiError{.message = "\"" + where + "\" must be an object", .param = where};
  }
  Fields fields(message, where);
  Json out = Json::object();
  out["role"] = read_role(fields);
  read_own_content(fields, out, notes);
  for (const char* name : {"name", "tool_call_id", kThoughts[0], kThoughts[1], kThoughts[2]}) {
    if (std::string text = fields.text(name); !text.empty()) out[name] = std::move(text);
  }
  read_calls(fields, out, notes);
  fields.settle(Place::chat_message);
  if (fields.fault()) return *fields.fault();
  notes.insert(fields.ignored().begin(), fields.ignored().end());
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

void note_unknown(Notes& notes, const std::string& name) {
  constexpr size_t kLongest = 64, kMost = 32;
  const bool is_plain =
      !name.empty() && name.size() <= kLongest && std::ranges::all_of(name, [](unsigned char c) {
        return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
               (c >= 'A' && c <= 'Z');
      });
  notes.insert(is_plain && notes.size() < kMost ? name : "others");
}

void note_ignored(Fields& fields, const Notes& notes) {
  for (const std::string& name : notes) fields.note_ignored(name);
}

Outcome<std::string> read_content(const Json& content, const std::string& name, Notes& notes) {
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
    for (const auto& [member, value] : part.items()) {
      if (member != "type" && member != "text" && !value.empty()) note_unknown(notes, member);
    }
  }
  return text;
}

Outcome<Json> read_messages(const Json& messages, Notes& notes) {
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
    auto message = read_message(messages[i], i, notes);
    if (!message.ok()) return message.error();
    out.push_back(*std::move(message));
  }
  return out;
}

}  // namespace tenon::api
