#include "core/tokenizer/models/bpe_merge.h"

#include <algorithm>
#include <array>
#include <optional>
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

// The pair that was last seen to form each unused symbol.
using Parts = std::unordered_map<Symbol, std::pair<Symbol, Symbol>>;

class LongWord {
 public:
  LongWord(const PairTable& rules, std::vector<Symbol>& symbols,
           const std::vector<bool>* is_unused = nullptr)
      : rules_(rules),
        symbols_(symbols),
        is_unused_(is_unused),
        next_(symbols.size()),
        previous_(symbols.size()) {
    const auto count = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < count; ++i) {
      next_[index(i)] = i + 1 < count ? i + 1 : -1;
      previous_[index(i)] = i - 1;
    }
  }

  void merge() {
    std::vector<Candidate> all;
    all.reserve(symbols_.size());
    for (int32_t i = 0; i >= 0; i = next_[index(i)]) {
      if (const auto candidate = at(i)) all.push_back(*candidate);
    }
    queue_ = Queue({}, std::move(all));
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      if (is_current(top)) apply(top);
    }
    std::erase(symbols_, kMerged);
  }
  const Parts& parts() const { return parts_; }

 private:
  static constexpr Symbol kMerged = -1;
  using Queue = std::priority_queue<Candidate>;
  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  // The pair that starts at symbol `i`, if it merges.
  std::optional<Candidate> at(int32_t i) {
    const int32_t next = next_[index(i)];
    if (next < 0) return std::nullopt;
    const Symbol left = symbols_[index(i)];
    const Symbol right = symbols_[index(next)];
    const MergeRule* rule = rules_.find(left, right);
    if (rule == nullptr) return std::nullopt;
    if (is_unused_ != nullptr && (*is_unused_)[static_cast<size_t>(rule->result)]) {
      parts_[rule->result] = {left, right};
    }
    return Candidate{rule->rank, i, left, right, rule->result};
  }

  void add(int32_t i) {
    if (const auto candidate = at(i)) queue_.push(*candidate);
  }

  bool is_current(const Candidate& candidate) const {
    const int32_t next = next_[index(candidate.at)];
    return symbols_[index(candidate.at)] == candidate.left && next >= 0 &&
           symbols_[index(next)] == candidate.right;
  }

  void apply(const Candidate& candidate) {
    const int32_t left = candidate.at;
    const int32_t merged = next_[index(left)];
    symbols_[index(left)] = candidate.result;
    symbols_[index(merged)] = kMerged;
    const int32_t next = next_[index(merged)];
    next_[index(left)] = next;
    if (next >= 0) previous_[index(next)] = left;
    if (previous_[index(left)] >= 0) add(previous_[index(left)]);
    add(left);
  }

  const PairTable& rules_;
  std::vector<Symbol>& symbols_;
  const std::vector<bool>* is_unused_;
  Parts parts_;
  std::vector<int32_t> next_;
  std::vector<int32_t> previous_;
  Queue queue_;
};

// Parts are shorter than what they form, so this ends.
void append_parts(Symbol symbol, const Parts& parts, std::vector<Symbol>& out) {
  const auto found = parts.find(symbol);
  if (found == parts.end()) {
    out.push_back(symbol);
    return;
  }
  append_parts(found->second.first, parts, out);
  append_parts(found->second.second, parts, out);
}

}  // namespace

void merge_symbols(const PairTable& rules, const std::vector<bool>& is_unused,
                   std::vector<Symbol>& symbols) {
  LongWord word(rules, symbols, &is_unused);
  word.merge();
  if (word.parts().empty()) return;
  std::vector<Symbol> out;
  for (const Symbol symbol : symbols) append_parts(symbol, word.parts(), out);
  symbols = std::move(out);
}

void merge_symbols(const PairTable& rules, std::vector<Symbol>& symbols) {
  if (symbols.size() <= kShortWord) {
    merge_short(rules, symbols);
  } else {
    LongWord(rules, symbols).merge();
  }
}

}  // namespace tenon::tok
