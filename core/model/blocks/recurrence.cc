#include "core/model/blocks/recurrence.h"

#include "core/model/blocks/block.h"

namespace tenon {

std::string_view recurrence_name(Recurrence kind) {
  constexpr std::string_view kNames[] = {"", "mamba", "mamba2", "gated_delta"};
  return kNames[static_cast<size_t>(kind)];
}

std::array<uint32_t, 8> state_dims(const RecurrentPlan& r) {
  if (r.kind == Recurrence::mamba) return {r.heads, r.state, r.width};
  if (r.kind == Recurrence::mamba2) return {r.heads, r.head_dim, r.state, r.groups, r.width};
  if (r.kind == Recurrence::gated_delta) {
    return {r.groups, r.heads, r.state, r.head_dim, r.width, r.decays};
  }
  return {};
}

Extent convolution_extent(const ModelPlan&, const LayerPlan& l) {
  const RecurrentPlan& r = l.recurrent;
  Extent extent = of_numbers({r.channels(), 1, r.width}, {r.channels(), r.width});
  extent.bias = r.convolution_bias;
  return extent;
}

Extent recurrence_out_extent(const ModelPlan& m, const LayerPlan& l) {
  return to_stream(m, l.recurrent.inner(), l.recurrent.projection_bias);
}

}  // namespace tenon
