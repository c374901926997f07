// The tokens of a vocabulary by the characters that they have, in whatever order: which consist of
// nothing but some characters, and which have a given one. Shared by all grammars.
//
// Half of a vocabulary are words with a space in front. They have an index of their own, of what
// comes after the space, so that a space within a token is as rare as it looks.
#pragma once

#include <tenon/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/grammar/automaton/ascii_set.h"

namespace tenon::grammar {

class TokenIndex {
 public:
  // Longer tokens are in a list of their own.
  static constexpr uint32_t kMostCharacters = 16;
  using Bits = std::vector<uint64_t>;  // one a token, low bits first

  // `bytes[id]` as in Vocabulary::make(). Of the tokens with a space in front what follows it,
  // which may be nothing; or of all others the whole.
  TokenIndex(const std::vector<std::string>& bytes, bool behind_space);

  // Tokens that have this byte of ASCII.
  std::span<const TokenId> with(uint8_t byte) const { return with_[byte]; }
  // … and after where it comes first this byte, or kBeyond for any beyond ASCII, or kEnd.
  static constexpr uint32_t kBeyond = 128, kEnd = 129;
  std::span<const TokenId> with(uint8_t byte, uint32_t next) const {
    const uint32_t* begin = &next_begins_[byte][next];
    return std::span(with_[byte]).subspan(begin[0], begin[1] - begin[0]);
  }
  // Tokens that begin with this byte of ASCII.
  std::span<const TokenId> beginning(uint8_t byte) const { return beginning_[byte]; }
  // Tokens that have a byte beyond ASCII.
  std::span<const TokenId> beyond_ascii() const { return beyond_; }
  // Tokens that begin or end within a character, or are no UTF-8.
  std::span<const TokenId> broken() const { return broken_; }
  // … of these, those that begin with a whole character or the beginning of one.
  std::span<const TokenId> broken_behind_whole() const {
    return std::span(broken_).subspan(broken_starts_);
  }
  // Tokens of more than kMostCharacters.
  std::span<const TokenId> long_ones() const { return long_; }

  // Of whole characters, at most kMostCharacters, all of them in `set`; `others` stands for all
  // beyond ASCII. Kept for who asks again. [any thread]
  std::shared_ptr<const Bits> within(const AsciiSet& set) const;
  // Of at most so many characters, which are at most kMostCharacters.
  const Bits& at_most(uint32_t characters) const { return at_most_[characters]; }

 private:
  struct Kept {
    AsciiSet set;
    std::shared_ptr<const Bits> bits;
  };
  Bits find_within(const AsciiSet& set) const;

  size_t words_ = 0;
  std::array<std::vector<TokenId>, 128> with_;                     // by what follows
  std::array<std::array<uint32_t, kEnd + 2>, 128> next_begins_{};  // in with_, and one more
  std::array<std::vector<TokenId>, 128> beginning_;
  std::array<Bits, 128> has_;  // as `with`; empty where few do
  std::vector<TokenId> beyond_, broken_, long_;
  size_t broken_starts_ = 0;  // so many of broken_ begin within a character, and stand first
  Bits has_beyond_;
  std::array<Bits, kMostCharacters + 1> at_most_;  // of whole characters
  mutable std::mutex mutex_;
  mutable std::vector<Kept> kept_;  // the newest last
};

}  // namespace tenon::grammar
