// /v1/messages
#include "core/server/api/chat_messages.h"
#include "core/server/api/dialects.h"
#include "core/server/api/sampling_fields.h"

namespace tenon::api {
namespace {

// One message of Anthropic's may be several of a template's: results of tools stand by themselves.
class Blocks {
 public:
  Blocks(std::string role, std::string where) : role_(std::move(role)), where_(std::move(where)) {}

  std::optional<ApiError> read(const Json& content) {
    if (content.is_string()) {
      text_ = content.get<std::string>();
      return std::nullopt;
    }
    if (!content.is_array() || content.empty()) return fault("must be a text or a list of blocks");
    for (const Json& block : content) {
      if (!block.is_object() || !block.value("type", Json()).is_string()) {
        return fault("has a block without a type");
      }
      if (auto problem = take(block, block["type"].get<std::string>())) return problem;
    }
    return std::nullopt;
  }

  void put(Json& messages) const {
    for (const Json& result : results_) messages.push_back(result);
    if (text_.empty() && calls_.empty() && !results_.empty()) return;
    Json message = {{"role", role_}};
    if (!text_.empty() || calls_.empty()) message["content"] = text_;
    if (!thoughts_.empty()) message["reasoning_content"] = thoughts_;
    if (!calls_.empty()) message["tool_calls"] = calls_;
    messages.push_back(std::move(message));
  }

 private:
  ApiError fault(const std::string& sentence) const {
    return {.message = "\"" + where_ + "\" " + sentence, .param = where_};
  }
  std::optional<ApiError> take(const Json& block, const std::string& type) {
    const auto text_of = [&](const char* name) {
      const Json value = block.value(name, Json());
      return value.is_string() ? value.get<std::string>() : std::string();
    };
    if (type == "text") {
      if (!block.value("text", Json()).is_string()) return fault("has a block whose text is none");
      if (!text_.empty()) text_ += '\n';
      text_ += text_of("text");
    } else if (type == "thinking" && role_ == "assistant") {
      thoughts_ += text_of("thinking");
    } else if (type == "tool_use" && role_ == "assistant") {
      calls_.push_back({{"id", text_of("id")},
                        {"type", "function"},
                        {"function",
                         {{"name", text_of("name")},
                          {"arguments", to_text(block.value("input", Json::object()))}}}});
    } else if (type == "tool_result" && role_ == "user") {
      auto content = block.contains("content") ? read_content(block["content"], where_)
                                               : Outcome<std::string>(std::string());
      if (!content.ok()) return content.error();
      results_.push_back(
          {{"role", "tool"}, {"tool_call_id", text_of("tool_use_id")}, {"content", *content}});
    } else {
      return fault("has a block of type \"" + type + "\" – only text is taken here");
    }
    return std::nullopt;
  }

  const std::string role_, where_;
  std::string text_, thoughts_;
  Json calls_ = Json::array(), results_ = Json::array();
};

std::optional<ApiError> read_turn(const Json& message, size_t index, Json& out) {
  const std::string where = "messages[" + std::to_string(index) + "]";
  if (!message.is_object()) {
    return ApiError{.message = "\"" + where + "\" must be an object", .param = where};
  }
  Fields fields(message, where);
  const std::string role = fields.text("role");
  if (role != "user" && role != "assistant") {
    fields.refuse("role", "must be \"user\" or \"assistant\"");
  }
  Blocks blocks(role, fields.path("content"));
  if (const Json* content = fields.take("content")) {
    if (auto problem = blocks.read(*content)) fields.refuse(*std::move(problem));
  } else {
    fields.refuse("content", "is missing – expected a text");
  }
  fields.refuse_unknown();
  if (fields.fault()) return fields.fault();
  blocks.put(out);
  return std::nullopt;
}

void read_conversation(Fields& fields, GenerationCall& call) {
  Json conversation = Json::array();
  if (const Json* system = fields.take("system")) {
    auto text = read_content(*system, "system");
    if (!text.ok()) return fields.refuse(text.error());
    conversation.push_back({{"role", "system"}, {"content", *text}});
  }
  const Json* messages = fields.take("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields.refuse("messages", "must be a list of at least one message");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    if (auto problem = read_turn((*messages)[i], i, conversation)) {
      return fields.refuse(*std::move(problem));
    }
  }
  // An answer that is already begun goes on.
  ChatOptions& options = call.chat_options;
  options.continue_final_message = conversation.back()["role"] == Json("assistant");
  options.add_generation_prompt = !options.continue_final_message;
  call.chat.messages = to_text(conversation);
}

// As OpenAI has them, which is what templates know.
void read_tools(Fields& fields, GenerationCall& call) {
  const Json* choice = fields.take("tool_choice");
  const Json* tools = fields.take("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.refuse("tools", "must be a list of tools");
  if (tools->empty()) return;
  Json all = Json::array();
  for (const Json& tool : *tools) {
    if (!tool.is_object() || !tool.value("name", Json()).is_string()) {
      return fields.refuse("tools", "must be a list of objects with a name");
    }
    all.push_back({{"type", "function"},
                   {"function",
                    {{"name", tool["name"]},
                     {"description", tool.value("description", Json(""))},
                     {"parameters", tool.value("input_schema", Json::object())}}}});
  }
  call.chat.tools = to_text(all);
  call.tools = ToolUse();
  if (choice == nullptr) return;
  const Json type = choice->is_object() ? choice->value("type", Json()) : Json();
  if (type == Json("any")) {
    call.tools->choice = "required";
  } else if (type == Json("tool") && choice->value("name", Json()).is_string()) {
    call.tools->choice = "function";
    call.tools->function = (*choice)["name"].get<std::string>();
  } else if (type == Json("none")) {
    call.tools->choice = "none";
  } else if (type != Json("auto")) {
    fields.refuse("tool_choice", "must be an object of type auto, any, tool or none");
  }
}

}  // namespace

Outcome<GenerationCall> read_messages_call(const Json& body, bool counts_only) {
  GenerationCall call;
  call.dialect = Dialect::messages;
  Fields fields(body);
  call.model = fields.text("model");
  read_conversation(fields, call);
  read_tools(fields, call);
  if (!counts_only && fields.take("max_tokens") == nullptr) {
    fields.refuse("max_tokens", "is missing – how long may the answer be?");
  }
  for (const char* name : {"max_tokens", "temperature", "top_p", "top_k", "seed"}) {
    read_as(fields, name, name, call.answer);
  }
  read_as(fields, "stop_sequences", "stop", call.answer);
  call.stream = fields.flag("stream", false);
  if (const Json* thinking = fields.take("thinking")) {
    if (!thinking->is_object() || thinking->value("type", Json()) != Json("disabled")) {
      fields.refuse("thinking", "can only be {\"type\": \"disabled\"}");
    }
  }
  for (const char* name : {"metadata", "service_tier"}) fields.ignore(name);
  fields.refuse_unknown();
  if (fields.fault()) return *fields.fault();
  call.ignored = fields.ignored();
  return call;
}

}  // namespace tenon::api
