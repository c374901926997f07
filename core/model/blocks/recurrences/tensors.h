// Tensors that several kinds of recurrence have alike.
#pragma once

#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"

namespace tenon {

inline const NormPlan& gate_norm_of(const ModelPlan&, const LayerPlan& l) {
  return l.recurrent.gate_norm;
}

// Of all that the recurrence gives, heads side by side; GGUF files have no name for it.
inline constexpr BlockTensor kInnerNorm{.role = Role::ssm_norm,
                                        .extent =
                                            [](const ModelPlan&, const LayerPlan& l) {
                                              return of_norm(l.recurrent.gate_norm,
                                                             l.recurrent.inner());
                                            },
                                        .norm = gate_norm_of,
                                        .in_layer = {.vector = &LayerWeights::ssm_norm}};
// Back into the stream, without a bias; GGUF files have no name for it.
inline constexpr BlockTensor kPlainOut{.role = Role::ssm_out,
                                       .extent = recurrence_out_extent,
                                       .in_layer = {.matrix = &LayerWeights::ssm_out},
                                       .reads = Reads::mixed,
                                       .adapters = true};

}  // namespace tenon
