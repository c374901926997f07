#include "core/config/workload_draw.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/config/workload.h"

namespace tenon {

double WorkloadDraw::uniform() {
  return (static_cast<double>(engine_() >> 11) + 1) * 0x1p-53;
}

uint32_t WorkloadDraw::length(const LengthDistribution& distribution) {
  // Both numbers are drawn at any spread, so that changing one leaves later requests alone.
  const double radius = std::sqrt(-2 * std::log(uniform()));
  const double normal = radius * std::cos(2 * std::numbers::pi * uniform());
  const double spread = distribution.spread;
  const double drawn = distribution.mean * std::exp(spread * normal - spread * spread / 2);
  return static_cast<uint32_t>(
      std::clamp<double>(std::round(drawn), distribution.min, distribution.max));
}

int64_t WorkloadDraw::gap_ns(double arrivals_per_second) {
  return static_cast<int64_t>(-std::log(uniform()) / arrivals_per_second * 1e9);
}

std::vector<int32_t> drawn_prompt(DrawnTokens prefix, DrawnTokens own, uint32_t vocabulary) {
  std::vector<int32_t> ids;
  for (const DrawnTokens& part : {prefix, own}) {
    std::mt19937_64 engine(part.stream);
    for (uint32_t i = 0; i < part.tokens; ++i) {
      ids.push_back(static_cast<int32_t>(engine() % vocabulary));
    }
  }
  return ids;
}

}  // namespace tenon
