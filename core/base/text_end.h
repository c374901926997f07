// The tokens that end a text, and which of a model's files say so.
#pragma once

#include <tenon/types.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace tenon {

struct TextEnd {
  TokenId token = kNoToken;
  std::vector<std::string> named_by;  // "config.json", "tokenizer.ggml.eot_token_id"
};

// Each token stands once, in the order in which they were named.
inline void add_text_end(std::vector<TextEnd>& ends, TokenId token, const std::string& named_by) {
  auto known = std::ranges::find(ends, token, &TextEnd::token);
  if (known == ends.end()) known = ends.insert(ends.end(), {token, {}});
  if (std::ranges::find(known->named_by, named_by) == known->named_by.end()) {
    known->named_by.push_back(named_by);
  }
}

inline std::vector<TokenId> end_tokens(std::span<const TextEnd> ends) {
  std::vector<TokenId> tokens;
  for (const TextEnd& end : ends) tokens.push_back(end.token);
  return tokens;
}

}  // namespace tenon
