#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/files/given_text.h"
#include "core/chat/chat_template.h"
#include "core/chat/generation_mask.h"
#include "core/chat/template_files.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/chat/talk.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

struct RenderFlags {
  std::string model;
  std::string file;  // a template by itself
  std::string messages;
  std::string tools;
  std::string documents;
  std::string variables;
  bool tokens = false;
  bool json = false;
  bool mask = false;
  ChatOptions options;
};

Result<std::string> file_text(const std::string& path) {
  if (path.empty()) return std::string();
  return read_given_text(path);
}

Result<ChatTemplate> open_template(const RenderFlags& flags) {
  if (flags.file.empty()) return ChatTemplate::load(flags.model);
  TENON_ASSIGN_OR_RETURN(const std::string source, read_given_text(flags.file));
  std::map<std::string, std::string> special_tokens;
  if (!flags.model.empty()) {
    TENON_ASSIGN_OR_RETURN(special_tokens, chat::read_special_tokens(flags.model));
  }
  return ChatTemplate::parse(source, flags.file, std::move(special_tokens));
}

nlohmann::json spans_json(const std::vector<TextSpan>& spans) {
  auto list = nlohmann::json::array();
  for (const TextSpan span : spans) list.push_back({span.begin, span.end});
  return list;
}

template <typename Number>
void put_line(const std::vector<Number>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) putf("%s%d", i == 0 ? "" : " ", int{numbers[i]});
  put("\n");
}

Status print(const RenderFlags& flags, const RenderedChat& chat) {
  std::optional<std::vector<TokenId>> ids;
  std::optional<std::vector<uint8_t>> mask;
  if (flags.tokens || flags.mask) {
    TENON_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::load(flags.model));
    TENON_ASSIGN_OR_RETURN(ids, encode_chat(*tokenizer, chat));
    if (flags.mask) {
      TENON_ASSIGN_OR_RETURN(mask, generation_mask(*tokenizer, chat, *ids));
    }
  }
  if (flags.json) {
    nlohmann::json report = {{"text", chat.text},
                             {"trusted", spans_json(chat.trusted)},
                             {"generations", spans_json(chat.generations)}};
    if (ids) report["ids"] = *ids;
    if (mask) report["mask"] = *mask;
    put(json_text(report));
  } else if (ids) {
    put_line(*ids);
    if (mask) put_line(*mask);
  } else {
    put(chat.text);
  }
  return Status();
}

bool marks_generations(const ChatTemplate& chat, const std::string& name) {
  const std::vector<std::string> names = name.empty() ? chat.names() : std::vector{name};
  return std::any_of(names.begin(), names.end(), [&chat](const std::string& one) {
    return chat.source(one).find("endgeneration") != std::string_view::npos;
  });
}

Status render(const RenderFlags& flags) {
  if (flags.model.empty() && (flags.file.empty() || flags.tokens || flags.mask)) {
    return invalid_argument("no model is given – expected --model with a folder or GGUF file");
  }
  TENON_ASSIGN_OR_RETURN(const ChatTemplate chat, open_template(flags));
  warn_of_unknown_names(chat);
  ChatInput input;
  TENON_ASSIGN_OR_RETURN(input.messages, file_text(flags.messages));
  TENON_ASSIGN_OR_RETURN(input.tools, file_text(flags.tools));
  TENON_ASSIGN_OR_RETURN(input.documents, file_text(flags.documents));
  input.variables = flags.variables;
  TENON_ASSIGN_OR_RETURN(const RenderedChat rendered, chat.render(input, flags.options));
  if (flags.mask && rendered.generations.empty() && !marks_generations(chat, flags.options.name)) {
    return invalid_argument(
        "the chat template marks no answers with {% generation %}, so there is no mask of them – "
        "leave --mask out, or give a template that does with --chat-template");
  }
  return print(flags, rendered);
}

void add_render_flags(Command command, RenderFlags& flags) {
  add_model(command, "--model", flags.model);
  add_text(command, "--chat-template", flags.file, "a template by itself, in place of the model's");
  add_text(command, "--template", flags.options.name, "which of the model's templates, by name");
  add_text(command, "--messages", flags.messages, "a JSON file: the list of messages").required();
  add_text(command, "--tools", flags.tools, "a JSON file: the list of tools");
  add_text(command, "--documents", flags.documents, "a JSON file: the list of documents");
  add_text(command, "--variables", flags.variables,
           "a JSON object of more names, such as {\"enable_thinking\": false}");
  Option prompt = command.add_flag("--add-generation-prompt", flags.options.add_generation_prompt,
                                   "end with what begins an answer");
  command
      .add_flag("--continue-final-message", flags.options.continue_final_message,
                "leave the last message open")
      .excludes(prompt);
  command.add_flag("--tokens", flags.tokens, "print token ids in place of the text");
  command.add_flag("--mask", flags.mask,
                   "token ids, and below them 1 for each that an answer of the model is made of");
  command.add_flag(
      "--json", flags.json,
      "a JSON object: the text, which bytes of it the template wrote, generation spans");
}

void add_talk(Command chat, Action& action) {
  auto flags = std::make_shared<ChatFlags>();
  Option pipeline =
      chat.add_option("pipeline", flags->pipeline.config,
                      "pipeline file (default: the bundled model, with a prefix cache)")
          .type_name("PIPELINE.toml");
  add_text(chat, "--system", flags->system, "what the model is told first");
  add_text(chat, "--load", flags->load, "a conversation to go on with: a JSON list of messages");
  add_text(chat, "--tools", flags->tools, "a JSON file: the list of tools that it may call");
  add_text(chat, "--documents", flags->documents, "a JSON file: the list of documents");
  add_text(chat, "--variables", flags->variables,
           "a JSON object of more names for the template, such as {\"enable_thinking\": false}");
  add_text(chat, "--chat-template", flags->template_file,
           "a chat template by itself, in place of the model's");
  add_text(chat, "--template", flags->template_name,
           "which of the model's chat templates, by name");
  add_text(chat, "--tool-format", flags->tool_format,
           "how calls of tools are written (default: as the template says)");
  add_text(chat, "--reasoning-format", flags->reasoning_format,
           "how reasoning is marked (default: as the template says)");
  chat.add_flag("--drop-oldest", flags->drop_oldest,
                "forget the oldest turns where the context is full");
  flags->generation.add_to(chat);
  // An answer is one, and is shown as a text.
  for (const char* name : {"--n", "--logprobs", "--prompt-logprobs"}) {
    chat.remove_option(name);
  }
  chat.get_option("--max-tokens")
      .description("tokens of an answer at most (default: a quarter of the context)");
  flags->pipeline.add_to(chat);
  pipeline.excludes("--config");
  chat.callback([flags, chat, &action] {
    if (chat.subcommand_chosen()) return;
    action = [flags] {
      const Result<int> status = talk(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace

void add_chat_command(Command app, Action& action) {
  Command chat = app.add_subcommand("chat", "Talk to a model; or see a conversation as it does");
  add_talk(chat, action);
  auto flags = std::make_shared<RenderFlags>();
  Command command = chat.add_subcommand("render", "Print a conversation as the model sees it");
  add_render_flags(command, *flags);
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = render(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
