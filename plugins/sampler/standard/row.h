// One row of logits made ready for selection: cleaned, cut into blocks, each with its maximum.
//
// Whatever stages do to a row, what they keep is a range in one order: most likely first, lower id
// among equals. So a selection is two bounds, and a block whose maximum is below the range is never
// looked into. All sums run over fixed lanes and blocks in order: results depend on the row alone,
// not on the instruction set.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "plugins/sampler/standard/scan.h"

namespace tenon::standard {

struct Candidate {
  float logit = 0.0f;
  uint32_t id = 0;
  float weight = 0.0f;  // where `select` or `reach` was asked to weigh
};
// The order of selection: most likely first, lower id among equals.
inline bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Tokens from `first` to `last` in the order of selection, both counted. Bounds need not be tokens.
struct Range {
  Candidate first{std::numeric_limits<float>::max(), 0};
  Candidate last{std::numeric_limits<float>::lowest(), std::numeric_limits<uint32_t>::max()};

  bool has(const Candidate& token) const { return !before(token, first) && !before(last, token); }
};

// Tokens that are drawn from: a token's weight is exp((logit - highest logit) · scale).
struct Choice {
  Range range;
  float scale = 1.0f;
};

class Row {
 public:
  static constexpr float kNothing = -std::numeric_limits<float>::infinity();

  explicit Row(const ScanKernels& scans) : scans_(scans) {}

  // Copies a row: NaN becomes -inf, +inf the largest finite number, subnormal numbers 0.
  void load(const float* logits, uint32_t vocabulary);

  // Changes of single logits; `refresh` before anything is asked again. Ids beyond the vocabulary
  // and impossible tokens (-inf) stay as they are.
  void add(uint32_t id, float delta) { set(id, at(id) + delta); }
  void set(uint32_t id, float logit);
  void ban(uint32_t id);
  // Bans tokens: whose bit is 0, that are not listed (rising), that are outside a range.
  void mask(const uint64_t* allowed);
  void keep_only(std::span<const TokenId> listed);
  void keep_only(const Range& range);
  // Adds `delta` to every token for which `wanted(id)`.
  template <typename Wanted>
  void add_where(float delta, Wanted&& wanted) {
    // Whole blocks, so that the compiler can take several tokens at a time.
    for (uint32_t first = 0; first < values_.size(); first += kBlock) {
      float* values = values_.data() + first;
      for (uint32_t i = 0; i < kBlock; ++i) values[i] += wanted(first + i) ? delta : 0.0f;
    }
    clean_again();
  }
  void refresh();

  const ScanKernels& scans() const { return scans_; }
  bool empty() const;  // no finite logit is left
  uint32_t vocabulary() const { return vocabulary_; }
  float at(uint32_t id) const { return id < vocabulary_ ? values_[id] : kNothing; }
  // The highest logit of a range.
  float peak(const Range& range) const;
  // The most likely token, lowest id among equals.
  Candidate best() const;
  // 1 + the number of tokens with a higher logit.
  uint32_t rank(float logit) const;

  // The sum of weights; each block's part is kept for `draw` and `probabilities`.
  double weigh(const Choice& choice);
  // After `weigh` of the same choice: the token at which the running sum of weights, in order of
  // ids, passes `target`.
  uint32_t draw(const Choice& choice, double target) const;
  // After `weigh` likewise: probs[id] = weight / total. [vocabulary]
  void probabilities(const Choice& choice, double total, std::span<float> probs) const;
  double weight(const Choice& choice, uint32_t id) const;
  // Σ weight · (highest - logit) · scale.
  double spread(const Choice& choice) const;
  Moments moments(const Range& range) const;

  // The `count` first tokens of a range (fewer when it has fewer), unordered.
  void select(const Range& range, uint32_t count, std::vector<Candidate>& out) const;

