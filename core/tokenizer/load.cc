// The ways to make a Tokenizer from files.
#include <filesystem>
#include <utility>

#include "core/base/files/mapped_file.h"
#include "core/base/log.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/files/git_lfs.h"
#include "core/tokenizer/files/gguf_tokenizer.h"
#include "core/tokenizer/files/loading.h"
#include "core/tokenizer/models/sentencepiece.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon {
namespace {

using tok::JsonNode;
using tok::TokenizerParts;
using Parts = std::unique_ptr<TokenizerParts>;

constexpr size_t kLargestFileBytes = size_t{128} << 20;

// The whole of a file that is there.
Result<std::string> read_whole(const std::string& path, size_t most = size_t{64} << 20) {
  TENON_ASSIGN_OR_RETURN(std::string text, read_text_file(path, most));
  if (const Status status = check_no_git_lfs_pointer(text); !status.ok()) {
    return with_context(path, status);
  }
  return text;
}

// What a tokenizer_config.json says of the tokens around a text; absent: nothing.
struct Around {
  std::optional<bool> bos;
  std::optional<bool> eos;
};

Result<std::optional<bool>> flag(const JsonNode& config, std::string_view key) {
  const auto node = config.find(key);
  if (!node) return std::optional<bool>();
  TENON_ASSIGN_OR_RETURN(const bool value, node->boolean());
  return std::optional<bool>(value);
}

// Applies the JSON file at `path`, if there is one, with `apply(JsonNode)`.
template <typename Apply>
Status with_json(const std::string& path, Apply apply) {
  if (!is_there(path)) return Status();
  TENON_ASSIGN_OR_RETURN(const std::string text, read_whole(path));
  Result<nlohmann::json> document = tok::parse_json(text);
  if (!document.ok()) return with_context(path, document.status());
  const Status status = apply(JsonNode(*document, ""));
  return status.ok() ? Status() : with_context(path, status);
}

Result<Around> apply_configs(const std::string& folder, TokenizerParts& parts) {
  Around around;
  TENON_RETURN_IF_ERROR(with_json(folder + "/special_tokens_map.json", [&](const JsonNode& map) {
    return tok::apply_special_tokens_map(map, parts);
  }));
  TENON_RETURN_IF_ERROR(with_json(folder + "/tokenizer_config.json", [&](const JsonNode& config) {
    TENON_ASSIGN_OR_RETURN(around.bos, flag(config, "add_bos_token"));
    TENON_ASSIGN_OR_RETURN(around.eos, flag(config, "add_eos_token"));
    return tok::apply_tokenizer_config(config, parts);
  }));
  return around;
}

// A post-processor that adds tokens says all. Where it adds none, the configuration may.
void complete_json(const Around& around, TokenizerParts& parts) {
  if (!parts.prefix.empty() || !parts.suffix.empty()) return;
  if (around.bos.value_or(false) && parts.bos) parts.prefix = {*parts.bos};
  if (around.eos.value_or(false) && parts.eos) parts.suffix = {*parts.eos};
}

// The piece that tokenizer.model has for the end of a sequence.
void name_own_end(TokenizerParts& parts) {
  if (parts.eos) add_text_end(parts.ends, *parts.eos, "tokenizer.model");
}

// tokenizer.model says nothing about it: <s> in front is the rule, </s> after the exception.
void complete_sentencepiece(const Around& around, TokenizerParts& parts) {
  parts.prefix.clear();
  if (around.bos.value_or(true) && parts.bos) parts.prefix = {*parts.bos};
  if (around.eos.value_or(false) && parts.eos) parts.suffix = {*parts.eos};
}

Result<Parts> read_sentencepiece(std::span<const std::byte> model) {
  TENON_ASSIGN_OR_RETURN(const tok::SentencePieceModel parsed, tok::parse_sentencepiece(model));
  return tok::make_sentencepiece(parsed);
}

Result<Parts> named(std::string_view name, Result<Parts> parts) {
  if (!parts.ok()) return with_context(name, parts.status());
  return parts;
}

Result<Parts> load_json(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  TENON_ASSIGN_OR_RETURN(const std::string text, read_whole(path, kLargestFileBytes));
  TENON_ASSIGN_OR_RETURN(Parts parts, named(path, tok::read_tokenizer_json(text)));
  TENON_ASSIGN_OR_RETURN(const Around around, apply_configs(folder, *parts));
  complete_json(around, *parts);
  return parts;
}

Result<Parts> load_sentencepiece(const std::string& folder) {
  const std::string path = folder + "/tokenizer.model";
  TENON_ASSIGN_OR_RETURN(const std::string text, read_whole(path, kLargestFileBytes));
  TENON_ASSIGN_OR_RETURN(Parts parts,
                         named(path, read_sentencepiece(std::as_bytes(std::span(text)))));
  name_own_end(*parts);
  TENON_ASSIGN_OR_RETURN(const Around around, apply_configs(folder, *parts));
  complete_sentencepiece(around, *parts);
  return parts;
}

Result<Parts> load_gguf(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const GgufParts files, GgufParts::open(path));
  return named(path, tok::read_gguf_tokenizer(files.file()));
}

Result<std::unique_ptr<Tokenizer>> finished(std::string_view name, Parts parts) {
  const Status status = parts->check_decoder();
  if (!status.ok()) return with_context(name, status);
  for (const std::string& warning : parts->warnings) {
    log(LogLevel::warning, "tokenizer", std::string(name) + ": " + warning);
  }
  return Tokenizer::from_parts(std::move(parts));
}

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace

Result<Parts> tok::load_tokenizer_parts(const std::string& path) {
  if (is_file(path)) return load_gguf(path);
  const bool has_json = is_there(path + "/tokenizer.json");
  if (!has_json && !is_there(path + "/tokenizer.model")) {
    return not_found(path_in_quotes(path) +
                     " has no tokenizer.json and no tokenizer.model; one of them must be there");
  }
  return has_json ? load_json(path) : load_sentencepiece(path);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(Parts parts, tok::load_tokenizer_parts(path));
  return finished(path, std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                        std::string_view name) {
  TENON_ASSIGN_OR_RETURN(Parts parts, named(name, tok::read_tokenizer_json(tokenizer_json)));
  return finished(name, std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_sentencepiece(std::span<const std::byte> model,
                                                                 std::string_view name) {
  TENON_ASSIGN_OR_RETURN(Parts parts, named(name, read_sentencepiece(model)));
  return finished(name, std::move(parts));
}

}  // namespace tenon
