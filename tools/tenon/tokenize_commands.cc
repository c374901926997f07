#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/gguf.h"
#include "core/base/mapped_file.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/json_text.h"
#include "tools/tenon/places.h"
#include "tools/tenon/progress.h"
#include "tools/tenon/prompts.h"
#include "tools/tenon/standard_input.h"
#include "tools/tenon/standard_output.h"

namespace tenon {
namespace {

constexpr size_t kMostTokenizerBytes = size_t{128} << 20;

struct Flags {
  std::string model;
  std::string file;  // one tokenizer file instead of a model folder
  std::string text;
  bool has_text = false;
  bool pieces = false;
  bool json = false;
  bool special = true;
  bool skip_special = false;
  InputLimit input;
};

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const Flags& flags) {
  if (!flags.file.empty()) {
    TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(flags.file));
    if (GgufFile::has_magic(file.bytes())) return Tokenizer::load(flags.file);
    TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(flags.file, kMostTokenizerBytes));
    if (!flags.file.ends_with(".model")) return Tokenizer::from_json(text, flags.file);
    return Tokenizer::from_sentencepiece(std::as_bytes(std::span(text)), flags.file);
  }
  if (!flags.model.empty()) return Tokenizer::load(flags.model);
  TENON_ASSIGN_OR_RETURN(const std::string folder, bundled_model());
  return Tokenizer::load(folder);
}

Result<std::string> text_of(const Flags& flags) {
  if (flags.has_text) return flags.text;
  TENON_ASSIGN_OR_RETURN(std::string text, flags.input.read());
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// JSON needs UTF-8; a piece of a character is shown with U+FFFD for what is missing.
std::string readable(const std::string& bytes) {
  return nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Status tokenize(const Flags& flags) {
  TENON_ASSIGN_OR_RETURN(const auto tokenizer, open_tokenizer(flags));
  TENON_ASSIGN_OR_RETURN(const std::string text, text_of(flags));
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                         tokenizer->encode(text, {.add_special = flags.special}));
  if (flags.json) {
    put(json_text(nlohmann::json(ids), -1));
  } else if (flags.pieces) {
    for (const TokenId id : ids) {
      putf("%8d  %s\n", id, readable(tokenizer->token_bytes(id)).c_str());
    }
  } else {
    for (size_t i = 0; i < ids.size(); ++i) putf("%s%d", i == 0 ? "" : " ", ids[i]);
    put("\n");
  }
  return {};
}

Status detokenize(const Flags& flags) {
  TENON_ASSIGN_OR_RETURN(const auto tokenizer, open_tokenizer(flags));
  TENON_ASSIGN_OR_RETURN(const std::string list, text_of(flags));
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, parse_token_list(list));
  TENON_ASSIGN_OR_RETURN(const std::string text, tokenizer->decode(ids, flags.skip_special));
  put(text);
  if (stdout_is_terminal()) put("\n");
  return {};
}

int finish(const Status& status) {
  return status.ok() ? 0 : report_failure(status);
}

}  // namespace

void add_tokenize_commands(CLI::App& app, Action& action) {
  auto flags = std::make_shared<Flags>();
  CLI::App* encode = app.add_subcommand("tokenize", "Print the token ids of a text");
  CLI::Option* text =
      encode->add_option("text", flags->text, "the text; without it, standard input");
  encode->add_option("--model", flags->model,
                     "model folder or GGUF file (default: the bundled model)");
  encode->add_option("--tokenizer", flags->file,
                     "a tokenizer.json, tokenizer.model or GGUF file by itself");
  flags->input.add_to(*encode);
  encode->add_flag("--pieces", flags->pieces, "one token a line, with its text");
  encode->add_flag("--json", flags->json, "a JSON list");
  encode->add_flag("!--no-special", flags->special,
                   "leave out what the tokenizer adds, such as <s>");
  encode->callback([flags, text, &action] {
    flags->has_text = text->count() > 0;
    action = [flags] { return finish(tokenize(*flags)); };
  });

  auto ids = std::make_shared<std::vector<std::string>>();
  CLI::App* decode = app.add_subcommand("detokenize", "Print the text of token ids");
  decode->add_option("ids", *ids,
                     "the ids, separated by spaces or commas; without them, standard input");
  decode->add_option("--model", flags->model,
                     "model folder or GGUF file (default: the bundled model)");
  decode->add_option("--tokenizer", flags->file,
                     "a tokenizer.json, tokenizer.model or GGUF file by itself");
  flags->input.add_to(*decode);
  decode->add_flag("--skip-special", flags->skip_special, "leave out special tokens");
  decode->callback([flags, ids, &action] {
    for (const std::string& id : *ids) flags->text += id + " ";
    flags->has_text = !ids->empty();
    action = [flags] { return finish(detokenize(*flags)); };
  });
}

}  // namespace tenon
