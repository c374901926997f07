#include "core/chat/chat_template.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/chat/conversation.h"
#include "core/chat/template_files.h"
#include "core/jinja/json_values.h"
#include "core/jinja/run/interpreter.h"
#include "core/jinja/syntax/parser.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon {
namespace {

using nlohmann::ordered_json;

// Of what a conversation holds, all together.
constexpr size_t kMostInputBytes = size_t{64} << 20;

struct Part {
  const char* name;
  const std::string* text;
};

Result<ordered_json> read_input(const ChatInput& input) {
  ordered_json conversation = ordered_json::object();
  size_t bytes = 0;
  for (const Part part :
       {Part{"messages", &input.messages}, Part{"tools", &input.tools},
        Part{"documents", &input.documents}, Part{"variables", &input.variables}}) {
    bytes += part.text->size();
    if (bytes > kMostInputBytes) {
      return invalid_argument("the conversation is larger than " +
                              approximate_bytes(kMostInputBytes));
    }
    if (part.text->empty()) continue;
    Result<ordered_json> value = chat::parse_template_json(*part.text);
    if (!value.ok()) return with_context(part.name, value.status());
    conversation[part.name] = *std::move(value);
  }
  return conversation;
}

// Null where it is absent or null.
const ordered_json* find_part(const ordered_json& conversation, const char* name) {
  const auto found = conversation.find(name);
  return found == conversation.end() || found->is_null() ? nullptr : &*found;
}

Status define_input(const ordered_json& conversation, const ordered_json& messages,
                    chat::Interpreter& run) {
  chat::Budget& budget = run.budget();
  TENON_ASSIGN_OR_RETURN(chat::Value list_of_messages, chat::make_messages(budget, messages));
  run.define("messages", std::move(list_of_messages));
  for (const char* const name : {"tools", "documents"}) {
    chat::Value value;
    if (const ordered_json* list = find_part(conversation, name)) {
      TENON_RETURN_IF_ERROR(chat::check_objects(*list, name));
      TENON_ASSIGN_OR_RETURN(value, chat::make_value(budget, *list));
    }
    run.define(name, std::move(value));
  }
  const ordered_json* variables = find_part(conversation, "variables");
  if (variables == nullptr) return Status();
  if (!variables->is_object()) return invalid_argument("the variables are no JSON object");
  for (const auto& [name, variable] : variables->items()) {
    if (name == "messages" || name == "tools" || name == "documents" ||
        name == "add_generation_prompt") {
      return invalid_argument("the variable " + in_quotes(name) +
                              " is given in another way, not among the variables");
    }
    TENON_ASSIGN_OR_RETURN(chat::Value value, chat::make_value(budget, variable));
    run.define(name, std::move(value));
  }
  return Status();
}

RenderedChat finish(const chat::MarkedText& text, const std::vector<chat::OutputSpan>& spans) {
  RenderedChat rendered;
  rendered.text = text.bytes();
  size_t begin = 0;
  for (const auto& run : text.runs()) {
    if (run.is_trusted) rendered.trusted.push_back({begin, run.end});
    begin = run.end;
  }
  // Text that was cut off after a continued message cannot be marked.
  for (const chat::OutputSpan span : spans) {
    rendered.generations.push_back(
        {std::min(span.begin, text.size()), std::min(span.end, text.size())});
  }
  return rendered;
}

}  // namespace

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat) {
  return tokenizer.encode_trusted(chat.text, chat.trusted);
}

struct ChatTemplate::Variant {
  std::string source;
  std::string where;
  chat::Template parsed;
};

ChatTemplate::ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Status ChatTemplate::add(std::string name, std::string source, std::string_view where) {
  Result<chat::Template> parsed = chat::parse_template(source);
  // "chat_template.jinja:12:5: …"
  if (!parsed.ok()) {
    return Status::error(parsed.status().code(), one_line(where, kMostPathBytes) + ":" +
                                                     std::string(parsed.status().message()));
  }
  variants_[std::move(name)] =
      std::make_unique<Variant>(Variant{std::move(source), std::string(where), *std::move(parsed)});
  return Status();
}

Result<ChatTemplate> ChatTemplate::load(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(chat::TemplateFiles files, chat::read_template_files(path));
  ChatTemplate made;
  made.where_ = path;
  made.special_tokens_ = std::move(files.special_tokens);
  for (auto& [name, source] : files.templates) {
    TENON_RETURN_IF_ERROR(made.add(name, std::move(source.text), source.where));
  }
  return made;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view name,
                                         std::map<std::string, std::string> special_tokens) {
  ChatTemplate made;
  made.where_ = name;
  made.special_tokens_ = std::move(special_tokens);
  TENON_RETURN_IF_ERROR(made.add("default", std::string(source), name));
  return made;
}

