// A model small enough to be right by inspection, and unforgiving: each row's logits depend on
// every K/V entry that the row may see, so one wrong block, copy or rollback changes what is
// generated.
//
// The K/V entry of a token is a hash of its id and position. A row's state chains, group by group,
// the entries of positions first … p, where `first` is 0 or, with a window, p - window + 1, and
// then, where there is a recurrent group, the state that chains all entries so far. Logit v of the
// row is a number in [-8, 8) hashed from (state, v); its hidden states are hashes of the state too.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

struct ToyModel {
  uint32_t vocabulary = 61;
  uint32_t window_tokens = 0;  // 0 = unlimited
  // One row in so many has its logits in reverse order: a model that mostly agrees. 0 = none.
  uint32_t contrary_every = 0;
  std::optional<uint32_t> second_window = {};  // of a second group
  bool recurrent = false;                      // a group of states, the last
  // Of a manager that evicts: of groups without a window, rows see so many first tokens, and after
  // them all but as many strides as leave at least `kept_tokens`. 0 = all.
  uint32_t sink_tokens = 0;
  uint32_t kept_tokens = 0;
  uint32_t stride_tokens = 0;
  bool attends = true;  // false: there is the group of states alone

  static constexpr uint32_t kHidden = 4;  // width of its hidden states
  static constexpr uint32_t kLayers = 2;

  static uint64_t entry(TokenId token, uint32_t position);
  static uint64_t chain(uint64_t state, uint64_t entry);
  void logits(uint64_t state, float* out) const;  // [vocabulary]
  // After layer 0 … kLayers.
  static void hidden(uint64_t state, uint32_t layer, float* out);  // [kHidden]

  // The row after `history`, without any cache.
  uint64_t state_behind(std::span<const TokenId> history) const;
  std::vector<float> next_logits(std::span<const TokenId> history) const;
};

}  // namespace tenon
