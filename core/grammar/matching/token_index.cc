#include "core/grammar/matching/token_index.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/utf8.h"

namespace tenon::grammar {
namespace {

constexpr size_t kMostKept = 64;
// Fewer tokens than that are taken out one by one.
constexpr size_t kFewTokens = 256;

// A token, and its bytes from some byte on.
struct Followed {
  uint32_t next = 0;
  TokenId token = 0;
  auto operator<=>(const Followed&) const = default;
};

uint32_t kind_of(char byte) {
  return std::min<uint32_t>(static_cast<uint8_t>(byte), TokenIndex::kBeyond);
}

bool is_continuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xc0) == 0x80;
}

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
  std::array<std::vector<Followed>, 128> with;
  for (size_t id = 0; id < bytes.size(); ++id) {
    std::string_view text = bytes[id];
    if (text.empty() || text.starts_with(' ') != behind_space) continue;
    if (behind_space) text.remove_prefix(1);
    const auto token = static_cast<TokenId>(id);
    std::array<bool, 256> seen{};
    size_t characters = 0;
    if (!text.empty() && kind_of(text[0]) < kBeyond) beginning_[kind_of(text[0])].push_back(token);
    for (size_t i = 0; i < text.size(); ++i) {
      if (!is_continuation(text[i])) ++characters;
      const uint32_t kind = kind_of(text[i]);
      if (std::exchange(seen[kind], true)) continue;
      if (kind == kBeyond) {
        beyond_.push_back(token);
      } else {
        with[kind].push_back({i + 1 < text.size() ? kind_of(text[i + 1]) : kEnd, token});
      }
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
  const auto whole =
      std::stable_partition(broken_.begin(), broken_.end(), [&](const TokenId token) {
        const std::string& text = bytes[static_cast<size_t>(token)];
        return is_continuation(text[behind_space ? 1 : 0]);
      });
  broken_starts_ = static_cast<size_t>(whole - broken_.begin());
  for (size_t byte = 0; byte < with_.size(); ++byte) {
    std::sort(with[byte].begin(), with[byte].end());
    for (const Followed& followed : with[byte]) {
      with_[byte].push_back(followed.token);
      ++next_begins_[byte][followed.next + 1];
    }
    std::partial_sum(next_begins_[byte].begin(), next_begins_[byte].end(),
                     next_begins_[byte].begin());
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
