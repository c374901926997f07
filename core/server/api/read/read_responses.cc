// /v1/responses, as far as nothing has to be kept between two of them.
#include <algorithm>

#include "core/base/quote.h"
#include "core/server/api/dialects.h"
#include "core/server/api/read/chat_messages.h"
#include "core/server/api/read/sampling_fields.h"
#include "core/server/api/read/template_fields.h"
#include "core/server/api/read/tools.h"

namespace tenon::api {
namespace {

// Items of "input" become messages. What an assistant said, thought and called between two turns of
// others is one message of a template's.
class Items {
 public:
  void read(Fields& call, const Json& item, size_t index) {
    const std::string where = "input[" + std::to_string(index) + "]";
    if (!item.is_object()) return call.refuse(where, "must be an object");
    Fields fields(item, where);
    const std::string type = fields.text("type", "message");
    if (type == "message") {
      read_message(fields);
    } else if (type == "function_call") {
      read_call(fields);
    } else if (type == "function_call_output") {
      read_output(fields);
    } else if (type == "reasoning") {
      read_reasoning(fields);
    } else {
      fields.refuse("type", "is " + shown_text(type) +
                                " – taken are message, function_call, function_call_output and "
                                "reasoning");
    }
    fields.settle(Place::item);
    call.absorb(fields);
  }
  Json& messages() { return messages_; }

 private:
  static std::string content_of(Fields& fields, const char* name) {
    const Json* content = fields.take(name);
    if (content == nullptr) return "";
    Notes notes;
    auto text = read_content(*content, fields.path(name), notes);
    note_ignored(fields, notes);
    if (!text.ok()) fields.refuse(text.error());
    return text.ok() ? *std::move(text) : "";
  }
  void read_message(Fields& fields) {
    Json message = {{"role", read_role(fields)}};
    if (message["role"] == Json("assistant") && is_open() &&
        !messages_.back().contains("content")) {
      messages_.back()["content"] = content_of(fields, "content");
      return;
    }
    if (!fields.object().contains("content")) {
      fields.refuse("content", "is missing – expected a text");
    }
    message["content"] = content_of(fields, "content");
    messages_.push_back(std::move(message));
  }
  void read_call(Fields& fields) {
    Json function = {{"name", fields.text("name")}, {"arguments", fields.text("arguments")}};
    if (function["name"] == Json("")) fields.refuse("name", "is missing – expected a tool's name");
    answer()["tool_calls"].push_back(
        {{"id", fields.text("call_id")}, {"type", "function"}, {"function", std::move(function)}});
  }
  void read_output(Fields& fields) {
    if (fields.text("call_id").empty()) {
      fields.refuse("call_id", "is missing – expected that of a function_call");
    }
    messages_.push_back({{"role", "tool"},
                         {"tool_call_id", fields.text("call_id")},
                         {"content", content_of(fields, "output")}});
  }
  // Its text stands in "content"; a summary is what others show of one that they keep.
  void read_reasoning(Fields& fields) {
    std::string text;
    for (const char* name : {"content", "summary"}) {
      const Json* parts = fields.take(name);
      if (parts == nullptr || !text.empty()) continue;
      if (!parts->is_array()) return fields.refuse(name, "must be a list of parts");
      for (size_t i = 0; i < parts->size(); ++i) {
        const Json& part = (*parts)[i];
        const Json said = part.is_object() ? part.value("text", Json()) : Json();
        if (!said.is_string()) {
          return fields.refuse(std::string(name) + "[" + std::to_string(i) + "]",
                               "must be a part with a text");
        }
        text += said.get<std::string>();
      }
    }
    if (fields.take("encrypted_content") != nullptr) {
      fields.refuse("encrypted_content", "cannot be read here – send \"content\"");
    }
    if (!text.empty()) answer()["reasoning_content"] = text;
  }
  bool is_open() const {
    return !messages_.empty() && messages_.back()["role"] == Json("assistant");
  }
  Json& answer() {
    if (!is_open()) messages_.push_back({{"role", "assistant"}});
    return messages_.back();
  }

  Json messages_ = Json::array();
};

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
    Items items;
    for (size_t i = 0; i < input->size(); ++i) items.read(fields, (*input)[i], i);
    for (Json& message : items.messages()) conversation.push_back(std::move(message));
  }
  if (!fields.ok()) return;
  // One that thought, and said nothing.
  for (Json& message : conversation) {
    const bool has_more = message.contains("content") || message.contains("tool_calls");
    if (message.contains("reasoning_content") && !has_more) message["content"] = "";
  }
  // Roles and contents, by the same rules as of chats.
  Notes notes;
  auto checked = read_messages(conversation, notes);
  if (!checked.ok()) return fields.refuse(checked.error());
  call.chat.messages = to_text(*checked);
  call.chat_options.add_generation_prompt = true;
}

void read_format(Fields& text, const Json& format, GenerationCall& call) {
  if (!format.is_object()) return text.refuse("format", "must be an object");
  Fields inner(format, text.path("format"));
  const std::string type = inner.text("type", "text");
  const Json* schema = inner.take("schema");
  if (type == "json_schema" && (schema == nullptr || !schema->is_object())) {
    inner.refuse("schema", "must be an object: the schema of the answer");
  } else if (type == "json_schema" || type == "json_object") {
    call.form = AnswerForm{type, schema == nullptr ? Json::object() : *schema, true, "text.format"};
  } else if (type != "text") {
    inner.refuse("type", "must be \"text\", \"json_object\" or \"json_schema\"");
  }
  for (const char* name : {"name", "description", "strict"}) (void)inner.take(name);
  inner.settle();
  text.absorb(inner);
}

