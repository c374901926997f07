// Where each n-gram of a growing text stands, for a few lengths n.
//
// An n-gram's place is the position after it; the one at the very end of the text, after which
// nothing stands yet, is not in the index. A table of a length keeps one place an n-gram, in open
// addressing; n-grams are compared in the text itself, so equal hashes do no harm.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::ngram {

enum class Match : int64_t { earliest = 0, latest = 1 };

class NgramIndex {
 public:
  NgramIndex(uint32_t min_ngram, uint32_t max_ngram, Match match);

  // Takes in what is new in `history`; each token costs one entry a length.
  void extend(std::span<const TokenId> history);

  // The place after an earlier occurrence of the longest n-gram that ends `history`; 0 = none.
  uint32_t find(std::span<const TokenId> history) const;

  // What follows that place. A match that runs into the end of the text goes on with its own
  // tokens: a text that repeats itself goes on repeating.
  uint32_t propose(std::span<const TokenId> history, std::span<TokenId> out) const;

 private:
  struct Table {
    uint32_t length = 0;
    uint32_t used = 0;
    std::vector<uint32_t> places;  // a power of two; 0 = free
  };

  // The slot of the n-gram that ends at `end`: its own, or the free one where it would stand.
  static uint32_t slot_of(const Table& table, std::span<const TokenId> text, uint32_t end);
  void add(Table& table, std::span<const TokenId> text, uint32_t end);
  static void enlarge(Table& table, std::span<const TokenId> text);

  std::vector<Table> tables_;  // longest n-grams first
  Match match_;
  uint32_t indexed_ = 0;  // n-grams that end here or before are in the tables
};

}  // namespace tenon::ngram
