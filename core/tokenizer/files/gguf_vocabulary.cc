// The metadata keys of GGUF files that describe tokenizers.
#include <limits>

#include "core/base/quote.h"
#include "core/tokenizer/files/gguf_tokenizer.h"

namespace tenon::tok {
namespace {

const std::string kPrefix = "tokenizer.ggml.";

Status wrong(const std::string& key, const GgufValue& value, std::string_view expected) {
  return invalid_argument(in_quotes(key) + " is " + value.describe() + "; expected " +
                          std::string(expected));
}

Status read_text(const GgufFile& file, const std::string& key, std::string_view& out) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  const auto text = value->text();
  if (!text) return wrong(key, *value, "a text");
  out = *text;
  return {};
}

Status read_flag(const GgufFile& file, const std::string& key, std::optional<bool>& out) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  out = value->boolean();
  return out ? Status() : wrong(key, *value, "true or false");
}

// Ids beyond the vocabulary mean none: converters write the defaults of other models.
Status read_id(const GgufFile& file, const std::string& key, size_t tokens,
               std::optional<TokenId>& out) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  const auto id = value->integer();
  if (!id) return wrong(key, *value, "a token id");
  if (*id >= 0 && static_cast<uint64_t>(*id) < tokens) out = static_cast<TokenId>(*id);
  return {};
}

Status check_length(const std::string& key, size_t length, size_t tokens) {
  if (length == tokens) return {};
  return invalid_argument(in_quotes(key) + " has " + std::to_string(length) +
                          " elements; there are " + std::to_string(tokens) + " tokens");
}

Status read_tokens(const GgufFile& file, GgufVocabulary& out) {
  const std::string key = kPrefix + "tokens";
  const GgufValue* value = file.find(key);
  // A file that names a tokenizer's model and has no tokens has lost them.
  const GgufValue* model = file.find(kPrefix + "model");
  const bool lost = model != nullptr && model->text().value_or("no_vocab") != "no_vocab";
  if (value == nullptr && lost) {
    return invalid_argument(in_quotes(key) + " is missing, but " + in_quotes(kPrefix + "model") +
                            " is " + model->describe() +
                            "; expected the texts of its tokens, convert the model again");
  }
  if (value == nullptr) return not_found("it has no tokenizer (" + in_quotes(key) + ")");
  const auto texts = value->texts();
  if (!texts || texts->empty() || texts->size() > std::numeric_limits<TokenId>::max()) {
    return wrong(key, *value, "an array of texts");
  }
  for (const std::string_view text : *texts) out.tokens.push_back({.text = text});
  return {};
}

Status read_scores(const GgufFile& file, GgufVocabulary& out) {
  const std::string key = kPrefix + "scores";
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  const auto scores = value->reals();
  if (!scores) return wrong(key, *value, "an array of f32");
  TENON_RETURN_IF_ERROR(check_length(key, scores->size(), out.tokens.size()));
  out.has_scores = true;
  for (size_t i = 0; i < scores->size(); ++i) out.tokens[i].score = (*scores)[i];
  return {};
}

Status read_types(const GgufFile& file, GgufVocabulary& out) {
  const std::string key = kPrefix + "token_type";
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  const auto types = value->integers();
  if (!types) return wrong(key, *value, "an array of whole numbers");
  TENON_RETURN_IF_ERROR(check_length(key, types->size(), out.tokens.size()));
  out.has_types = true;
  for (size_t i = 0; i < types->size(); ++i) {
    const int64_t type = (*types)[i];
    if (type < 1 || type > 6) {
      return invalid_argument(in_quotes(key) + " gives token " + std::to_string(i) +
                              " the unknown type " + std::to_string(type));
    }
    out.tokens[i].type = static_cast<PieceType>(type);
  }
  return {};
}

Status read_merges(const GgufFile& file, GgufVocabulary& out) {
  const std::string key = kPrefix + "merges";
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  auto merges = value->texts();
  if (!merges) return wrong(key, *value, "an array of texts");
  out.merges = *std::move(merges);
  return {};
}

Status read_charsmap(const GgufFile& file, GgufVocabulary& out) {
  const std::string key = kPrefix + "precompiled_charsmap";
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  const auto bytes = value->integers();
  if (!bytes) return wrong(key, *value, "an array of bytes");
  for (const int64_t byte : *bytes) out.charsmap.push_back(static_cast<char>(byte));
  return {};
}

Status read_all(const GgufFile& file, GgufVocabulary& out) {
  std::string_view model, pre = "default";
  TENON_RETURN_IF_ERROR(read_tokens(file, out));
  TENON_RETURN_IF_ERROR(read_text(file, kPrefix + "model", model));
  TENON_RETURN_IF_ERROR(read_text(file, kPrefix + "pre", pre));
  TENON_RETURN_IF_ERROR(read_text(file, "tokenizer.huggingface.json", out.json));
  TENON_RETURN_IF_ERROR(read_text(file, "tokenizer.chat_template", out.chat_template));
  TENON_RETURN_IF_ERROR(read_text(file, "tenon.tokenizer.unknown_surface", out.unknown_surface));
  out.model = model;
  out.pre = pre;
  out.has_pre = file.find(kPrefix + "pre") != nullptr;
  TENON_RETURN_IF_ERROR(read_scores(file, out));
  TENON_RETURN_IF_ERROR(read_types(file, out));
  TENON_RETURN_IF_ERROR(read_merges(file, out));
  TENON_RETURN_IF_ERROR(read_charsmap(file, out));
  const size_t tokens = out.tokens.size();
  TENON_RETURN_IF_ERROR(read_id(file, kPrefix + "bos_token_id", tokens, out.bos));
  TENON_RETURN_IF_ERROR(read_id(file, kPrefix + "eos_token_id", tokens, out.eos));
  TENON_RETURN_IF_ERROR(read_id(file, kPrefix + "unknown_token_id", tokens, out.unknown));
  TENON_RETURN_IF_ERROR(read_flag(file, kPrefix + "add_bos_token", out.add_bos));
  TENON_RETURN_IF_ERROR(read_flag(file, kPrefix + "add_eos_token", out.add_eos));
  TENON_RETURN_IF_ERROR(read_flag(file, kPrefix + "add_space_prefix", out.add_space_prefix));
  return read_flag(file, kPrefix + "remove_extra_whitespaces", out.remove_extra_whitespaces);
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file) {
  GgufVocabulary vocabulary;
  TENON_RETURN_IF_ERROR(read_all(file, vocabulary));
  return vocabulary;
}

}  // namespace tenon::tok
