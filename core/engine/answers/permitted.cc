#include "core/engine/answers/permitted.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/grammar/matcher.h"

namespace tenon {
namespace {

void set_bit(TokenBits& bits, TokenId token, bool value) {
  const auto id = static_cast<uint32_t>(token);
  if (token < 0 || id / 64 >= bits.size()) return;
  const uint64_t bit = uint64_t{1} << (id % 64);
  bits[id / 64] = value ? bits[id / 64] | bit : bits[id / 64] & ~bit;
}

TokenBits all_tokens(uint32_t vocabulary) {
  TokenBits bits((uint64_t{vocabulary} + 63) / 64, ~uint64_t{0});
  if (vocabulary % 64 != 0) bits.back() = (uint64_t{1} << (vocabulary % 64)) - 1;
  return bits;
}

// The settings that take part in a ban, the one to blame first.
std::vector<std::string> banning_settings(const Request& request, bool may_end) {
  std::vector<std::string> names;
  if (!request.lists.allowed_tokens.empty()) names.emplace_back("allowed_tokens");
  if (!request.lists.bad_words.empty()) names.emplace_back("bad_words");
  if (!may_end) names.emplace_back("min_tokens");
  if (request.grammar != nullptr) names.emplace_back("the answer's form");
  return names;
}

}  // namespace

bool is_empty(std::span<const uint64_t> bits) {
  return std::all_of(bits.begin(), bits.end(), [](uint64_t word) { return word == 0; });
}

TokenBits all_but(std::span<const TokenId> tokens, uint32_t vocabulary) {
  TokenBits bits = all_tokens(vocabulary);
  for (const TokenId token : tokens) set_bit(bits, token, false);
  return bits;
}

TokenBits permitted_tokens(const SamplingLists& lists, std::span<const TokenId> history,
                           uint32_t vocabulary) {
  TokenBits bits = all_tokens(vocabulary);
  if (!lists.allowed_tokens.empty()) {
    bits.assign(bits.size(), 0);
    for (const TokenId token : lists.allowed_tokens) set_bit(bits, token, true);
  }
  for (const std::span<const TokenId> word : lists.bad_words) {
    const size_t lead = word.size() - 1;
    if (lead > history.size()) continue;
    const std::span<const TokenId> tail = history.last(lead);
    if (std::equal(tail.begin(), tail.end(), word.begin())) set_bit(bits, word.back(), false);
  }
  return bits;
}

std::vector<TokenId> ending_tokens_of(const Request& request, std::span<const TokenId> eos_tokens) {
  std::vector<TokenId> ending = request.stop_tokens;
  if (!request.ignore_eos) ending.insert(ending.end(), eos_tokens.begin(), eos_tokens.end());
  std::sort(ending.begin(), ending.end());
  return ending;
}

Status fill_allowed(grammar::Matcher& matcher, const EndRules& rules, std::span<uint64_t> mask) {
  TENON_RETURN_IF_ERROR(matcher.fill_mask(mask));
  if (rules.may_end || rules.not_ending.empty()) return {};
  bool may_go_on = false;
  for (size_t i = 0; i < mask.size(); ++i) {
    const uint64_t permitted = rules.permitted.empty() ? ~uint64_t{0} : rules.permitted[i];
    may_go_on = may_go_on || (mask[i] & rules.not_ending[i] & permitted) != 0;
  }
  if (!may_go_on && matcher.accepts()) return {};
  for (size_t i = 0; i < mask.size(); ++i) mask[i] &= rules.not_ending[i];
  return {};
}

std::string form_dead_end(grammar::Matcher& matcher, uint32_t position, std::span<uint64_t> mask) {
  const std::string what =
      "the grammar allows no token at position " + std::to_string(position) + " – ";
  if (matcher.fill_mask(mask).ok() && !is_empty(mask)) {
    return what +
           "only stop tokens may follow there, and min_tokens bans them – lower min_tokens, or "
           "leave those stop tokens out";
  }
  return what +
         "the text so far needs bytes that no token of this vocabulary has – use a grammar without "
         "such characters";
}

std::string nothing_left(const Request& request, bool may_end, uint32_t position) {
  const std::vector<std::string> names = banning_settings(request, may_end);
  return "the request leaves no token to draw at position " + std::to_string(position) + ": " +
         join(names, " and ") + (names.size() > 1 ? " together ban" : " bans") +
         " them all – one must be left – allow more tokens, or ban fewer";
}

std::optional<RequestFault> first_token_fault(const Request& request,
                                              std::span<const TokenId> eos_tokens,
                                              uint32_t vocabulary, std::span<const uint64_t> form) {
  TokenBits left = permitted_tokens(request.lists, request.prompt, vocabulary);
  const bool may_end = request.min_tokens == 0;
  if (!form.empty()) {
    for (size_t i = 0; i < left.size(); ++i) left[i] &= form[i];
  } else if (!may_end) {
    const TokenBits others = all_but(ending_tokens_of(request, eos_tokens), vocabulary);
    for (size_t i = 0; i < left.size(); ++i) left[i] &= others[i];
  }
  if (!is_empty(left)) return std::nullopt;
  const auto position = static_cast<uint32_t>(request.prompt.size());
  std::string_view blamed = "grammar";
  if (!may_end) blamed = "min_tokens";
  if (!request.lists.bad_words.empty()) blamed = "bad_words";
  if (!request.lists.allowed_tokens.empty()) blamed = "allowed_tokens";
  return RequestFault{blamed, nothing_left(request, may_end, position)};
}

}  // namespace tenon
