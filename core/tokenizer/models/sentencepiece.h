// SentencePiece BPE models: what their files say, and the tokenizer made of it.
//
// A reader of another container (GGUF) fills in a SentencePieceModel and gets the same tokenizer.
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
#include "core/tokenizer/parts.h"

namespace tenon::tok {

// Values as in sentencepiece_model.proto.
enum class PieceType {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// What unknown text is written as where a model does not say.
inline constexpr std::string_view kUnknownSurface = " \xE2\x81\x87 ";

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  std::vector<Piece> pieces;  // the id is the index
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  std::string charsmap;                          // precompiled; empty: none
  std::string unknown_surface{kUnknownSurface};  // what unknown text is written as
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
};

// Parses the bytes of a tokenizer.model (protocol buffers, bounded by the size of the file).
// Errors: invalid_argument (not such a file, cut off), unsupported (not BPE, or with features that
// are not implemented; the message names them).
Result<SentencePieceModel> parse_sentencepiece(std::span<const std::byte> file);

// <s> is put in front when the model has one; see TokenizerParts::prefix to change that. Of several
// unknown pieces the first stands for unknown text.
Result<std::unique_ptr<TokenizerParts>> make_sentencepiece(const SentencePieceModel& model);

}  // namespace tenon::tok