const ChatTemplate::Variant* ChatTemplate::choose(const ChatOptions& options,
                                                  bool has_tools) const {
  const auto find = [&](std::string_view name) -> const Variant* {
    const auto found = variants_.find(name);
    return found == variants_.end() ? nullptr : found->second.get();
  };
  if (!options.name.empty()) return find(options.name);
  const Variant* for_tools = has_tools ? find("tool_use") : nullptr;
  return for_tools != nullptr ? for_tools : find("default");
}

Result<RenderedChat> ChatTemplate::render(const ChatInput& input,
                                          const ChatOptions& options) const {
  TENON_ASSIGN_OR_RETURN(ordered_json conversation, read_input(input));
  if (!conversation.contains("messages")) {
    return invalid_argument("the conversation has no messages – expected a list of them");
  }
  return render_parsed(conversation, options);
}

Result<RenderedChat> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                          const ChatOptions& options) const {
  ordered_json conversation = {{"messages", ordered_json::array()}};
  for (const ChatMessage& message : messages) {
    conversation["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  return render_parsed(conversation, options);
}

Result<RenderedChat> ChatTemplate::render_parsed(ordered_json& conversation,
                                                 const ChatOptions& options) const {
  if (options.continue_final_message && options.add_generation_prompt) {
    return invalid_argument("continue_final_message and add_generation_prompt exclude each other");
  }
  const Variant* variant = choose(options, find_part(conversation, "tools") != nullptr);
  if (variant == nullptr) {
    return not_found("there is no chat template " +
                     in_quotes(options.name.empty() ? "default" : options.name) +
                     " – there are: " + join(names()));
  }
  TENON_RETURN_IF_ERROR(chat::prepare_messages(conversation["messages"]));
  const ordered_json as_given = conversation["messages"];
  TENON_ASSIGN_OR_RETURN(const bool were_texts,
                         chat::read_tool_arguments(conversation["messages"]));
  Result<RenderedChat> rendered = render_variant(*variant, conversation, options);
  if (rendered.ok() || !were_texts) return rendered;
  // Some templates add the arguments to a text, which takes them as they were given.
  conversation["messages"] = as_given;
  Result<RenderedChat> with_texts = render_variant(*variant, conversation, options);
  return with_texts.ok() ? std::move(with_texts) : std::move(rendered);
}

Result<RenderedChat> ChatTemplate::render_variant(const Variant& variant,
                                                  const ordered_json& conversation,
                                                  const ChatOptions& options) const {
  ordered_json messages = conversation["messages"];
  chat::Continuation continuation;
  if (options.continue_final_message) {
    TENON_ASSIGN_OR_RETURN(
        continuation, chat::mark_final_message(messages, options.continued_field, variant.source));
  }
  chat::Budget budget(options.limits);
  const std::time_t now =
      options.now.value_or(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
  chat::Interpreter run(variant.parsed, budget, now);
  for (const auto& [name, token] : special_tokens_) {
    run.define(name, chat::make_text(budget, token, /*is_trusted=*/true));
  }
  run.define("add_generation_prompt", options.add_generation_prompt);
  TENON_RETURN_IF_ERROR(define_input(conversation, messages, run));
  const Status status = run.run();
  if (!status.ok()) {
    return Status::error(status.code(), one_line(variant.where, kMostPathBytes) + ":" +
                                            std::string(status.message()));
  }
  chat::MarkedText text = run.take_output();
  if (options.continue_final_message) {
    TENON_RETURN_IF_ERROR(chat::cut_continuation(continuation, text));
  }
  return finish(text, run.take_generations());
}

std::vector<std::string> ChatTemplate::names() const {
  std::vector<std::string> names;
  for (const auto& entry : variants_) names.push_back(entry.first);
  return names;
}

std::vector<std::string> ChatTemplate::unknown_names() const {
  std::vector<std::string> all;
  for (const auto& entry : variants_) {
    for (const std::string& name : entry.second->parsed.unknown) {
      all.push_back(one_line(entry.second->where, kMostPathBytes) + ":" + name);
    }
  }
  return all;
}

void warn_of_unknown_names(const ChatTemplate& chat) {
  for (const std::string& name : chat.unknown_names()) {
    log(LogLevel::warning, "chat template",
        name + " – conversations that reach it are refused, others are not");
  }
}

std::string_view ChatTemplate::source(std::string_view name) const {
  const auto found = variants_.find(name);
  return found == variants_.end() ? std::string_view() : found->second->source;
}

}  // namespace tenon
