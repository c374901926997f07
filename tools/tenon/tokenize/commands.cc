#include "tools/tenon/commands.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/files/mapped_file.h"
#include "core/base/number.h"
#include "core/files/gguf.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/config/model_config.h"
#include "core/model/model.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/input_limit.h"
#include "tools/tenon/shell/places.h"
#include "tools/tenon/shell/prompts.h"

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

Result<std::unique_ptr<Tokenizer>> open_file(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  if (GgufFile::has_magic(bytes)) return Tokenizer::load(path);
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMostTokenizerBytes));
  if (!path.ends_with(".model")) return Tokenizer::from_json(text, path);
  return Tokenizer::from_sentencepiece(std::as_bytes(std::span(text)), path);
}

// How many ids the model has. Vocabularies are padded: often more than its tokenizer has tokens.
// Null where a folder has a tokenizer and no model that can be read.
std::optional<uint32_t> model_ids(const std::string& path) {
  if (is_model_file(path)) {
    const auto model = open_model(path);
    return model.ok() ? std::optional((*model)->plan.vocabulary) : std::nullopt;
  }
  const std::string file = path + "/config.json";
  const auto text = read_text_file(file);
  if (!text.ok()) return std::nullopt;
  const auto config = parse_model_config(*text, file);
  return config.ok() ? std::optional(config->vocabulary) : std::nullopt;
}

struct OpenedTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  uint32_t ids = 0;  // that may be decoded

  // The same text that a model's answer has: ids without a token stand for nothing.
  Result<std::string> decode(std::span<const TokenId> list, bool skip_special) const {
    std::vector<TokenId> known;
    for (const TokenId id : list) {
      std::string fault = number_fault(whole_number("a token id", 0, int64_t{ids} - 1), id);
      if (!fault.empty()) return invalid_argument(fault);
      if (static_cast<uint32_t>(id) < tokenizer->vocab_size()) known.push_back(id);
    }
    return tokenizer->decode(known, skip_special);
  }
};

Result<OpenedTokenizer> open_tokenizer(const Flags& flags) {
  OpenedTokenizer opened;
  if (!flags.file.empty()) {
    TENON_ASSIGN_OR_RETURN(opened.tokenizer, open_file(flags.file));
    opened.ids = opened.tokenizer->vocab_size();
    return opened;
  }
  std::string model = flags.model;
  if (model.empty()) {
    TENON_ASSIGN_OR_RETURN(model, bundled_model());
  }
  TENON_ASSIGN_OR_RETURN(opened.tokenizer, Tokenizer::load(model));
  opened.ids = std::max(opened.tokenizer->vocab_size(), model_ids(model).value_or(0));
  return opened;
}

Result<std::string> text_of(const Flags& flags) {
  if (flags.has_text) return flags.text;
  return flags.input.read();
}

// JSON needs UTF-8; a piece of a character is shown with U+FFFD for what is missing.
std::string readable(const std::string& bytes) {
  return nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Status tokenize(const Flags& flags) {
  TENON_ASSIGN_OR_RETURN(const OpenedTokenizer opened, open_tokenizer(flags));
  const Tokenizer* tokenizer = opened.tokenizer.get();
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
  TENON_ASSIGN_OR_RETURN(const OpenedTokenizer opened, open_tokenizer(flags));
  TENON_ASSIGN_OR_RETURN(const std::string list, text_of(flags));
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, parse_token_list(list));
  TENON_ASSIGN_OR_RETURN(const std::string text, opened.decode(ids, flags.skip_special));
  put(text);
  if (stdout_is_terminal()) put("\n");
  return {};
}

void add_files(Command command, Flags& flags) {
  Option model = add_model(command, "--model", flags.model,
                           "model folder, GGUF file or name (default: the bundled model)");
  add_text(command, "--tokenizer", flags.file,
           "a tokenizer.json, tokenizer.model or GGUF file by itself")
      .excludes(model);
}

int finish(const Status& status) {
  return status.ok() ? 0 : report_failure(status);
}

}  // namespace

void add_tokenize_commands(Command app, Action& action) {
  auto flags = std::make_shared<Flags>();
  Command encode = app.add_subcommand("tokenize", "Print the token ids of a text");
  Option text = encode.add_option("text", flags->text, "the text; without it, standard input");
  add_files(encode, *flags);
  flags->input.add_to(encode);
  Option pieces = encode.add_flag("--pieces", flags->pieces, "one token a line, with its text");
  encode.add_flag("--json", flags->json, "a JSON list").excludes(pieces);
  encode.add_flag("!--no-special", flags->special,
                  "leave out what the tokenizer adds, such as <s>");
  encode.callback([flags, text, &action] {
    flags->has_text = text.given();
    action = [flags] { return finish(tokenize(*flags)); };
  });

  auto ids = std::make_shared<std::vector<std::string>>();
  Command decode = app.add_subcommand("detokenize", "Print the text of token ids");
  decode.add_option("ids", *ids,
                    "the ids, separated by spaces or commas; without them, standard input");
  add_files(decode, *flags);
  flags->input.add_to(decode);
  decode.add_flag("--skip-special", flags->skip_special, "leave out special tokens");
  decode.callback([flags, ids, &action] {
    for (const std::string& id : *ids) flags->text += id + " ";
    flags->has_text = !ids->empty();
    action = [flags] { return finish(detokenize(*flags)); };
  });
}

}  // namespace tenon
