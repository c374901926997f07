// From the keys of a GGUF file to a tokenizer's files.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/tokenizer/files/gguf_export.h"
#include "core/tokenizer/files/gguf_patterns.h"
#include "core/tokenizer/files/gguf_tokenizer.h"

namespace tenon {
namespace {

using nlohmann::ordered_json;
using tok::GgufVocabulary;
using tok::PieceType;

std::string dump(const ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// --- tokenizer.json
// -------------------------------------------------------------------------------

ordered_json added_tokens(const GgufVocabulary& vocabulary) {
  ordered_json list = ordered_json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto& token = vocabulary.tokens[id];
    const bool special = token.type == PieceType::control || token.type == PieceType::unknown;
    if ((!special && token.type != PieceType::user_defined) || token.text.empty()) continue;
    list.push_back({{"id", id},
                    {"content", token.text},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", special}});
  }
  return list;
}

ordered_json pre_tokenizer(const tok::SplitRule& rule, bool prefix_space) {
  ordered_json steps = ordered_json::array();
  for (const std::string_view pattern : rule.patterns) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", prefix_space},
                   {"trim_offsets", true},
                   {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

// Gemma 4's, whose spaces are a character of their own before anything is merged.
ordered_json spaces_to_marks() {
  return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", tok::kGemma4Space}};
}
ordered_json marks_to_spaces() {
  const ordered_json replace = {
      {"type", "Replace"}, {"pattern", {{"String", tok::kGemma4Space}}}, {"content", " "}};
  const ordered_json bytes = {{"type", "ByteFallback"}}, fuse = {{"type", "Fuse"}};
  return {{"type", "Sequence"}, {"decoders", ordered_json::array({replace, bytes, fuse})}};
}

ordered_json bpe_model(const GgufVocabulary& vocabulary, bool ignore_merges) {
  const bool gemma4 = vocabulary.model == tok::kGemma4Model;
  ordered_json vocab = ordered_json::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto& token = vocabulary.tokens[id];
    const bool is_word = gemma4 || token.type == PieceType::normal ||
                         token.type == PieceType::unused || token.type == PieceType::byte;
    if (is_word && !token.text.empty()) vocab[std::string(token.text)] = id;
  }
  ordered_json merges = ordered_json::array();
  for (const std::string_view merge : vocabulary.merges) merges.push_back(merge);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token",
           gemma4 && vocabulary.unknown
               ? ordered_json(vocabulary.tokens[static_cast<size_t>(*vocabulary.unknown)].text)
               : ordered_json(nullptr)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", gemma4},
          {"byte_fallback", gemma4},
          {"ignore_merges", ignore_merges},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

Result<std::string> tokenizer_json(const GgufVocabulary& vocabulary) {
  if (!vocabulary.json.empty()) return std::string(vocabulary.json);
  ordered_json file = {{"version", "1.0"},         {"truncation", nullptr},
                       {"padding", nullptr},       {"added_tokens", added_tokens(vocabulary)},
                       {"normalizer", nullptr},    {"pre_tokenizer", nullptr},
                       {"post_processor", nullptr}};
  if (vocabulary.model == tok::kGemma4Model) {
    file["normalizer"] = spaces_to_marks();
    file["decoder"] = marks_to_spaces();
    file["model"] = bpe_model(vocabulary, false);
    return dump(file);
  }
  const tok::SplitRule* rule = tok::find_split_rule(vocabulary.pre);
  if (rule == nullptr) {
    return unsupported("'tokenizer.ggml.pre' is " + in_quotes(vocabulary.pre) + "; there are " +
                       tok::split_rule_names());
  }
  file["pre_tokenizer"] = pre_tokenizer(*rule, vocabulary.add_space_prefix.value_or(false));
  file["decoder"] = {{"type", "ByteLevel"},
                     {"add_prefix_space", true},
                     {"trim_offsets", true},
                     {"use_regex", true}};
  file["model"] = bpe_model(vocabulary, rule->ignore_merges);
  return dump(file);
}

// --- tokenizer.model
// ------------------------------------------------------------------------------

// Protocol buffers, as sentencepiece_model.proto lays them out.
class Message {
 public:
  void varint(uint32_t field, uint64_t value) {
    put(field << 3);
    put(value);
  }
  void real(uint32_t field, float value) {
    put(field << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void text(uint32_t field, std::string_view value) {
    put(field << 3 | 2);
    put(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

// No such token is -1, as int32 in a varint of 64 bits.
uint64_t id_bits(std::optional<TokenId> id) {
  return static_cast<uint64_t>(id ? int64_t{*id} : int64_t{-1});
}

std::string sentencepiece_file(const tok::SentencePieceModel& model) {
  Message file, trainer, normalizer;
  uint64_t unknown = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (piece.type == PieceType::unknown) unknown = id;
    Message entry;
    entry.text(1, piece.text);
    entry.real(2, piece.score);
    entry.varint(3, static_cast<uint64_t>(piece.type));
    file.text(1, entry.bytes());
  }
  trainer.varint(3, 2);  // BPE
  trainer.varint(35, model.byte_fallback ? 1 : 0);
  trainer.varint(40, unknown);
  trainer.varint(41, id_bits(model.bos));
  trainer.varint(42, id_bits(model.eos));
  if (model.unknown_surface != tok::kUnknownSurface) trainer.text(44, model.unknown_surface);
  normalizer.text(1, "identity");
  if (!model.charsmap.empty()) normalizer.text(2, model.charsmap);
  normalizer.varint(3, model.add_dummy_prefix ? 1 : 0);
  normalizer.varint(4, model.remove_extra_whitespaces ? 1 : 0);
  normalizer.varint(5, model.escape_whitespaces ? 1 : 0);
  file.text(2, trainer.bytes());
  file.text(3, normalizer.bytes());
  return file.bytes();
}

// Vocabularies without one unknown piece make no tokenizer.model.
Status check_unknown(const tok::SentencePieceModel& model) {
  const auto count = std::ranges::count_if(
      model.pieces, [](const auto& piece) { return piece.type == PieceType::unknown; });
  if (count == 1) return {};
  return unsupported("the vocabulary has " + std::to_string(count) +
                     " pieces for what is unknown; a tokenizer.model has one");
}

// --- tokenizer_config.json
// ------------------------------------------------------------------------

std::string config_json(const GgufVocabulary& vocabulary, bool adds_bos) {
  const auto named = [&](std::optional<TokenId> id) {
    return id ? ordered_json(vocabulary.tokens[static_cast<size_t>(*id)].text)
              : ordered_json(nullptr);
  };
  ordered_json out = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"clean_up_tokenization_spaces", false},
                      {"bos_token", named(vocabulary.bos)},
                      {"eos_token", named(vocabulary.eos)},
                      {"add_bos_token", vocabulary.add_bos.value_or(adds_bos)},
                      {"add_eos_token", vocabulary.add_eos.value_or(false)}};
  if (!vocabulary.chat_template.empty()) out["chat_template"] = vocabulary.chat_template;
  return dump(out);
}

Status write_files(const GgufVocabulary& vocabulary, const std::string& folder) {
  const bool gemma4 = vocabulary.model == tok::kGemma4Model;
  const bool is_json = !vocabulary.json.empty() || vocabulary.model == "gpt2" || gemma4;
  if (!is_json && vocabulary.model != "llama") {
    return unsupported("'tokenizer.ggml.model' is " + in_quotes(vocabulary.model) +
                       "; there are llama, gpt2 and gemma4");
  }
  bool adds_bos = !is_json;
  if (is_json) {
    TENON_ASSIGN_OR_RETURN(const std::string json, tokenizer_json(vocabulary));
    TENON_RETURN_IF_ERROR(write_file(folder + "/tokenizer.json", {json}));
    const tok::SplitRule* rule = tok::find_split_rule(vocabulary.pre);
    adds_bos = vocabulary.json.empty() && (gemma4 || (rule != nullptr && rule->adds_bos));
  } else {
    const tok::SentencePieceModel model = tok::sentencepiece_of(vocabulary);
    TENON_RETURN_IF_ERROR(check_unknown(model));
    TENON_RETURN_IF_ERROR(write_file(folder + "/tokenizer.model", {sentencepiece_file(model)}));
  }
  return write_file(folder + "/tokenizer_config.json", {config_json(vocabulary, adds_bos)});
}

}  // namespace

Status write_tokenizer_folder(const std::string& gguf_path, const std::string& folder) {
  TENON_ASSIGN_OR_RETURN(const GgufParts files, GgufParts::open(gguf_path));
  Result<GgufVocabulary> vocabulary = tok::read_gguf_vocabulary(files.file());
  if (!vocabulary.ok()) return with_context(gguf_path, vocabulary.status());
  const Status written = write_files(*vocabulary, folder);
  return written.ok() ? Status() : with_context(gguf_path, written);
}

}  // namespace tenon
