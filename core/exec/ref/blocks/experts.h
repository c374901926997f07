// Mixtures of experts, spelled out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/ref/math.h"
#include "core/model/model.h"

namespace tenon::ref {

struct Chosen {
  uint32_t expert;
  float factor;
};
// The experts of one token, best first, from the router's scores [count]. Correction and scales
// [count] or empty.
std::vector<Chosen> choose(const ExpertsPlan& plan, std::span<const float> scores,
                           std::span<const float> correction, std::span<const float> scales = {});

// out [rows, hidden] = Σ factor · expert(x) over the chosen experts of each row, and the shared
// expert's result. x [rows, hidden], and what the router reads instead.
void experts(const ExpertsPlan& plan, const LayerWeights& weights, const float* routed,
             const float* x, uint32_t rows, float* out, const Multiply& multiply = ref::multiply);

}  // namespace tenon::ref
