#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/mapped_file.h"
#include "core/chat/chat_template.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/flags.h"
#include "tools/tenon/json_text.h"
#include "tools/tenon/standard_output.h"

namespace tenon {
namespace {

struct Flags {
  std::string model;
  std::string file;  // a template by itself
  std::string messages;
  std::string tools;
  std::string documents;
  std::string variables;
  bool tokens = false;
  bool json = false;
  ChatOptions options;
};

Result<std::string> file_text(const std::string& path) {
  if (path.empty()) return std::string();
  return read_text_file(path);
}

Result<ChatTemplate> open_template(const Flags& flags) {
  if (flags.file.empty()) return ChatTemplate::load(flags.model);
  TENON_ASSIGN_OR_RETURN(const std::string source, read_text_file(flags.file));
  return ChatTemplate::parse(source, flags.file);
}

nlohmann::json spans_json(const std::vector<TextSpan>& spans) {
  auto list = nlohmann::json::array();
  for (const TextSpan span : spans) list.push_back({span.begin, span.end});
  return list;
}

Status print(const Flags& flags, const RenderedChat& chat) {
  std::optional<std::vector<TokenId>> ids;
  if (flags.tokens) {
    TENON_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::load(flags.model));
    TENON_ASSIGN_OR_RETURN(ids, encode_chat(*tokenizer, chat));
  }
  if (flags.json) {
    nlohmann::json report = {{"text", chat.text},
                             {"trusted", spans_json(chat.trusted)},
                             {"generations", spans_json(chat.generations)}};
    if (ids) report["ids"] = *ids;
    put(json_text(report));
  } else if (ids) {
    for (size_t i = 0; i < ids->size(); ++i) putf("%s%d", i == 0 ? "" : " ", (*ids)[i]);
    put("\n");
  } else {
    put(chat.text);
  }
  return Status();
}

Status render(const Flags& flags) {
  if (flags.model.empty() && (flags.file.empty() || flags.tokens)) {
    return invalid_argument("no model is given – expected --model with a folder or GGUF file");
  }
  TENON_ASSIGN_OR_RETURN(const ChatTemplate chat, open_template(flags));
  ChatInput input;
  TENON_ASSIGN_OR_RETURN(input.messages, file_text(flags.messages));
  TENON_ASSIGN_OR_RETURN(input.tools, file_text(flags.tools));
  TENON_ASSIGN_OR_RETURN(input.documents, file_text(flags.documents));
  input.variables = flags.variables;
  TENON_ASSIGN_OR_RETURN(const RenderedChat rendered, chat.render(input, flags.options));
  return print(flags, rendered);
}

void add_render_flags(CLI::App& command, Flags& flags) {
  add_text(command, "--model", flags.model, "model folder or GGUF file");
  add_text(command, "--template-file", flags.file, "a template by itself, in place of the model's");
  add_text(command, "--template", flags.options.name, "which of the model's templates, by name");
  add_text(command, "--messages", flags.messages, "a JSON file: the list of messages")->required();
  add_text(command, "--tools", flags.tools, "a JSON file: the list of tools");
  add_text(command, "--documents", flags.documents, "a JSON file: the list of documents");
  add_text(command, "--variables", flags.variables,
           "a JSON object of more names, such as {\"enable_thinking\": false}");
  CLI::Option* prompt =
      command.add_flag("--add-generation-prompt", flags.options.add_generation_prompt,
                       "end with what begins an answer");
  command
      .add_flag("--continue-final-message", flags.options.continue_final_message,
                "leave the last message open")
      ->excludes(prompt);
  command.add_flag("--tokens", flags.tokens, "print token ids in place of the text");
  command.add_flag(
      "--json", flags.json,
      "a JSON object: the text, which bytes of it the template wrote, generation spans");
}

}  // namespace

void add_chat_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<Flags>();
  CLI::App* chat = app.add_subcommand("chat", "Work with a model's chat template");
  chat->require_subcommand(1);
  CLI::App* command = chat->add_subcommand("render", "Print a conversation as the model sees it");
  add_render_flags(*command, *flags);
  command->callback([flags, &action] {
    action = [flags] {
      const Status status = render(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
