#include "core/evaluate/divergence.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

// ln of the sum of exp(logit).
double log_sum(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

ptrdiff_t likeliest(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace

Result<PredictionDifference> difference_of(std::span<const float> base,
                                           std::span<const float> other, int32_t next) {
  const double base_sum = log_sum(base), other_sum = log_sum(other);
  PredictionDifference out;
  for (size_t i = 0; i < base.size(); ++i) {
    const double p = base[i] - base_sum, q = other[i] - other_sum;
    out.kl_nats += std::exp(p) * (p - q);
  }
  if (!std::isfinite(out.kl_nats)) {
    return failed("a logit is no finite number – nothing is predicted by it – look at the model");
  }
  // Rounding alone can leave it just below 0.
  out.kl_nats = std::max(0.0, out.kl_nats);
  out.same_top = likeliest(base) == likeliest(other);
  out.base_nats = base_sum - base[static_cast<size_t>(next)];
  out.nats = other_sum - other[static_cast<size_t>(next)];
  return out;
}

void TextDifference::add_window(std::span<const PredictionDifference> predictions) {
  if (predictions.empty()) return;
  double kl = 0, base = 0, other = 0, same = 0;
  for (const PredictionDifference& each : predictions) {
    ++tokens;
    same_top += each.same_top ? 1 : 0;
    base_nats += each.base_nats;
    nats += each.nats;
    kl_nats.push_back(each.kl_nats);
    kl += each.kl_nats;
    base += each.base_nats;
    other += each.nats;
    same += each.same_top ? 1 : 0;
  }
  const double count = static_cast<double>(predictions.size());
  window_kl_nats.push_back(kl / count);
  window_nats_more.push_back((other - base) / count);
  window_base_nats.push_back(base / count);
  window_nats.push_back(other / count);
  window_same_top.push_back(same / count);
}

}  // namespace tenon
