// Tokenizers of GGUF files: docs/formats/gguf.md lists the keys.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/files/gguf.h"
#include "core/tokenizer/models/sentencepiece.h"
#include "core/tokenizer/parts.h"

namespace tenon::tok {

// `tokenizer.huggingface.json` where the file has it, else `tokenizer.ggml.*` of the models "llama"
// (SentencePiece BPE with scores), "gpt2" (byte-level BPE with merges) and "gemma4" (BPE of
// characters with merges). Errors: not_found (no
// tokenizer), unsupported (another model or split rule, named), invalid_argument. Messages carry
// no file name.
Result<std::unique_ptr<TokenizerParts>> read_gguf_tokenizer(const GgufFile& file);

inline constexpr std::string_view kGemma4Model = "gemma4";
inline constexpr std::string_view kGemma4Space = "\u2581";  // what a space is in its tokens

// What `tokenizer.ggml.*` says, before anything is made of it.
struct GgufVocabulary {
  struct Token {
    std::string_view text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  std::string model;  // "llama", "gpt2", "gemma4"
  std::string pre;    // "default" where the file does not say
  std::vector<Token> tokens;
  std::vector<std::string_view> merges;  // "left right"
  // Which of these keys are there.
  bool has_scores = false, has_types = false, has_pre = false;
  std::optional<TokenId> bos, eos, unknown;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::string charsmap;   // SentencePiece's, precompiled
  std::string_view json;  // tokenizer.huggingface.json; empty: none
  std::string_view chat_template;
  std::string_view unknown_surface = kUnknownSurface;
};
// Borrows from the file.
Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file);
// Of the model "llama".
SentencePieceModel sentencepiece_of(const GgufVocabulary& vocabulary);

}  // namespace tenon::tok
