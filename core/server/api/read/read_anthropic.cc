// /v1/messages
#include <algorithm>
#include <iterator>

#include "core/base/quote.h"
#include "core/server/api/dialects.h"
#include "core/server/api/read/chat_messages.h"
#include "core/server/api/read/sampling_fields.h"
#include "core/server/api/read/template_fields.h"
#include "core/server/api/read/tools.h"

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
    for (size_t i = 0; i < content.size(); ++i) {
      const Json& block = content[i];
      block_ = where_ + "[" + std::to_string(i) + "]";
      if (!block.is_object() || !block.value("type", Json()).is_string()) {
        return fault("is a block without a type");
      }
      if (auto problem = take(block, block["type"].get<std::string>())) return problem;
      note_others(block);
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
  const Notes& ignored() const { return ignored_; }

 private:
  void note_others(const Json& block) {
    constexpr std::string_view kRead[] = {"type", "text",  "thinking",    "signature", "id",
                                          "name", "input", "tool_use_id", "content",   "data"};
    for (const auto& [name, value] : block.items()) {
      if (std::ranges::find(kRead, name) == std::end(kRead) && !value.is_null()) {
        note_unknown(ignored_, name);
      }
    }
  }
  ApiError fault(const std::string& sentence) const {
    return {.message = "\"" + block_ + "\" " + sentence, .param = block_};
  }
  std::optional<ApiError> take_call(std::string id, std::string name, const Json& input) {
    if (!input.is_null() && !input.is_object()) return fault("is a call whose input is no object");
    Json function = {{"name", std::move(name)},
                     {"arguments", input.is_null() ? "{}" : to_text(input)}};
    calls_.push_back(
        {{"id", std::move(id)}, {"type", "function"}, {"function", std::move(function)}});
    return std::nullopt;
  }
  std::optional<ApiError> take(const Json& block, const std::string& type) {
    const auto text_of = [&](const char* name) {
      const Json value = block.value(name, Json());
      return value.is_string() ? value.get<std::string>() : std::string();
    };
    // What has to be there of calls and results, so that one is known by the other.
    const auto lacks = [&](const char* name) { return text_of(name).empty(); };
    if (type == "text") {
      if (!block.value("text", Json()).is_string()) return fault("is a block whose text is none");
      if (!text_.empty()) text_ += '\n';
      text_ += text_of("text");
    } else if (type == "thinking" && role_ == "assistant") {
      thoughts_ += text_of("thinking");
    } else if (type == "redacted_thinking" && role_ == "assistant") {
      ignored_.insert(type);  // nobody here can read it
    } else if (type == "tool_use" && role_ == "assistant") {
      if (lacks("id") || lacks("name")) return fault("is a call without an id, or without a name");
      return take_call(text_of("id"), text_of("name"), block.value("input", Json()));
    } else if (type == "tool_result" && role_ == "user") {
      if (lacks("tool_use_id")) return fault("is a result without a tool_use_id");
      const Json said = block.value("content", Json());
      auto content = said.empty() ? Outcome<std::string>(std::string())
                                  : read_content(said, block_ + ".content", ignored_);
      if (!content.ok()) return content.error();
      results_.push_back(
          {{"role", "tool"}, {"tool_call_id", text_of("tool_use_id")}, {"content", *content}});
    } else {
      return fault("is a block of type " + shown_text(type) + " – only text is taken here");
    }
    return std::nullopt;
  }

  const std::string role_, where_;
  std::string block_ = where_;  // that is being read
  std::string text_, thoughts_;
  Json calls_ = Json::array(), results_ = Json::array();
  Notes ignored_;  // members of blocks
};

void read_turn(Fields& call, const Json& message, size_t index, Json& out) {
  const std::string where = "messages[" + std::to_string(index) + "]";
  if (!message.is_object()) return call.refuse(where, "must be an object");
  Fields fields(message, where);
  const std::string role = fields.text("role");
  const bool is_later_system = role == "system" && index > 0;
  if (role != "user" && role != "assistant" && !is_later_system) {
    fields.refuse("role",
                  "must be \"user\" or \"assistant\", or \"system\" after the first message");
  }
  Blocks blocks(role, fields.path("content"));
  if (const Json* content = fields.take("content")) {
    if (auto problem = blocks.read(*content)) fields.refuse(*std::move(problem));
  } else {
    fields.refuse("content", "is missing – expected a text");
  }
  fields.settle();
  note_ignored(fields, blocks.ignored());
  call.absorb(fields);
  if (fields.ok()) blocks.put(out);
}

void read_conversation(Fields& fields, GenerationCall& call) {
  Json conversation = Json::array();
  if (const Json* system = fields.take("system")) {
    Notes notes;
    auto text = read_content(*system, "system", notes);
    note_ignored(fields, notes);
    if (!text.ok()) return fields.refuse(text.error());
    conversation.push_back({{"role", "system"}, {"content", *text}});
  }
  const Json* messages = fields.take("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields.refuse("messages", "must be a list of at least one message");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    read_turn(fields, (*messages)[i], i, conversation);
    if (!fields.ok()) return;
  }
  // An answer that is already begun goes on.
  ChatOptions& options = call.chat_options;
  options.continue_final_message = conversation.back()["role"] == Json("assistant");
  options.add_generation_prompt = !options.continue_final_message;
  call.chat.messages = to_text(conversation);
}

