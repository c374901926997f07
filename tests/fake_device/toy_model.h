// A model small enough to be right by inspection, and unforgiving: each row's logits depend on
// every K/V entry that the row may see, so one wrong block, copy or rollback changes what is
// generated.
//
// The K/V entry of a token is a hash of its id and position. A row's state chains the entries of
// positions first … p, where `first` is 0 or, with a window, p - window + 1. Logit v of the row is
// a number in [-8, 8) hashed from (state, v).
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

struct ToyModel {
  uint32_t vocabulary = 61;
  uint32_t window_tokens = 0;  // 0 = unlimited
  // One row in so many has its logits in reverse order: a model that mostly agrees. 0 = none.
  uint32_t contrary_every = 0;

  static uint64_t entry(TokenId token, uint32_t position);
  uint32_t first_visible(uint32_t position) const {
    return window_tokens == 0 || position < window_tokens ? 0 : position - window_tokens + 1;
  }
  static uint64_t chain(uint64_t state, uint64_t entry);
  void logits(uint64_t state, float* out) const;  // [vocabulary]

  // The row behind `history`, without any cache.
  std::vector<float> next_logits(std::span<const TokenId> history) const;
};

}  // namespace tenon
