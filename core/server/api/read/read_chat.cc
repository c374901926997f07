// /v1/chat/completions
#include <algorithm>

#include "core/server/api/call.h"
#include "core/server/api/read/chat_messages.h"
#include "core/server/api/read/sampling_fields.h"
#include "core/server/api/read/template_fields.h"
#include "core/server/api/read/tools.h"

namespace tenon::api {
namespace {

void read_tool_choice(Fields& fields, ToolUse& use) {
  const Json* choice = fields.take("tool_choice");
  if (choice == nullptr) return;
  constexpr std::string_view kWords[] = {"none", "auto", "required"};
  if (choice->is_string()) {
    use.choice = choice->get<std::string>();
    if (std::find(std::begin(kWords), std::end(kWords), use.choice) != std::end(kWords)) return;
  } else if (choice->is_object() && choice->value("type", Json()) == Json("function")) {
    const Json function = choice->value("function", Json::object());
    if (function.is_object() && function.value("name", Json()).is_string()) {
      use.choice = "function";
      use.function = function["name"].get<std::string>();
      return;
    }
  } else if (choice->is_object() && choice->value("type", Json()) == Json("allowed_tools")) {
    if (read_allowed_tools(choice->value("allowed_tools", Json()), use)) return;
  }
  fields.refuse("tool_choice",
                "must be \"none\", \"auto\", \"required\", {\"type\": \"function\", "
                "\"function\": {\"name\": …}}, or {\"type\": \"allowed_tools\", "
                "\"allowed_tools\": {\"mode\": …, \"tools\": …}}");
}

void read_tools(Fields& fields, GenerationCall& call) {
  const Json* tools = fields.take("tools");
  ToolUse use;
  read_tool_choice(fields, use);
  use.parallel = fields.flag("parallel_tool_calls", true);
  const bool has_none = tools == nullptr || (tools->is_array() && tools->empty());
  if (has_none) {
    if (use.is_forced()) {
      fields.refuse("tool_choice", "needs \"tools\" to choose from");
    }
    return;
  }
  give_tools(fields, *tools, std::move(use), call);
}

void read_logprobs(Fields& fields, GenerationCall& call) {
  call.logprobs = fields.flag("logprobs", false);
  const auto top = fields.whole("top_logprobs", 0, parameter("logprobs").number.most);
  if (top.value_or(0) > 0 && !call.logprobs)
    fields.refuse("top_logprobs", "needs \"logprobs\": true");
  call.top_logprobs = static_cast<uint32_t>(top.value_or(0));
  if (call.logprobs) call.answer.logprobs = std::max(call.top_logprobs, 1u);
  if (top) call.renamed.emplace("logprobs", "top_logprobs");
}

// What a template sees next to the conversation.
void read_template(Fields& fields, GenerationCall& call) {
  Json variables = Json::object();
  read_template_kwargs(fields, variables);
  read_effort(fields, variables);
  read_reasoning(fields, variables);
  read_thinking(fields, variables);
  if (fields.take("enable_thinking") != nullptr) {
    variables["enable_thinking"] = fields.flag("enable_thinking", true);
  }
  give_variables(variables, call.chat);
  if (const Json* documents = fields.take("documents")) {
    if (!documents->is_array()) fields.refuse("documents", "must be a list");
    call.chat.documents = to_text(*documents);
  }
  ChatOptions& options = call.chat_options;
  options.continue_final_message = fields.flag("continue_final_message", false);
  options.add_generation_prompt =
      fields.flag("add_generation_prompt", !options.continue_final_message);
  if (options.continue_final_message && options.add_generation_prompt) {
    fields.refuse("continue_final_message", "and \"add_generation_prompt\" exclude each other");
  }
}

}  // namespace

Outcome<GenerationCall> read_chat(const Json& body) {
  GenerationCall call;
  call.dialect = Dialect::chat;
  Fields fields(body);
  call.model = fields.text("model");
  if (const Json* messages = fields.take("messages")) {
    Notes notes;
    auto checked = read_messages(*messages, notes);
    note_ignored(fields, notes);
    if (checked.ok()) {
      call.chat.messages = to_text(*checked);
    } else {
      fields.refuse(checked.error());
    }
  } else {
    fields.refuse("messages", "is missing – expected a list of messages");
  }
  read_as(fields, "max_tokens", "max_tokens", call);
  const auto most = call.answer.max_tokens;
  read_as(fields, "max_completion_tokens", "max_tokens", call);
  if (most && call.answer.max_tokens != most) {
    fields.refuse("max_completion_tokens",
                  "is not what \"max_tokens\" says – leave one of them out");
  }
  read_sampling(fields, call);
  read_logprobs(fields, call);
  read_tools(fields, call);
  read_template(fields, call);
  call.add_special = false;  // templates write such tokens themselves
  read_streaming(fields, call);
  read_form(fields, call);
  force_calls(fields, call);
  read_extras(fields, call);
  read_token_ids(fields, call);
  return finish_call(fields, std::move(call));
}

}  // namespace tenon::api
