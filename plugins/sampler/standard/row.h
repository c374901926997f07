// One row of logits made ready for selection: cleaned, cut into blocks, each with its maximum.
//
// Blocks make selection cheap: a block whose maximum is below a threshold is never looked into. All
// sums run over fixed lanes and blocks in order, so results depend on the row alone.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::standard {

inline constexpr uint32_t kBlock = 64;  // logits a block; one word of an allowed-token mask

struct Candidate {
  float logit;
  uint32_t id;
  float weight = 0.0f;  // exp((logit - max) · scale), where `weigh` was called
};
// The order of selection: most likely first, lower id among equals.
inline bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

class Row {
 public:
  // Copies a row: NaN becomes -inf, +inf the largest finite number.
  void load(const float* logits, uint32_t vocabulary);
  // Takes out tokens whose bit is 0.
  void mask(const uint64_t* allowed);

  bool empty() const;  // no finite logit is left
  float max() const { return max_; }
  float logit(uint32_t id) const { return values_[id]; }
  // The most likely token, lowest id among equals.
  uint32_t best() const;

  // Σ exp((logit - max) · scale) over all tokens up to and including `last` in the order of
  // selection; keeps each block's part for `draw`.
  double weigh(const Candidate& last, float scale);
  // The token at which the running sum of weights, in order of ids, passes `target`. Behind
  // `weigh` with the same arguments.
  uint32_t draw(const Candidate& last, float scale, double target) const;

  // probs[id] = weight / total, 0 for tokens behind `last`. Behind `weigh` likewise.
  void probabilities(const Candidate& last, float scale, double total,
                     std::span<float> probs) const;
  // 1 + the number of tokens with a higher logit.
  uint32_t rank(uint32_t id) const;

  // The `count` first tokens in the order of selection (fewer when fewer are finite), unordered.
  void select(uint32_t count, std::vector<Candidate>& out) const;

 private:
  uint32_t blocks() const { return static_cast<uint32_t>(block_max_.size()); }
  void find_max();
  // Weights of one block's tokens, 0 for those behind `last`.
  void block_weights(uint32_t block, const Candidate& last, float scale, float* weights) const;

  std::vector<float> values_;  // [blocks · kBlock], -inf behind the vocabulary
  std::vector<float> block_max_;
  std::vector<double> block_weight_;
  float max_ = 0.0f;
};

// The most likely token of a row as it is, lowest id among equals; NaN never wins. False: no finite
// logit.
bool best_of(const float* logits, uint32_t vocabulary, uint32_t& best);

// exp for weights: x <= 0; relative error below 3e-7; 0 below -87. Same bits everywhere.
void exp_block(const float* x, float* out);  // [kBlock]

// Fills the candidates' weights, as in Row::weigh, and returns their sum.
double weigh(std::vector<Candidate>& candidates, float max, float scale);
// Of weighed candidates, in the order of selection, the shortest beginning whose weights reach
// `target`: returns its last one. Reorders the candidates, of which there is at least one.
Candidate reach(std::vector<Candidate>& candidates, double target);

}  // namespace tenon::standard
