#include "core/chat/conversation.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/quote.h"
#include "core/jinja/json_values.h"

namespace tenon::chat {
namespace {

using nlohmann::ordered_json;

// The first is the one that templates read.
constexpr std::array<const char*, 3> kReasoningFields = {"reasoning_content", "thinking",
                                                         "reasoning"};

constexpr std::array<std::string_view, 22> kKnownRoles = {
    "system",      "user",      "assistant", "tool",
    "developer",   "function",  "ipython",   "tool_response",
    "tool_result", "tool_call", "model",     "observation",
    "critic",      "context",   "documents", "available_tools",
    "environment", "tool_plan", "human",     "gpt",
    "root",        "control"};

std::string message_name(size_t index) {
  return "message " + std::to_string(index + 1);
}

void drop_nulls(ordered_json& message) {
  ordered_json kept = ordered_json::object();
  for (auto& [key, value] : message.items()) {
    if (!value.is_null()) kept[key] = std::move(value);
  }
  message = std::move(kept);
}

Result<bool> read_arguments(ordered_json& function, size_t index) {
  if (!function.is_object() || !function.contains("arguments")) return false;
  ordered_json& arguments = function["arguments"];
  if (!arguments.is_string()) return false;
  const auto text = arguments.get<std::string>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    arguments = ordered_json::object();
    return true;
  }
  Result<ordered_json> parsed = parse_template_json(text);
  if (!parsed.ok()) {
    return with_context(message_name(index) + ": the arguments of a tool call", parsed.status());
  }
  arguments = *std::move(parsed);
  return true;
}

Status check_tool_calls(const ordered_json& message, size_t index) {
  if (!message.contains("tool_calls")) return Status();
  const ordered_json& calls = message["tool_calls"];
  const bool are_objects =
      calls.is_array() && std::all_of(calls.begin(), calls.end(),
                                      [](const ordered_json& call) { return call.is_object(); });
  if (are_objects) return Status();
  return invalid_argument(message_name(index) + ": 'tool_calls' is no list of objects");
}

// "thinking" stands in front where it is new, as a dictionary of Python puts it.
void copy_reasoning(ordered_json& message) {
  const auto* found = std::find_if(
      kReasoningFields.begin(), kReasoningFields.end(),
      [&](const char* field) { return message.contains(field) && !message[field].is_null(); });
  if (found == kReasoningFields.end()) return;
  const ordered_json reasoning = message[*found];
  if (!message.contains("thinking")) {
    ordered_json with_thinking = ordered_json::object();
    with_thinking["thinking"] = reasoning;
    for (auto& [key, value] : message.items()) with_thinking[key] = std::move(value);
    message = std::move(with_thinking);
  }
  message["reasoning_content"] = reasoning;
}

// The text that goes on: the content, or the last text part of it.
ordered_json* continued_text(ordered_json& content) {
  if (content.is_string()) return &content;
  if (!content.is_array()) return nullptr;
  for (auto part = content.rbegin(); part != content.rend(); ++part) {
    if (part->is_object() && part->contains("text") && (*part)["text"].is_string()) {
      return &(*part)["text"];
    }
  }
  return nullptr;
}

std::string_view trimmed(std::string_view text) {
  const ByteRange range = stripped(text, nullptr, true, true);
  return text.substr(range.begin, range.end - range.begin);
}

}  // namespace

Status check_objects(const ordered_json& list, std::string_view what) {
  if (!list.is_array()) return invalid_argument(std::string(what) + " are no list");
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) {
      return invalid_argument(std::string(what) + ": entry " + std::to_string(i + 1) +
                              " is no object");
    }
  }
  return Status();
}

Status prepare_messages(ordered_json& messages) {
  TENON_RETURN_IF_ERROR(check_objects(messages, "messages"));
  if (messages.empty()) {
    return invalid_argument("the conversation has no message – expected at least one");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    ordered_json& message = messages[i];
    drop_nulls(message);
    if (!message.contains("role") || !message["role"].is_string()) {
      return invalid_argument(message_name(i) + " has no 'role' – expected a text, such as 'user'");
    }
    TENON_RETURN_IF_ERROR(check_tool_calls(message, i));
    copy_reasoning(message);
  }
  return Status();
}

Result<bool> read_tool_arguments(ordered_json& messages) {
  bool any = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].contains("tool_calls")) continue;
    for (ordered_json& call : messages[i]["tool_calls"]) {
      for (ordered_json* holder : {call.contains("function") ? &call["function"] : &call, &call}) {
        TENON_ASSIGN_OR_RETURN(const bool was_text, read_arguments(*holder, i));
        any |= was_text;
      }
    }
  }
  return any;
}

Result<Value> make_messages(Budget& budget, const ordered_json& messages) {
  Values values;
  for (const ordered_json& message : messages) {
    std::vector<Dict::Item> items;
    for (const auto& [key, field] : message.items()) {
      const bool is_known_role =
          key == "role" && std::find(kKnownRoles.begin(), kKnownRoles.end(),
                                     field.get_ref<const std::string&>()) != kKnownRoles.end();
      TENON_ASSIGN_OR_RETURN(Value value, make_value(budget, field, is_known_role));
      items.emplace_back(make_text(budget, key, false), std::move(value));
    }
    values.push_back(make_dict(budget, std::move(items)));
  }
  return make_list(budget, std::move(values));
}

Result<Continuation> mark_final_message(ordered_json& messages, const std::string& field,
                                        std::string_view source) {
  ordered_json& message = messages.back();
  ordered_json* text = message.contains(field) ? continued_text(message[field]) : nullptr;
  if (text == nullptr) {
    return invalid_argument("the last message has no text in " + in_quotes(field) +
                            " that could be continued");
  }
  std::vector<std::string> fields = {field};
  const auto is_reasoning = std::find(kReasoningFields.begin(), kReasoningFields.end(), field);
  if (is_reasoning != kReasoningFields.end()) {
    for (const char* name : kReasoningFields) {
      if (name != field && message.contains(name) && message[name] == message[field]) {
        fields.emplace_back(name);
      }
    }
  }
  if (std::none_of(fields.begin(), fields.end(), [&](const std::string& name) {
        return source.find(name) != std::string_view::npos;
      })) {
    return invalid_argument("the chat template does not read " + in_quotes(field) +
                            " of a message, so that it cannot be continued");
  }
  Continuation continuation{text->get<std::string>()};
  for (const std::string& name : fields) {
    ordered_json* place = continued_text(message[name]);
    if (place != nullptr) *place = continuation.text + std::string(Continuation::kMark);
  }
  return continuation;
}

Status cut_continuation(const Continuation& continuation, MarkedText& text) {
  const std::string_view mark = trimmed(Continuation::kMark);
  const std::string_view bytes = text.bytes();
  const size_t at = bytes.rfind(mark);
  if (at == std::string_view::npos ||
      bytes.find(trimmed(continuation.text)) == std::string_view::npos) {
    return invalid_argument(
        "the chat template does not write the last message as it is, so that "
        "it cannot be continued");
  }
  if (bytes.substr(at).starts_with(Continuation::kMark)) {
    text.truncate(at);
  } else {
    // The template takes white space off the message's end.
    text.truncate(stripped(bytes.substr(0, at), nullptr, false, true).end);
  }
  return Status();
}

}  // namespace tenon::chat
