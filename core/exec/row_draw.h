// Drawing a token where its logits are: what an executor has to know of a row to draw from it what
// the sampler would, so that the logits need not leave the device. docs/strategies/samplers.md
// ("Drawn elsewhere") defines the draw to the bit.
#pragma once

#include <tenon/sampler.h>

#include <cstdint>

namespace tenon {

enum class CutKind : uint8_t {
  top_k,  // number: how many stay
  top_p,  // number: the probability that stays
  min_p,  // number: what a logit is away from the highest at most, negative
};
struct RowCut {
  CutKind kind = CutKind::top_k;
  float scale = 1.0f;  // of logits, while this is cut
  double number = 0.0;
};
inline constexpr uint32_t kMostCuts = 3;  // each kind once

struct RowDraw {
  uint32_t logits_row = 0;  // among BatchView::logits_rows; rising from draw to draw
  bool greedy = false;      // the highest logit, lowest id among equals; nothing below counts
  float scale = 1.0f;       // of logits, in the draw
  RandomKey key;            // of the random number, whose purpose is `sample`
  uint32_t cut_count = 0;
  RowCut cuts[kMostCuts];  // in the order in which they count
};

}  // namespace tenon
