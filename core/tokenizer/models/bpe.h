// Byte pair encoding of one word: characters become symbols, symbols merge, symbols become ids.
//
// Two families share this core. In tokenizer.json the merges are listed and what is unknown is
// settled before merging (Hugging Face tokenizers, model "BPE"). In SentencePiece two neighbours
// merge when their text is a piece, the highest score first (sentencepiece, bpe_model).
#pragma once

#include <tenon/types.h>

#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tokenizer/models/bpe_merge.h"
#include "core/tokenizer/regex/rune_table.h"
#include "core/tokenizer/vocabulary.h"

namespace tenon::tok {

struct BpeOptions {
  std::string unknown_piece;   // stands for what has no token; empty: none, such text is dropped
  bool byte_fallback = false;  // unknown characters become the tokens <0x00> … <0xFF>
  bool fuse_unknown = false;   // neighbouring unknown characters become one token
  bool ignore_merges = false;  // a word that is a piece is that token, whatever its merges give
};

// Immutable and safe to use from any thread after creation. Keeps a pointer to the vocabulary.
class Bpe {
 public:
  using Merge = std::pair<std::string, std::string>;
  struct ScoredPiece {
    TokenId id;
    float score;
    bool is_unused = false;  // helps to form other pieces, but is no result itself
  };

  // Merges in order of rank. Error: invalid_argument when a merge names a piece, or gives one,
  // that the vocabulary lacks.
  static Result<Bpe> from_merges(const Vocabulary& vocabulary, std::span<const Merge> merges,
                                 const BpeOptions& options);

  // `mergeable` are the pieces that may be formed by merging. Errors (invalid_argument): a score
  // that is not a number; a piece longer than 512 bytes.
  static Result<Bpe> from_scores(const Vocabulary& vocabulary,
                                 std::span<const ScoredPiece> mergeable, const BpeOptions& options);

  // Appends the ids of `word`, which is structurally valid UTF-8. Error: failed, when a character
  // has no token and the piece meant for that is not in the vocabulary.
  Status encode(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  enum class Whole : uint8_t { unasked, yes, no };

  Bpe(const Vocabulary& vocabulary, BpeOptions options);
  void add_tokenless(char32_t code);
  void set_unused(TokenId id);

  Status encode_chunk(std::string_view chunk, std::vector<TokenId>& ids) const;
  Status merge_chunk(std::string_view chunk, std::vector<Symbol>& symbols) const;
  bool append_bytes(std::string_view character, std::vector<Symbol>& symbols) const;
  Status append_tokenless(const std::vector<Symbol>& symbols, std::vector<TokenId>& ids) const;
  Result<TokenId> unknown(std::string_view character) const;

  const Vocabulary* vocabulary_;
  BpeOptions options_;
  PairTable rules_;
  RuneTable runes_;                       // the symbol of every known character
  std::vector<char32_t> tokenless_;       // characters of symbols at and beyond the vocabulary
  std::array<TokenId, 256> byte_tokens_;  // kNoToken where there is none
  std::optional<TokenId> unknown_;
  std::vector<bool> is_unused_;                    // by id; empty when no piece is
  bool cuts_before_spaces_ = false;                // no merge reaches over the border "x▁"
  mutable std::vector<std::atomic<Whole>> whole_;  // does a piece, as a word, become its own token?
};

}  // namespace tenon::tok
