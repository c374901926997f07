#include "core/tokenizer/bpe_merge.h"

#include <algorithm>
#include <array>
#include <queue>

namespace tenon::tok {
namespace {

// Below this many symbols scanning all ranks for each merge beats a queue; most words have fewer.
constexpr size_t kShortWord = 32;
constexpr uint32_t kNoRank = ~uint32_t{0};

// The rank and the result of the pair that starts at each symbol.
struct PairRow {
  std::array<uint32_t, kShortWord> rank;
  std::array<Symbol, kShortWord> result;

  void look_up(const PairTable& rules, const std::vector<Symbol>& symbols, size_t at) {
    const MergeRule* rule =
        at + 1 < symbols.size() ? rules.find(symbols[at], symbols[at + 1]) : nullptr;
    rank[at] = rule != nullptr ? rule->rank : kNoRank;
    result[at] = rule != nullptr ? rule->result : 0;
  }
  void erase(size_t at, size_t count) {
    std::copy(rank.begin() + at + 1, rank.begin() + count, rank.begin() + at);
    std::copy(result.begin() + at + 1, result.begin() + count, result.begin() + at);
  }
};

void merge_short(const PairTable& rules, std::vector<Symbol>& symbols) {
  PairRow row;
  for (size_t i = 0; i < symbols.size(); ++i) row.look_up(rules, symbols, i);
  while (symbols.size() > 1) {
    const auto ranks_end = row.rank.begin() + static_cast<ptrdiff_t>(symbols.size());
    const auto best = std::min_element(row.rank.begin(), ranks_end);
    if (*best == kNoRank) return;
    const auto at = static_cast<size_t>(best - row.rank.begin());
    symbols[at] = row.result[at];
    row.erase(at + 1, symbols.size());
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
    row.look_up(rules, symbols, at);
    if (at > 0) row.look_up(rules, symbols, at - 1);
  }
}

// A pair as it was seen; it is stale once either symbol has changed.
struct Candidate {
  uint32_t rank;
  int32_t at;
  Symbol left;
  Symbol right;
  Symbol result;
  // The queue's top is the greatest: the lowest rank, then the leftmost.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

class LongWord {
 public:
  LongWord(const PairTable& rules, std::vector<Symbol>& symbols)
      : rules_(rules), symbols_(symbols), next_(symbols.size()), previous_(symbols.size()) {
    const auto count = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < count; ++i) {
      next_[index(i)] = i + 1 < count ? i + 1 : -1;
      previous_[index(i)] = i - 1;
    }
  }

  void merge() {
    for (int32_t i = 0; i >= 0; i = next_[index(i)]) add(i);
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      if (is_current(top)) apply(top);
    }
    std::erase(symbols_, kMerged);
  }

 private:
  static constexpr Symbol kMerged = -1;
  static size_t index(int32_t at) { return static_cast<size_t>(at); }

  void add(int32_t at) {
    const int32_t next = next_[index(at)];
    if (next < 0) return;
    const Symbol left = symbols_[index(at)];
    const Symbol right = symbols_[index(next)];
    if (const MergeRule* rule = rules_.find(left, right)) {
      queue_.push({rule->rank, at, left, right, rule->result});
    }
  }

  bool is_current(const Candidate& candidate) const {
    const int32_t next = next_[index(candidate.at)];
    return symbols_[index(candidate.at)] == candidate.left && next >= 0 &&
           symbols_[index(next)] == candidate.right;
  }

  void apply(const Candidate& candidate) {
    const int32_t at = candidate.at;
    const int32_t merged = next_[index(at)];
    symbols_[index(at)] = candidate.result;
    symbols_[index(merged)] = kMerged;
    const int32_t next = next_[index(merged)];
    next_[index(at)] = next;
    if (next >= 0) previous_[index(next)] = at;
    if (previous_[index(at)] >= 0) add(previous_[index(at)]);
    add(at);
  }

  const PairTable& rules_;
  std::vector<Symbol>& symbols_;
  std::vector<int32_t> next_;
  std::vector<int32_t> previous_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void merge_symbols(const PairTable& rules, std::vector<Symbol>& symbols) {
  if (symbols.size() <= kShortWord) {
    merge_short(rules, symbols);
  } else {
    LongWord(rules, symbols).merge();
  }
}

}  // namespace tenon::tok