void read_text_format(Fields& fields, GenerationCall& call) {
  const Json* text = fields.take("text");
  if (text == nullptr) return;
  if (!text->is_object()) return fields.refuse("text", "must be an object with a format");
  Fields outer(*text, "text");
  if (const Json* format = outer.take("format")) read_format(outer, *format, call);
  outer.settle(Place::response_text);
  fields.absorb(outer);
}

// How many alternatives each token of the message comes with; "include" asks for the tokens alone.
void read_logprobs(Fields& fields, GenerationCall& call) {
  constexpr const char* kLogprobs = "message.output_text.logprobs";
  constexpr const char* kEncrypted = "reasoning.encrypted_content";  // it comes as it is
  if (const Json* included = fields.take("include")) {
    if (!included->is_array()) return fields.refuse("include", "must be a list");
    for (const Json& what : *included) {
      if (what == Json(kLogprobs)) {
        call.logprobs = true;
      } else if (what == Json(kEncrypted)) {
        fields.note_ignored("include");
      } else {
        return fields.refuse("include", "can only have " + shown_text(kLogprobs) + " and " +
                                            shown_text(kEncrypted) + " in it");
      }
    }
  }
  const auto top = fields.whole("top_logprobs", 0, parameter("logprobs").number.most);
  call.top_logprobs = static_cast<uint32_t>(top.value_or(0));
  call.logprobs = call.logprobs || call.top_logprobs > 0;
  if (call.logprobs) call.answer.logprobs = std::max(call.top_logprobs, 1u);
  call.renamed.emplace("logprobs", top ? "top_logprobs" : "include");
}

// What a template is told; summaries of reasoning are not made.
void read_template(Fields& fields, GenerationCall& call) {
  Json variables = Json::object();
  read_template_kwargs(fields, variables);
  read_reasoning(fields, variables);
  give_variables(variables, call.chat);
}

void read_tool_choice(Fields& fields, ToolUse& use) {
  const Json* choice = fields.take("tool_choice");
  if (choice == nullptr) return;
  if (*choice == Json("none") || *choice == Json("auto") || *choice == Json("required")) {
    use.choice = choice->get<std::string>();
    return;
  }
  const bool is_list =
      choice->is_object() && choice->value("type", Json()) == Json("allowed_tools");
  if (is_list && read_allowed_tools(*choice, use)) return;
  const bool is_function = choice->is_object() && choice->value("type", Json()) == Json("function");
  const Json name = is_function ? choice->value("name", Json()) : Json();
  if (!name.is_string()) {
    return fields.refuse("tool_choice",
                         "must be \"none\", \"auto\", \"required\", {\"type\": \"function\", "
                         "\"name\": …}, or {\"type\": \"allowed_tools\", \"mode\": …, "
                         "\"tools\": …}");
  }
  use.choice = "function";
  use.function = name.get<std::string>();
}

// Types of OpenAI's tools that are no functions.
constexpr std::string_view kOfOtherServers[] = {
    "web_search",   "file_search", "code_interpreter", "image_generation",
    "computer",     "mcp",         "local_shell",      "shell",
    "apply_patch",  "custom",      "namespace",        "tool_search",
    "programmatic_"};

// A tool of this dialect is flat; a chat's has the function in an object of its own.
void read_tools(Fields& fields, GenerationCall& call) {
  ToolUse use;
  read_tool_choice(fields, use);
  use.parallel = fields.flag("parallel_tool_calls", true);
  const Json* tools = fields.take("tools");
  if (tools != nullptr && !tools->is_array()) {
    return fields.refuse("tools", "must be a list of tools");
  }
  if (tools == nullptr || tools->empty()) {
    if (use.is_forced()) fields.refuse("tool_choice", "needs \"tools\" to choose from");
    return;
  }
  const bool has_function = std::ranges::any_of(*tools, [](const Json& tool) {
    return tool.is_object() && tool.value("type", Json()) == Json("function");
  });
  Json all = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    if (has_function && leave_out_tool(fields, tool, i, kOfOtherServers)) continue;
    const Json type = tool.is_object() ? tool.value("type", Json()) : Json();
    if (type != Json("function")) {
      const std::string found =
          type.is_string() ? "is of type " + shown_text(type.get<std::string>()) : "has no type";
      return fields.refuse("tools[" + std::to_string(i) + "]",
                           found + " – only {\"type\": \"function\", \"name\": …} is taken");
    }
    Json function = tool;
    function.erase("type");
    all.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  if (fields.ok()) give_tools(fields, all, std::move(use), call);
}

// What a response repeats of its request.
void keep_for_response(Fields& fields, GenerationCall& call) {
  for (const char* name : {"metadata", "instructions", "text", "tools", "tool_choice",
                           "parallel_tool_calls", "reasoning"}) {
    const Json* value = fields.take(name);
    if (value != nullptr) call.handed_back[name] = *value;
    if (value != nullptr && name == std::string_view("metadata") && !value->is_object()) {
      fields.refuse(name, "must be an object");
    }
  }
}

}  // namespace

Outcome<GenerationCall> read_responses_call(const Json& body) {
  GenerationCall call;
  call.dialect = Dialect::responses;
  Fields fields(body);
  call.model = fields.text("model");
  read_input(fields, call);
  read_as(fields, "max_output_tokens", "max_tokens", call);
  read_sampling(fields, call);
  call.stream = fields.flag("stream", false);
  read_text_format(fields, call);
  read_vllm_forms(fields, call);
  read_tools(fields, call);
  force_calls(fields, call);
  read_logprobs(fields, call);
  read_template(fields, call);
  read_extras(fields, call);
  keep_for_response(fields, call);
  return finish_call(fields, std::move(call));
}

}  // namespace tenon::api
