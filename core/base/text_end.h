// The tokens that end a text, and which of a model's files say so.
#pragma once

#include <tenon/types.h>

#include <span>
#include <string>
#include <vector>

namespace tenon {

struct TextEnd {
  TokenId token = kNoToken;
  std::vector<std::string> named_by;  // "config.json", "tokenizer.ggml.eot_token_id"
};

// Each token stands once, in the order in which they were named.
void add_text_end(std::vector<TextEnd>& ends, TokenId token, const std::string& named_by);

std::vector<TokenId> end_tokens(std::span<const TextEnd> ends);

}  // namespace tenon
