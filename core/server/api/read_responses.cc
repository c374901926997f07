// /v1/responses, as far as nothing has to be kept between two of them.
#include "core/server/api/chat_messages.h"
#include "core/server/api/dialects.h"
#include "core/server/api/sampling_fields.h"

namespace tenon::api {
namespace {

// An item of "input", as a message.
std::optional<ApiError> read_item(const Json& item, size_t index, Json& out) {
  const std::string where = "input[" + std::to_string(index) + "]";
  if (!item.is_object()) {
    return ApiError{.message = "\"" + where + "\" must be an object", .param = where};
  }
  Fields fields(item, where);
  if (const std::string type = fields.text("type", "message"); type != "message") {
    fields.refuse("type", "is \"" + type + "\" – only messages are taken here");
  }
  Json message = Json::object();
  message["role"] = fields.text("role");
  if (const Json* content = fields.take("content")) {
    auto text = read_content(*content, fields.path("content"));
    if (text.ok()) {
      message["content"] = *std::move(text);
    } else {
      fields.refuse(text.error());
    }
  }
  for (const char* name : {"id", "status"}) (void)fields.take(name);
  fields.refuse_unknown();
  if (fields.fault()) return fields.fault();
  out.push_back(std::move(message));
  return std::nullopt;
}

void read_input(Fields& fields, GenerationCall& call) {
  Json conversation = Json::array();
  if (const std::string instructions = fields.text("instructions"); !instructions.empty()) {
    conversation.push_back({{"role", "system"}, {"content", instructions}});
  }
  const Json* input = fields.take("input");
  if (input == nullptr) return fields.refuse("input", "is missing – expected a text or messages");
  if (input->is_string()) {
    conversation.push_back({{"role", "user"}, {"content", *input}});
  } else if (!input->is_array() || input->empty()) {
    return fields.refuse("input", "must be a text or a list of messages");
  } else {
    for (size_t i = 0; i < input->size(); ++i) {
      if (auto problem = read_item((*input)[i], i, conversation)) {
        return fields.refuse(*std::move(problem));
      }
    }
  }
  // Roles and contents, by the same rules as of chats.
  auto checked = read_messages(conversation);
  if (!checked.ok()) return fields.refuse(checked.error());
  call.chat.messages = to_text(*checked);
  call.chat_options.add_generation_prompt = true;
}

void read_text_format(Fields& fields, GenerationCall& call) {
  const Json* text = fields.take("text");
  if (text == nullptr) return;
  const Json format = text->is_object() ? text->value("format", Json::object()) : Json();
  const Json type = format.is_object() ? format.value("type", Json("text")) : Json();
  if (type == Json("json_schema") || type == Json("json_object")) {
    call.form =
        AnswerForm{type.get<std::string>(), format.value("schema", Json::object()), true, "text"};
  } else if (type != Json("text")) {
    fields.refuse("text", "must be {\"format\": {\"type\": \"text\"}}");
  }
}

// What needs answers that were kept.
void refuse_state(Fields& fields) {
  if (fields.flag("store", false)) {
    fields.refuse("store", "can only be false: nothing is stored here");
  }
  if (fields.flag("background", false)) fields.refuse("background", "can only be false");
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.take(name) != nullptr) {
      fields.refuse(name, "is not offered: nothing is stored here – send the whole input");
    }
  }
  if (const Json* tools = fields.take("tools"); tools != nullptr && !tools->empty()) {
    fields.refuse("tools", "are not offered here – /v1/chat/completions is the place for them",
                  "not_built");
  }
  if (const Json* included = fields.take("include"); included != nullptr && !included->empty()) {
    fields.refuse("include", "must be empty");
  }
}

}  // namespace

Outcome<GenerationCall> read_responses_call(const Json& body) {
  GenerationCall call;
  call.dialect = Dialect::responses;
  Fields fields(body);
  call.model = fields.text("model");
  read_input(fields, call);
  read_as(fields, "max_output_tokens", "max_tokens", call.answer);
  for (const char* name : {"temperature", "top_p", "top_k", "seed"}) {
    read_as(fields, name, name, call.answer);
  }
  call.stream = fields.flag("stream", false);
  read_text_format(fields, call);
  refuse_state(fields);
  if (const Json* metadata = fields.take("metadata")) call.metadata = *metadata;
  if (const Json* reasoning = fields.take("reasoning")) {
    const Json effort = reasoning->is_object() ? reasoning->value("effort", Json()) : Json();
    if (effort.is_string()) call.chat.variables = to_text({{"reasoning_effort", effort}});
  }
  for (const char* name : {"user", "service_tier", "truncation", "tool_choice",
                           "parallel_tool_calls", "safety_identifier", "prompt_cache_key",
                           "stream_options", "top_logprobs", "max_tool_calls"}) {
    fields.ignore(name);
  }
  fields.refuse_unknown();
  if (fields.fault()) return *fields.fault();
  call.ignored = fields.ignored();
  return call;
}

}  // namespace tenon::api
