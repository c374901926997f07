// The logits digest: 64 bits that two runs share exactly when every token of a sample was drawn
// from the same bits. docs/formats/digest.md defines it.
#pragma once

#include <cstdint>

namespace tenon {

// Chains one row of logits [vocabulary] to `digest` (0 before the first row).
uint64_t extend_digest(uint64_t digest, const float* logits, uint64_t vocabulary);

}  // namespace tenon
