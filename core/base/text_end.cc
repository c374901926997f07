#include "core/base/text_end.h"

#include <algorithm>

namespace tenon {

void add_text_end(std::vector<TextEnd>& ends, TokenId token, const std::string& named_by) {
  auto known = std::ranges::find(ends, token, &TextEnd::token);
  if (known == ends.end()) known = ends.insert(ends.end(), {token, {}});
  if (std::ranges::find(known->named_by, named_by) == known->named_by.end()) {
    known->named_by.push_back(named_by);
  }
}

std::vector<TokenId> end_tokens(std::span<const TextEnd> ends) {
  std::vector<TokenId> tokens;
  for (const TextEnd& end : ends) tokens.push_back(end.token);
  return tokens;
}

}  // namespace tenon
