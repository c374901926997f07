#include "core/exec/rotary.h"

#include <cmath>

namespace tenon {

void rotary_angles(uint32_t position, std::span<const float> frequencies, float factor,
                   float* cosine, float* sine) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    // Models are trained with the f32 product, whose rounding shows at long positions.
    const double angle = static_cast<float>(position) * frequencies[i];
    cosine[i] = static_cast<float>(std::cos(angle)) * factor;
    sine[i] = static_cast<float>(std::sin(angle)) * factor;
  }
}

}  // namespace tenon
