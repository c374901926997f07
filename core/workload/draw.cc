#include "core/workload/draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/workload/workload.h"

namespace tenon {
namespace {

// Frequent enough that most vocabularies have a token for each.
constexpr std::array<std::string_view, 64> kWords = {
    "the",  "of",   "and",  "a",     "to",    "in",   "he",    "have",  "it",   "that",  "for",
    "they", "with", "as",   "not",   "on",    "she",  "at",    "by",    "this", "we",    "you",
    "do",   "but",  "from", "or",    "which", "one",  "would", "all",   "will", "there", "say",
    "who",  "make", "when", "can",   "more",  "if",   "no",    "man",   "out",  "other", "so",
    "what", "time", "up",   "go",    "about", "than", "into",  "could", "only", "new",   "some",
    "them", "take", "come", "these", "know",  "see",  "then",  "first", "any"};

}  // namespace

double WorkloadDraw::uniform() {
  return (static_cast<double>(engine_() >> 11) + 1) * 0x1p-53;
}

uint32_t WorkloadDraw::length(const LengthDistribution& distribution) {
  // Both numbers are drawn at any spread, so that changing one leaves later requests alone.
  const double spread = distribution.spread;
  const double drawn = distribution.mean * std::exp(spread * normal() - spread * spread / 2);
  return static_cast<uint32_t>(
      std::clamp<double>(std::round(drawn), distribution.min, distribution.max));
}

double WorkloadDraw::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

// Marsaglia and Tsang (ACM Transactions on Mathematical Software 26, 2000), of mean `shape`.
double WorkloadDraw::gamma(double shape) {
  if (shape < 1) {
    const double larger = gamma(shape + 1);
    return larger * std::pow(uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

int64_t WorkloadDraw::gap_ns(double arrivals_per_second, double burstiness) {
  // In units of the mean gap; 1 is a Poisson process.
  const double gap = burstiness == 1 ? -std::log(uniform()) : gamma(burstiness) / burstiness;
  return static_cast<int64_t>(gap / arrivals_per_second * 1e9);
}

uint64_t tokens_of(std::span<const DrawnTokens> parts) {
  uint64_t tokens = 0;
  for (const DrawnTokens& part : parts) tokens += part.tokens;
  return tokens;
}

std::vector<int32_t> drawn_prompt(std::span<const DrawnTokens> parts, uint32_t vocabulary) {
  std::vector<int32_t> ids;
  ids.reserve(tokens_of(parts));
  for (const DrawnTokens& part : parts) {
    std::mt19937_64 engine(part.stream);
    for (uint32_t i = 0; i < part.tokens; ++i) {
      ids.push_back(static_cast<int32_t>(engine() % vocabulary));
    }
  }
  return ids;
}

std::string drawn_text(std::span<const DrawnTokens> parts) {
  std::string text;
  for (const int32_t word : drawn_prompt(parts, kWords.size())) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<size_t>(word)];
  }
  return text;
}

}  // namespace tenon
