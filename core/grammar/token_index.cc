#include "core/grammar/token_index.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"

namespace tenon::grammar {
namespace {

constexpr size_t kMostKept = 64;
// Fewer tokens than that are taken out one by one.
constexpr size_t kFewTokens = 256;

void set_token(TokenIndex::Bits& bits, TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  bits[id / 64] |= uint64_t{1} << (id % 64);
}

void take_out(TokenIndex::Bits& bits, const TokenIndex::Bits& others) {
  for (size_t word = 0; word < bits.size(); ++word) bits[word] &= ~others[word];
}

}  // namespace

TokenIndex::TokenIndex(const std::vector<std::string>& bytes, bool behind_space)
    : words_((bytes.size() + 63) / 64), has_beyond_(words_, 0) {
  for (Bits& bits : at_most_) bits.assign(words_, 0);
  for (size_t id = 0; id < bytes.size(); ++id) {
    std::string_view text = bytes[id];
    if (text.empty() || text.starts_with(' ') != behind_space) continue;
    if (behind_space) text.remove_prefix(1);
    const auto token = static_cast<TokenId>(id);
    std::array<bool, 256> seen{};
    size_t characters = 0;
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      if ((byte & 0xc0) != 0x80) ++characters;
      const uint8_t kind = std::min<uint8_t>(byte, 128);
      if (std::exchange(seen[kind], true)) continue;
      (kind < 128 ? with_[kind] : beyond_).push_back(token);
    }
    if (seen[128]) set_token(has_beyond_, token);
    const bool is_broken = !is_utf8(text);
    if (is_broken) broken_.push_back(token);
    if (characters > kMostCharacters) long_.push_back(token);
    if (is_broken || characters > kMostCharacters) continue;
    for (size_t most = characters; most <= kMostCharacters; ++most) {
      set_token(at_most_[most], token);
    }
  }
  for (size_t byte = 0; byte < with_.size(); ++byte) {
    if (with_[byte].size() <= kFewTokens) continue;
    has_[byte].assign(words_, 0);
    for (const TokenId token : with_[byte]) set_token(has_[byte], token);
  }
}

std::shared_ptr<const TokenIndex::Bits> TokenIndex::within(const AsciiSet& set) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.set == set; });
  if (found != kept_.end()) {
    std::rotate(found, found + 1, kept_.end());
    return kept_.back().bits;
  }
  if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
  kept_.push_back({set, std::make_shared<const Bits>(find_within(set))});
  return kept_.back().bits;
}

TokenIndex::Bits TokenIndex::find_within(const AsciiSet& set) const {
  Bits bits = at_most_[kMostCharacters];
  if (!set.others) take_out(bits, has_beyond_);
  for (uint8_t byte = 0; byte < 128; ++byte) {
    if (set.has(byte)) continue;
    if (!has_[byte].empty()) {
      take_out(bits, has_[byte]);
      continue;
    }
    for (const TokenId token : with_[byte]) {
      const auto id = static_cast<uint32_t>(token);
      bits[id / 64] &= ~(uint64_t{1} << (id % 64));
    }
  }
  return bits;
}

}  // namespace tenon::grammar