  enum class Measure : uint8_t { weight, count };
  struct Goal {
    Measure measure = Measure::weight;
    double target = 0.0;
    bool beyond = false;  // the sum must exceed the target, not only reach it
  };
  // The token at which the running sum, in the order of selection, comes to its goal; the last of
  // the range where it never does. Sorts only what lies close to the answer.
  Candidate reach(const Choice& choice, const Goal& goal, std::vector<Candidate>& scratch);
  // The same in the order of distance from `centre`, nearest first: returns the distance.
  float reach_around(const Choice& choice, float centre, const Goal& goal,
                     std::vector<Candidate>& scratch);

  // Narrows a range to the tokens for whose logits `inside` holds, which lie side by side.
  template <typename Inside>
  void bounds(Range& range, Inside&& inside) const;

  // Calls function(segment, first block) for the parts of a choice; blocks in which only some
  // of the tokens equal to a bound count come one at a time, the others taken out.
  template <typename Function>
  void for_segments(const Choice& choice, Function&& function) const;

 private:
  void weigh_tokens(const Choice& choice, Measure measure);
  double weigh_candidates(const Choice& choice, Measure measure,
                          std::vector<Candidate>& candidates) const;
  uint32_t blocks() const { return static_cast<uint32_t>(block_max_.size()); }
  void touch(uint32_t block);
  void clean_again();
  void find_max();
  // Blocks [begin, end) of which all tokens equal to a bound count, or none.
  Segment segment(const Choice& choice, uint32_t begin, uint32_t end) const;
  // Whether some, but not all, of a block's tokens that equal a bound count.
  static bool mixed(const Range& range, uint32_t block);
  void block_weights(const Choice& choice, uint32_t block, float* weights) const;
  void only(const Range& range, uint32_t block, float* values) const;

  const ScanKernels& scans_;
  uint32_t vocabulary_ = 0;
  std::vector<float> values_;  // [blocks · kBlock], -inf after the vocabulary
  std::vector<float> block_max_;
  std::vector<uint8_t> stale_;     // [blocks] whether the maximum is
  std::vector<uint32_t> changed_;  // blocks whose maximum is stale
  std::vector<double> block_weight_;
  std::vector<float> token_weight_, keys_;  // of a search
  float max_ = kNothing;
};

template <typename Function>
void Row::for_segments(const Choice& choice, Function&& function) const {
  // Bounds lie in at most two blocks; between them everything is alike.
  uint32_t cuts[2] = {choice.range.first.id / kBlock, choice.range.last.id / kBlock};
  if (cuts[0] > cuts[1]) std::swap(cuts[0], cuts[1]);
  float values[kBlock];
  float highest = 0.0f;
  uint32_t begin = 0;
  const auto plain = [&](uint32_t end) {
    if (begin < end) function(segment(choice, begin, end), begin);
    begin = end;
  };
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t block = cuts[i];
    if (block >= blocks() || block < begin) continue;
    plain(block);
    if (!mixed(choice.range, block)) {
      plain(block + 1);
      continue;
    }
    only(choice.range, block, values);
    highest = block_max_[block];
    Segment part = segment(choice, block, block + 1);
    part.values = values;
    part.block_max = &highest;
    part.low = choice.range.last.logit;
    part.high = choice.range.first.logit;
    function(part, block);
    begin = block + 1;
  }
  plain(blocks());
}

template <typename Inside>
void Row::bounds(Range& range, Inside&& inside) const {
  Candidate highest{std::numeric_limits<float>::lowest(), 0};
  Candidate lowest{std::numeric_limits<float>::max(), 0};
  bool any = false;
  for (uint32_t id = 0; id < vocabulary_; ++id) {
    const Candidate token{values_[id], id};
    if (token.logit == kNothing || !range.has(token) || !inside(token.logit)) continue;
    if (!any || before(token, highest)) highest = token;
    if (!any || before(lowest, token)) lowest = token;
    any = true;
  }
  if (any) range = {highest, lowest};
}

}  // namespace tenon::standard
