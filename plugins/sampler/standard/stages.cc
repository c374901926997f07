#include "plugins/sampler/standard/stages.h"

#include <algorithm>
#include <cmath>

namespace tenon::standard {
namespace {

constexpr uint32_t kSelectable = 4096;  // tokens that are gathered rather than counted in buckets
constexpr uint32_t kZipfTokens = 100;   // that mirostat 1 estimates a row's shape from
// Beyond them scales are as good as infinite, or as 0; no worker takes them for subnormal.
constexpr double kLargestScale = 3e38, kSmallestScale = 1e-30;

double entropy(Row& row, const Choice& choice) {
  const double total = row.weigh(choice);
  return std::log(total) + row.spread(choice) / total;
}

}  // namespace

void Funnel::cut_row() {
  if (whole_) return;
  row_.keep_only(choice_.range);
  choice_.range = {};
  whole_ = true;
}

void Funnel::keep_from(double logit) {
  const double lowest = std::min(logit, peak());
  if (!(lowest > choice_.range.last.logit)) return;
  auto bound = static_cast<float>(lowest);
  if (bound < lowest) bound = std::nextafter(bound, std::numeric_limits<float>::max());
  choice_.range.last = {bound, std::numeric_limits<uint32_t>::max()};
  whole_ = false;
}

void Funnel::temperature(double value) {
  if (!(value > 0.0)) return top_k(1);
  choice_.scale =
      static_cast<float>(std::clamp(choice_.scale / value, kSmallestScale, kLargestScale));
}

void Funnel::dynamic_temperature(double value, double range, double exponent) {
  const double low = std::max(0.0, value - range), high = value + range;
  const double count = row_.moments(choice_.range).count;
  // One token has no entropy, and no other temperature changes anything for it.
  if (count < 2.0) return;
  const double share = std::clamp(entropy(row_, choice_) / std::log(count), 0.0, 1.0);
  temperature(low + (high - low) * std::pow(share, exponent));
}

void Funnel::top_n_sigma(double n) {
  const Moments moments = row_.moments(choice_.range);
  if (moments.count < 2.0) return;
  const double mean = moments.sum / moments.count;
  const double variance = std::max(0.0, moments.squares / moments.count - mean * mean);
  keep_from(peak() - n * std::sqrt(variance));
}

// Narrows the range of logits that may be drawn; the executor `cuda` does the same in draw.cuh.
void Funnel::top_k(uint32_t k) {
  if (k >= row_.vocabulary()) return;
  if (k > kSelectable) {
    const Row::Goal goal{Row::Measure::count, static_cast<double>(k), false};
    choice_.range.last = row_.reach(choice_, goal, scratch_);
  } else {
    row_.select(choice_.range, k, scratch_);
    if (scratch_.size() < k || scratch_.empty()) return;
    choice_.range.last = *std::max_element(scratch_.begin(), scratch_.end(), before);
  }
  whole_ = false;
}

void Funnel::typical_p(double p) {
  const double total = weigh();
  // A token's surprise is ln(total) - (logit - peak)·scale.
  const double distance = std::log(total) - entropy(row_, choice_);
  const auto centre = static_cast<float>(peak() + distance / choice_.scale);
  if (!std::isfinite(centre)) return;
  const Row::Goal goal{Row::Measure::weight, p * total, true};
  const float reached = row_.reach_around(choice_, centre, goal, scratch_);
  const auto inside = [&](float logit) { return std::abs(logit - centre) <= reached; };
  row_.bounds(choice_.range, inside);
  whole_ = false;
}

void Funnel::top_p(double p) {
  const Row::Goal goal{Row::Measure::weight, p * weigh(), false};
  choice_.range.last = row_.reach(choice_, goal, scratch_);
  whole_ = false;
}

void Funnel::min_p(double p) {
  keep_from(peak() + std::log(p) / choice_.scale);
}

void Funnel::xtc(double threshold) {
  const double lowest = peak() + (std::log(threshold) + std::log(weigh())) / choice_.scale;
  Range likely = choice_.range;
  if (lowest > likely.last.logit) {
    likely.last = {static_cast<float>(lowest), std::numeric_limits<uint32_t>::max()};
  }
  // No more than 1/threshold tokens reach it.
  const auto most =
      static_cast<uint32_t>(std::min<double>(1.0 / threshold + 1.0, row_.vocabulary()));
  row_.select(likely, most, scratch_);
  if (scratch_.size() < 2) return;
  choice_.range.first = *std::max_element(scratch_.begin(), scratch_.end(), before);
  whole_ = false;
}

void Funnel::mirostat_2(double mu) {
  // Surprise, in bits, is (ln(total) - (logit - peak)·scale) / ln 2.
  keep_from(peak() + (std::log(weigh()) - mu * std::log(2.0)) / choice_.scale);
}

void Funnel::mirostat_1(double mu) {
  row_.select(choice_.range, kZipfTokens, scratch_);
  std::sort(scratch_.begin(), scratch_.end(), before);
  // The exponent of Zipf's law, by least squares over neighbours: p(i)/p(i+1) = ((i+2)/(i+1))^s.
  double products = 0.0, squares = 0.0;
  for (size_t i = 0; i + 1 < scratch_.size(); ++i) {
    const double step = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double fall =
        (static_cast<double>(scratch_[i].logit) - scratch_[i + 1].logit) * choice_.scale;
    products += step * fall;
    squares += step * step;
  }
  if (!(squares > 0.0)) return;
  const double s = products / squares;
  const double excess = s - 1.0;
  const double k = std::pow(
      excess * std::exp2(mu) / (1.0 - std::pow(static_cast<double>(row_.vocabulary()), -excess)),
      1.0 / s);
  // An exponent of exactly 1 has no such k: then nothing is cut.
  if (!(k < row_.vocabulary())) return;
  top_k(static_cast<uint32_t>(std::max(k, 1.0)));
}

}  // namespace tenon::standard
