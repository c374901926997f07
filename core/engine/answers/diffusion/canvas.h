// An answer that is made by diffusion (LLaDA, arXiv:2502.09992): it begins as masks, and step by
// step they become tokens, those of one block after the other.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/requests/request.h"

namespace tenon {

// How long an answer is, and how it is made; all numbers resolved.
struct DiffusionPlan {
  uint32_t answer = 0;        // tokens
  uint32_t block_length = 0;  // of which so many are made at a time; a divisor of `answer`
  uint32_t steps = 0;         // that a block takes
  Remasking remasking = Remasking::low_confidence;
};
// What a request comes to where an answer may have `room` tokens. Numbers that do not divide each
// other are for request_check.h to refuse.
DiffusionPlan plan_diffusion(const Request& request, uint32_t room);

// Of the candidates the `count` with the highest confidence, rising; of equals the first ones.
std::vector<uint32_t> most_confident(std::span<const double> confidence, uint32_t count);

class Canvas {
 public:
  // What a position was drawn with when it became a token.
  struct Kept {
    float logprob = 0.0f;
    uint32_t rank = 0;
    std::vector<TokenLogprob> top;
  };

  // `first` is the answer's first position.
  Canvas(const DiffusionPlan& plan, uint32_t first, TokenId mask, uint64_t seed);

  // Whether the step at hand looks at what belongs in this place of `tokens`.
  bool wants(std::span<const TokenId> tokens, uint32_t position) const {
    return position >= first_ && position < block_end() && tokens[position] == mask_;
  }
  // How many masks the step at hand turns into tokens.
  uint32_t count() const;
  // Where the step's randomness starts: each draws anew.
  uint64_t seed() const;
  // A number in [0, 1) of a position, for Remasking::random.
  double chance(uint32_t position) const;

  void keep(uint32_t position, Kept kept);
  void end_step();
  bool done() const { return block_ == plan_.answer / plan_.block_length; }

  // Whether the next token to deliver will never change: none does that is no mask.
  bool next_is_final(std::span<const TokenId> tokens) const;
  const Kept& deliver() { return kept_[delivered_++]; }

  const DiffusionPlan& plan() const { return plan_; }
  uint32_t delivered() const { return delivered_; }
  uint32_t revealed() const { return revealed_; }  // positions that were turned into tokens

 private:
  uint32_t block_end() const { return first_ + (block_ + 1) * plan_.block_length; }

  DiffusionPlan plan_;
  uint32_t first_;
  TokenId mask_;
  uint64_t seed_;
  uint32_t block_ = 0;
  uint32_t step_ = 0;    // of the block
  uint32_t passes_ = 0;  // steps of all blocks before this one
  uint32_t revealed_ = 0;
  uint32_t delivered_ = 0;
  std::vector<Kept> kept_;  // [answer]
};

}  // namespace tenon
