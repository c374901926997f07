#include "core/tokenizer/parts.h"

#include <algorithm>
#include <utility>

#include "core/base/quote.h"

namespace tenon::tok {

Status TokenizerParts::add_token(AddedToken token) {
  const std::string name = "added token " + in_quotes(token.content);
  const int64_t highest = Vocabulary::highest_id_allowed(vocabulary.size());
  if (token.id < 0 || token.id > highest) {
    return invalid_argument(name + " has the id " + std::to_string(token.id) +
                            "; for this vocabulary ids run from 0 to " + std::to_string(highest) +
                            " at most");
  }
  const auto known = vocabulary.find(token.content);
  if (known && *known != token.id) {
    return invalid_argument(name + " has the id " + std::to_string(token.id) +
                            ", but in the vocabulary the id " + std::to_string(*known));
  }
  if (!known && vocabulary.contains(token.id) && !vocabulary.piece(token.id).empty()) {
    return invalid_argument(name + " has the id " + std::to_string(token.id) +
                            ", which the vocabulary gives to " +
                            in_quotes(vocabulary.piece(token.id)));
  }
  token.spelling = token.content;
  if (token.normalized) {
    Allowance allowance(token.content.size(), kTokenLimits);
    TENON_ASSIGN_OR_RETURN(NormalizedText normalized, normalizer.apply(token.content, allowance));
    token.spelling = std::move(normalized.text);
  }
  return added.add(std::move(token));
}

uint32_t TokenizerParts::size() const {
  return std::max(vocabulary.size(), added.size());
}

std::string_view TokenizerParts::piece(TokenId id) const {
  if (const AddedToken* token = added.find(id)) return token->content;
  return vocabulary.contains(id) ? vocabulary.piece(id) : std::string_view();
}

std::optional<TokenId> TokenizerParts::find(std::string_view piece) const {
  if (const AddedToken* token = added.find(piece)) return token->id;
  return vocabulary.find(piece);
}

TokenText TokenizerParts::decodable(TokenId id) const {
  const AddedToken* token = added.find(id);
  if (token == nullptr) return {std::string(piece(id))};
  if (token->surface) return {.text = *token->surface, .is_final = true};
  // What was found in normalised text is given back as the pieces of such text are.
  const bool is_verbatim = token->spelling == token->content || token->spelling.empty();
  return {is_verbatim ? token->content : token->spelling, is_verbatim};
}

Status TokenizerParts::check_decoder() const {
  if (!decoder.can_fail()) return Status();
  for (uint32_t id = 0; id < size(); ++id) {
    for (const bool is_first : {false, true}) {
      TokenText token = decodable(static_cast<TokenId>(id));
      token.is_first = is_first;
      const Status status = decoder.apply(token);
      if (!status.ok()) return with_context("token " + std::to_string(id), status);
    }
  }
  return Status();
}

}  // namespace tenon::tok
