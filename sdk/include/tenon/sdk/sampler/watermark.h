// A watermark in generated tokens: the tokens before a position divide the vocabulary into green
// and red, and green ones are made a little more likely. Who knows the key counts green tokens.
//
// Kirchenbauer, Geiping, Wen, Katz, Miers, Goldstein: "A Watermark for Large Language Models",
// ICML 2023. Where the paper shuffles the vocabulary, each token here is green with probability
// gamma on its own, so that one token is judged without touching the others.
#pragma once

#include <tenon/types.h>

#include <cmath>
#include <cstdint>
#include <span>

namespace tenon::sdk {

// The division of the vocabulary after one context.
class GreenList {
 public:
  // `gamma`: below 1. `context`: the last tokens, oldest first, exactly as many as the watermark
  // looks back on.
  constexpr GreenList(uint64_t key, double gamma, std::span<const TokenId> context) noexcept
      : below_(static_cast<uint32_t>(gamma * 4294967296.0)) {
    uint64_t state = scramble(key + 0x9e3779b97f4a7c15u);
    for (TokenId token : context) {
      state = scramble(state ^ (static_cast<uint64_t>(static_cast<uint32_t>(token)) + 1) *
                                   0xd1342543de82ef95u);
    }
    low_ = static_cast<uint32_t>(state);
    high_ = static_cast<uint32_t>(state >> 32);
  }

  constexpr bool has(uint32_t token) const noexcept {
    uint32_t x = (token + 1) * 0x9e3779b9u ^ low_;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = ((x ^ x >> 15) + high_) * 0x846ca68bu;
    return (x ^ x >> 16) < below_;
  }

 private:
  static constexpr uint64_t scramble(uint64_t x) noexcept {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  uint32_t below_;
  uint32_t low_ = 0, high_ = 0;
};

struct WatermarkScore {
  uint64_t scored = 0;  // tokens that have enough tokens before them
  uint64_t green = 0;   // of them
  double z = 0.0;       // standard deviations above what chance gives
  double p = 1.0;       // how often chance gives as many or more
};

// `green` of `scored` tokens, each green by chance with probability `gamma`.
inline WatermarkScore watermark_score(uint64_t scored, uint64_t green, double gamma) noexcept {
  WatermarkScore score{scored, green, 0.0, 1.0};
  const auto count = static_cast<double>(scored);
  if (scored == 0) return score;
  score.z = (static_cast<double>(green) - gamma * count) / std::sqrt(count * gamma * (1.0 - gamma));
  score.p = 0.5 * std::erfc(score.z / std::sqrt(2.0));
  return score;
}

}  // namespace tenon::sdk
