// Several residual streams, of which a layer computes one, and a residual path of low rank.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/blocks/norm.h"
#include "core/model/blocks/weight.h"

namespace tenon {

// Alternating updates (AltUp, arXiv:2301.13310). A row has `count` streams s; a layer runs on one
// of them, `active`, and predicts the others. With x a row of the active stream,
//
//   m(x) = tanh(router(norm(x)) / hidden)           [count]
//   before the layer   s_j += Σ_i P[j][i] · s_i     P = prediction · m(s_active)  [count, count]
//   after its halves   s_j += c_j · (y - s_active)  c = correction · m(y) + 1     [count]
//
// with y what the layer made of the active stream. Before the first layer, stream 0 is the
// embedding x and the others are in_j · x; after the last, what goes on is the mean of s_0 and
// out_j · s_j. Both kinds of products are scaled to the length of x, or of s_0. Per-layer
// embeddings read s_active, times a weight where it is `scaled`, and are added to the streams but
// the first.
struct StreamsPlan {
  uint32_t count = 0;  // 0: the stream is one; equal in all layers of a model
  uint32_t active = 0;
  bool scaled = false;
  NormPlan norm;  // of what the router reads

  explicit operator bool() const { return count > 0; }
  friend bool operator==(const StreamsPlan&, const StreamsPlan&) = default;
};

template <>
struct PlanFields<StreamsPlan> {
  using P = StreamsPlan;
  static constexpr void list(auto field) {
    field(&P::count, "the number of streams", "'altup_num_inputs'; 0: one");
    field(&P::active, "the stream that layers compute", "'altup_active_idx'");
    field(&P::scaled, "whether what per-layer embeddings read is scaled", "'altup_correct_scale'");
    field(&P::norm, "the norm of the streams' router", "");
  }
};

// A learned residual of low rank (LAuReL, arXiv:2411.07501). With x what the layer begins with and
// n its norm, the stream after the mixer is
//
//   (x + post_norm(mixer(n)) + n + norm(right · (left · n))) / sqrt(2)
struct LowResidualPlan {
  uint32_t rank = 0;  // 0: the layer has none
  NormPlan norm;

  explicit operator bool() const { return rank > 0; }
  friend bool operator==(const LowResidualPlan&, const LowResidualPlan&) = default;
};

template <>
struct PlanFields<LowResidualPlan> {
  using P = LowResidualPlan;
  static constexpr void list(auto field) {
    field(&P::rank, "the rank of the learned residual", "'laurel_rank'; 0: none");
    field(&P::norm, "the norm of the learned residual", "");
  }
};

struct StreamsWeights {
  Weight stream_router;                   // [count, hidden]
  std::vector<float> stream_router_norm;  // [hidden]
  std::vector<float> stream_prediction;   // [count · count, count]: P[j][i] is row j · count + i
  std::vector<float> stream_correction;   // [count, count]
  std::vector<float> stream_scale;        // [hidden]
  Weight low_left, low_right;             // [rank, hidden], [hidden, rank]
  std::vector<float> low_norm;            // [hidden]
};

// m(x), in place: [count] products of a router become what predictions and corrections are made of.
void make_modalities(const StreamsPlan& streams, uint32_t hidden, float* products);
// Σ_p weights[row][p] · modalities[p]
float stream_factor(const std::vector<float>& weights, uint32_t row, uint32_t count,
                    const float* modalities);
// rows [width] scaled to the length of `like`: row · rms(like) / max(rms(row), sqrt(1e-5)).
void scale_to_length_of(const float* like, uint32_t width, float* row);

}  // namespace tenon
