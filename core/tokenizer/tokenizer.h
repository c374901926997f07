// Text to token ids and back.
//
// Reads what models are published with: Hugging Face's tokenizer.json (byte-level and
// SentencePiece-style BPE with its normalizers, pre-tokenizers, added tokens, post-processors and
// decoders) and SentencePiece's tokenizer.model (BPE). Ids and text are exactly those of the
// libraries that define these formats; docs/formats/tokenizers.md lists what is supported. What is
// not is refused by name when a tokenizer is loaded.
//
// Text is bytes. Bytes that are not UTF-8 are encoded too, and where the vocabulary can say every
// byte (byte-level, or byte fallback) they come back exactly.
#pragma once

#include <tenon/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/text_end.h"
#include "core/tokenizer/text_span.h"

namespace tenon {

namespace tok {
struct TokenizerParts;
struct SpecialPlaces;
class Allowance;
class DecodeRun;
}  // namespace tok

struct EncodeOptions {
  bool add_special = true;    // what the post-processor adds around the text, for example <s>
  bool parse_special = true;  // text that spells a special token becomes that token
};

// Immutable: any number of threads may use one at the same time.
class Tokenizer {
 public:
  // A model's folder: its tokenizer.json, else its tokenizer.model; with either, what
  // tokenizer_config.json and special_tokens_map.json say about special tokens. Or a GGUF file.
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& path);
  // The content of a tokenizer.json; error messages begin with `name`.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view tokenizer_json,
                                                      std::string_view name);
  // The content of a SentencePiece tokenizer.model. It does not say whether <s> is put in front:
  // it is, when the model has one.
  static Result<std::unique_ptr<Tokenizer>> from_sentencepiece(std::span<const std::byte> model,
                                                               std::string_view name);
  // For readers of other formats.
  static std::unique_ptr<Tokenizer> from_parts(std::unique_ptr<tok::TokenizerParts> parts);
  ~Tokenizer();

  // Errors: invalid_argument (more than 1 GiB of text), failed (a stage of the tokenizer, which is
  // named, makes too much of this text or takes too long over it; a character without a token where
  // there is no unknown token).
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;
  // Of a text that is trusted in parts only: a special token's spelling becomes that token where
  // all of it lies inside of one of `trusted`, which are sorted and do not touch; elsewhere it is
  // text. The text is encoded as a whole, so where no special token is spelled elsewhere the ids
  // are those of encode(). Nothing is added around it. Errors as encode(), and invalid_argument for
  // a text that is not UTF-8.
  Result<std::vector<TokenId>> encode_trusted(std::string_view text,
                                              std::span<const TextSpan> trusted) const;
  // The bytes that the tokens stand for, exact even where they are not UTF-8. Ids without a piece
  // stand for nothing. Error: invalid_argument for an id outside [0, vocab_size).
  Result<std::string> decode(std::span<const TokenId> ids, bool skip_special = true) const;

  // Highest id + 1. Ids below it may be unused.
  uint32_t vocab_size() const;
  // As it stands in the vocabulary; empty for an id that is unused or out of range. Borrowed.
  std::string_view piece(TokenId id) const;
  // The bytes that this token stands for inside running text.
  std::string token_bytes(TokenId id) const;
  bool is_special(TokenId id) const;
  // The tokens that begin and end a sequence, where the files name them.
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // All that the files name as the end of a sequence, and which file does. Borrowed.
  std::span<const TextEnd> ends() const;
  // What its files leave open, in sentences for the log. Borrowed.
  std::span<const std::string> warnings() const;
  std::optional<TokenId> find(std::string_view piece) const;
  // For people: "byte-level bpe", "sentencepiece bpe" or "bpe".
  std::string_view kind() const;

 private:
  friend class StreamingDetokenizer;
  explicit Tokenizer(std::unique_ptr<const tok::TokenizerParts> parts);
  Status encode_text(std::string_view text, const tok::SpecialPlaces& places,
                     tok::Allowance& allowance, std::vector<TokenId>& ids) const;
  Status encode_raw(std::string_view part, bool starts_text, const tok::SpecialPlaces& places,
                    tok::Allowance& allowance, std::vector<TokenId>& ids) const;
  Status encode_normalized(std::string text, bool starts_input, tok::Allowance& allowance,
                           std::vector<TokenId>& ids) const;
  // Appends what is certain after one more token of `run`.
  void decode_next(tok::DecodeRun& run, TokenId id, bool skip_special, std::string& out) const;

  std::unique_ptr<const tok::TokenizerParts> parts_;
};

// Decodes one sequence as its tokens arrive. What push() and finish() return is together what
// decode() returns for all tokens. A character is never returned in parts: its first bytes wait
// until it is complete, or until it is certain that they are no UTF-8; then they come as they are.
// Not thread safe; the tokenizer outlives it.
class StreamingDetokenizer {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special = true);
  StreamingDetokenizer(StreamingDetokenizer&&) noexcept;
  StreamingDetokenizer& operator=(StreamingDetokenizer&&) noexcept;
  ~StreamingDetokenizer();

  // An id outside the vocabulary adds nothing.
  std::string push(TokenId id);
  // The bytes still waiting. The detokenizer is used up.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::unique_ptr<tok::DecodeRun> run_;
  std::string waiting_;  // the beginning of a character
};

}  // namespace tenon