void read_tool_choice(Fields& fields, ToolUse& use) {
  const Json* choice = fields.take("tool_choice");
  if (choice == nullptr) return;
  const std::string expected = "must be an object of type auto, any, tool or none";
  if (!choice->is_object()) return fields.refuse("tool_choice", expected);
  Fields inner(*choice, "tool_choice");
  const std::string type = inner.text("type");
  const std::string name = inner.text("name");
  use.parallel = !inner.flag("disable_parallel_tool_use", false);
  if (type == "any") {
    use.choice = "required";
  } else if (type == "tool" && !name.empty()) {
    use.choice = "function";
    use.function = name;
  } else if (type == "auto" || type == "none") {
    use.choice = type;
  } else {
    fields.refuse("tool_choice", expected);
  }
  inner.settle();
  fields.absorb(inner);
}

// As OpenAI has it, which is what templates know.
Json chat_tool(Fields& fields, const Json& tool, size_t index) {
  const std::string where = "tools[" + std::to_string(index) + "]";
  if (!tool.is_object()) {
    fields.refuse(where, "must be an object with a name and an input_schema");
    return {};
  }
  Fields inner(tool, where);
  if (const std::string type = inner.text("type", "custom"); type != "custom") {
    inner.refuse("type", "is " + shown_text(type) + " – only tools of the client's own are taken");
  }
  Json function = {{"name", inner.text("name")}, {"description", inner.text("description")}};
  const Json* schema = inner.take("input_schema");
  function["parameters"] = schema == nullptr ? Json::object() : *schema;
  if (inner.flag("strict", false)) function["strict"] = true;
  inner.settle(Place::messages_tool);
  fields.absorb(inner);
  return {{"type", "function"}, {"function", std::move(function)}};
}

// Types of tools that Anthropic's own server runs.
constexpr std::string_view kRunByAnthropic[] = {"web_search_", "web_fetch_", "code_execution_",
                                                "tool_search_tool_", "mcp_toolset"};

void read_tools(Fields& fields, GenerationCall& call) {
  ToolUse use;
  read_tool_choice(fields, use);
  const Json* tools = fields.take("tools");
  if (tools != nullptr && !tools->is_array()) {
    return fields.refuse("tools", "must be a list of tools");
  }
  if (tools == nullptr || tools->empty()) {
    if (use.is_forced()) fields.refuse("tool_choice", "needs \"tools\" to choose from");
    return;
  }
  Json all = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    if (tools->size() > 1 && leave_out_tool(fields, (*tools)[i], i, kRunByAnthropic)) continue;
    all.push_back(chat_tool(fields, (*tools)[i], i));
  }
  if (fields.ok()) give_tools(fields, all, std::move(use), call);
  force_calls(fields, call);
}

// The form of the answer, and how much a model that knows of efforts makes of it.
void read_output_config(Fields& fields, Json& variables, GenerationCall& call) {
  const Json* config = fields.take("output_config");
  if (config == nullptr) return;
  if (!config->is_object()) return fields.refuse("output_config", "must be an object");
  Fields outer(*config, "output_config");
  if (const std::string effort = outer.text("effort"); !effort.empty()) {
    variables["reasoning_effort"] = effort;
  }
  const Json* format = outer.take("format");
  if (format != nullptr && !format->is_object()) outer.refuse("format", "must be an object");
  if (format != nullptr && outer.ok()) {
    Fields inner(*format, outer.path("format"));
    if (inner.text("type") != "json_schema") inner.refuse("type", "must be \"json_schema\"");
    const Json* schema = inner.take("schema");
    if (schema == nullptr || !schema->is_object()) {
      inner.refuse("schema", "must be an object: the schema of the answer");
    } else {
      call.form = AnswerForm{"json_schema", *schema, true, "output_config.format"};
    }
    inner.settle();
    outer.absorb(inner);
  }
  outer.settle(Place::output_config);
  fields.absorb(outer);
}

}  // namespace

Outcome<GenerationCall> read_messages_call(const Json& body, bool counts_only) {
  GenerationCall call;
  call.dialect = Dialect::messages;
  Fields fields(body);
  call.model = fields.text("model");
  read_conversation(fields, call);
  Json variables = Json::object();
  read_template_kwargs(fields, variables);
  read_output_config(fields, variables, call);
  read_thinking(fields, variables);
  give_variables(variables, call.chat);
  read_vllm_forms(fields, call);
  read_tools(fields, call);
  if (!counts_only && fields.take("max_tokens") == nullptr) {
    fields.refuse("max_tokens", "is missing – how long may the answer be?");
  }
  read_as(fields, "max_tokens", "max_tokens", call);
  read_sampling(fields, call);
  read_as(fields, "stop_sequences", "stop", call);
  call.stream = fields.flag("stream", false);
  read_extras(fields, call);
  // Anthropic's own package sends its whole conversation where it reads this code.
  if (fields.take("thread") != nullptr) {
    fields.refuse("thread", "is not offered: nothing is stored here – send all messages",
                  "thread_unsupported_request");
  }
  return finish_call(fields, std::move(call));
}

}  // namespace tenon::api
