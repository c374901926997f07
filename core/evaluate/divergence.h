// How far what one pipeline predicts is from what another does, over the same tokens of a text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace tenon {

struct PredictionDifference {
  double kl_nats = 0;    // KL(base || other) of the two distributions
  bool same_top = true;  // the likeliest token of both is the same
  double base_nats = 0;  // -ln p of the token that comes, by the base
  double nats = 0;       // and by the other
};
// `base` and `other` [vocabulary] are logits, > 0 of each; `next` the token that the text goes on
// with. In double precision. Error: a logit that is no finite number, so that nothing is predicted.
Result<PredictionDifference> difference_of(std::span<const float> base,
                                           std::span<const float> other, int32_t next);

// Over windows of a text, each computed from its own first token.
struct TextDifference {
  uint64_t tokens = 0;  // predicted
  uint64_t same_top = 0;
  double base_nats = 0, nats = 0;             // sums
  std::vector<double> kl_nats = {};           // of each token
  std::vector<double> window_kl_nats = {};    // the mean of each window
  std::vector<double> window_nats_more = {};  // the mean of nats - base_nats of each window
  std::vector<double> window_base_nats = {};  // the means of both
  std::vector<double> window_nats = {};
  std::vector<double> window_same_top = {};  // the share of each window

  void add_window(std::span<const PredictionDifference> predictions);
};

}  // namespace tenon
