// What a tokenizer is made of. Readers of file formats fill it in; Tokenizer runs it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/text_end.h"
#include "core/tokenizer/models/bpe.h"
#include "core/tokenizer/stages/added_tokens.h"
#include "core/tokenizer/stages/decoder.h"
#include "core/tokenizer/stages/normalizer.h"
#include "core/tokenizer/stages/pre_tokenizer.h"
#include "core/tokenizer/vocabulary.h"

namespace tenon::tok {

struct TokenizerParts {
  TokenizerParts() = default;
  TokenizerParts(const TokenizerParts&) = delete;  // the model refers to the vocabulary
  TokenizerParts& operator=(const TokenizerParts&) = delete;

  // Adds a token that is found in text as it is spelled, after the vocabulary and the normalizer
  // are complete. Errors as AddedTokens::add, and where it contradicts the vocabulary.
  Status add_token(AddedToken token);

  // Of the model's pieces and the added tokens together.
  uint32_t size() const;
  std::string_view piece(TokenId id) const;  // empty for an unused id
  std::optional<TokenId> find(std::string_view piece) const;
  // What the decoder starts from.
  TokenText decodable(TokenId id) const;
  // Once complete: whether all tokens can be decoded, so that later none fails. Error: failed, with
  // the stage that makes too much of a token, or takes too long over it.
  Status check_decoder() const;

  std::string kind;
  Vocabulary vocabulary;  // the model's pieces
  AddedTokens added;      // may name pieces of the model, or more
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::optional<Bpe> model;
  Decoder decoder;
  std::vector<TokenId> prefix;  // put around a text with EncodeOptions::add_special
  std::vector<TokenId> suffix;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::vector<TextEnd> ends;          // every token that a file names as eos
  std::vector<std::string> warnings;  // what the files say and cannot mean, a sentence each
};

}  // namespace tenon::tok
