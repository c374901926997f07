#include "core/model/checkpoint/gguf_ends.h"

#include <algorithm>
#include <array>
#include <optional>

namespace tenon {
namespace {

constexpr int64_t kControl = 3;  // of tokenizer.ggml.token_type

constexpr std::string_view kKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                      "tokenizer.ggml.eom_token_id"};

// The names by which llama.cpp knows ends, whatever the keys say.
constexpr std::string_view kNames[] = {"<|eot_id|>",
                                       "<|im_end|>",
                                       "<|end|>",
                                       "<|return|>",
                                       "<|call|>",
                                       "<|flush|>",
                                       "<|calls|>",
                                       "</s>",
                                       "<|eom_id|>",
                                       "<|endoftext|>",
                                       "<EOT>",
                                       "_<EOT>",
                                       "[EOT]",
                                       "[EOS]",
                                       "<end_of_turn>",
                                       "<|end_of_text|>",
                                       "<end_of_utterance>",
                                       "<eos>",
                                       "<turn|>",
                                       "<|tool_response>"};

// What separates files of code from each other ends a text too: by its key, else by these names.
struct CodeEnd {
  std::string_view key;
  std::array<std::string_view, 5> names;
};
constexpr CodeEnd kCodeEnds[] = {
    {"tokenizer.ggml.fim_pad_token_id",
     {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"tokenizer.ggml.fim_rep_token_id",
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"tokenizer.ggml.fim_sep_token_id", {"<|file_sep|>"}}};

class EndReader {
 public:
  EndReader(const GgufFields& fields, uint32_t vocabulary)
      : fields_(fields), vocabulary_(vocabulary) {
    const GgufValue* tokens = fields.find("tokenizer.ggml.tokens");
    if (auto texts = tokens != nullptr ? tokens->texts() : std::nullopt)
      tokens_ = *std::move(texts);
    tokens_.resize(std::min<size_t>(tokens_.size(), vocabulary));
    const GgufValue* types = fields.find("tokenizer.ggml.token_type");
    if (auto list = types != nullptr ? types->integers() : std::nullopt) types_ = *std::move(list);
  }

  std::vector<TextEnd> read() {
    for (const std::string_view key : kKeys) add_key(key);
    for (const CodeEnd& end : kCodeEnds) add_key(end.key);
    add_names();
    drop_what_others_replace();
    return std::move(ends_);
  }

 private:
  void add_key(std::string_view key) {
    const uint32_t id = fields_.count(key, 0xffffffffu, 0, 0xffffffffu);
    if (id < vocabulary_) add_text_end(ends_, static_cast<TokenId>(id), std::string(key));
  }

  bool is_end(size_t id) const {
    const std::string_view text = tokens_[id];
    // Gemma has the tags of HTML in its vocabulary, as tokens of users.
    if (text == "</s>" && id < types_.size() && types_[id] != kControl) return false;
    if (std::ranges::find(kNames, text) != std::end(kNames)) return true;
    return std::ranges::any_of(kCodeEnds, [&](const CodeEnd& end) {
      return !fields_.has(end.key) && std::ranges::find(end.names, text) != end.names.end();
    });
  }

  void add_names() {
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (tokens_[id].empty() || !is_end(id)) continue;
      add_text_end(ends_, static_cast<TokenId>(id), "its name");
    }
  }

  bool has(std::string_view text) const {
    return std::ranges::any_of(ends_, [&](const TextEnd& end) {
      return static_cast<size_t>(end.token) < tokens_.size() &&
             tokens_[static_cast<size_t>(end.token)] == text;
    });
  }
  void drop(std::string_view text) {
    std::erase_if(ends_, [&](const TextEnd& end) {
      return static_cast<size_t>(end.token) < tokens_.size() &&
             tokens_[static_cast<size_t>(end.token)] == text;
    });
  }

  // Where a message of several parts has its own ends, <|end|> ends a part of it alone.
  void drop_what_others_replace() {
    const bool calls = has("<|call|>") || has("<|calls|>");
    if (calls && (has("<|return|>") || has("<|flush|>"))) drop("<|end|>");
    if (has("<|tool_response>")) drop("</s>");
  }

  const GgufFields& fields_;
  uint32_t vocabulary_;
  std::vector<std::string_view> tokens_;
  std::vector<int64_t> types_;
  std::vector<TextEnd> ends_;
};

}  // namespace

bool is_named_end(std::string_view text) {
  // Whether these two end a text depends on what else the vocabulary has.
  if (text.empty() || text == "</s>" || text == "<|end|>") return false;
  return std::ranges::find(kNames, text) != std::end(kNames) ||
         std::ranges::any_of(kCodeEnds, [text](const CodeEnd& end) {
           return std::ranges::find(end.names, text) != end.names.end();
         });
}

std::vector<TextEnd> read_gguf_ends(const GgufFields& fields, uint32_t vocabulary) {
  return EndReader(fields, vocabulary).read();
}

}  // namespace tenon
