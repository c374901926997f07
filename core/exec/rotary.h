// The angles of the rotary embedding for the rows of a step (arXiv:2104.09864).
#pragma once

#include <cstdint>
#include <span>

namespace tenon {

// For one position: cosine [i] and sine [i] of position · frequencies[i], each [frequencies], times
// `factor`, which YaRN and LongRoPE raise attention with.
void rotary_angles(uint32_t position, std::span<const float> frequencies, float factor,
                   float* cosine, float* sine);

}  // namespace tenon
