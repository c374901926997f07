// Which tokens a request itself leaves to be drawn, whatever the model says of them.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/engine/requests/request.h"
#include "core/engine/requests/request_fault.h"

namespace tenon {

namespace grammar {
class Matcher;
}

// One bit a token, low bits first: [ceil(vocabulary/64)].
using TokenBits = std::vector<uint64_t>;

bool is_empty(std::span<const uint64_t> bits);
TokenBits all_but(std::span<const TokenId> tokens, uint32_t vocabulary);
// What allowed_tokens and bad_words leave after `history`, which is every token known so far. Ids
// are those of the vocabulary. Without a history, only words of one token are banned.
TokenBits permitted_tokens(const SamplingLists& lists, std::span<const TokenId> history,
                           uint32_t vocabulary);
// Sorted: end of text, unless it is ignored, and the request's stop tokens.
std::vector<TokenId> ending_tokens_of(const Request& request, std::span<const TokenId> eos_tokens);

// What the bits of a grammar's mask are made with.
struct EndRules {
  bool may_end = true;                       // the answer has its min_tokens
  std::span<const uint64_t> not_ending;      // all but the ending tokens; empty = none is held back
  std::span<const uint64_t> permitted = {};  // by the request's lists; empty = all
};
// What may come next by the grammar and by min_tokens, into `mask` of [ceil(vocabulary/64)]. Where
// the answer is whole and nothing else may follow, its end may, whatever min_tokens says. Error:
// the grammar's.
Status fill_allowed(grammar::Matcher& matcher, const EndRules& rules, std::span<uint64_t> mask);

// Why the form leaves nothing at `position`; `mask` is overwritten.
std::string form_dead_end(grammar::Matcher& matcher, uint32_t position, std::span<uint64_t> mask);
// Why nothing can be drawn at `position`: the settings that ban what is left, and what to do.
std::string nothing_left(const Request& request, bool may_end, uint32_t position);
// The request's own settings ban everything that its answer could begin with. `form`: the first
// mask of its grammar; empty = it has none.
std::optional<RequestFault> first_token_fault(const Request& request,
                                              std::span<const TokenId> eos_tokens,
                                              uint32_t vocabulary,
                                              std::span<const uint64_t> form = {});

}  // namespace tenon
