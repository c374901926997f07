// Convolutions whose parts a folder stores in tensors of other sizes than the parts have.
#include <algorithm>
#include <array>

#include "core/model/tensors/tensor_taker.h"

namespace tenon {

namespace {

constexpr Role kParts[] = {Role::ssm_conv_q, Role::ssm_conv_k, Role::ssm_conv_v};

}  // namespace

bool TensorTaker::take_joined(const TensorSpec& spec) {
  const auto* const part = std::ranges::find(kParts, spec.role);
  if (!folder_ || part == std::end(kParts)) return false;
  std::string joined = name(spec.name);
  const size_t mark = joined.rfind("_conv1d");
  if (mark == joined.npos || mark == 0 || has(joined)) return false;
  joined.erase(mark - 1, 2);  // "self_attn.q_conv1d" → "self_attn.conv1d"
  if (!has(joined)) return false;
  LayerWeights& weights = model_.layers[static_cast<size_t>(spec.layer)];
  const RecurrentPlan& own = model_.plan.layers[static_cast<size_t>(spec.layer)].recurrent;
  if (part == kParts) {
    weights.ssm_conv = values_of(joined, std::array<uint64_t, 3>{own.channels(), 1, own.width});
  }
  return true;
}

bool TensorTaker::take_third(const TensorSpec& spec) {
  const auto* const part = std::ranges::find(kParts, spec.role);
  if (!folder_ || part == std::end(kParts)) return false;
  const RecurrentPlan& own = model_.plan.layers[static_cast<size_t>(spec.layer)].recurrent;
  const uint64_t third = (uint64_t{own.channels()} + 2) / 3;
  const auto rows_of = [&](const Role* which) {
    return which == kParts + 2 ? own.channels() - 2 * third : third;
  };
  for (const Role* other = kParts; other != std::end(kParts); ++other) {
    const TensorView* view = checkpoint_.find(name(names_.full(*other, spec.layer, false)));
    if (view == nullptr || view->rank != 3 || view->shape[0] != rows_of(other)) return false;
  }
  const std::vector<float> values =
      values_of(name(spec.name), std::array<uint64_t, 3>{rows_of(part), 1, own.width});
  std::vector<float>& all = model_.layers[static_cast<size_t>(spec.layer)].ssm_conv;
  all.resize(uint64_t{own.channels()} * own.width);
  std::ranges::copy(values, all.begin() + (part - kParts) * static_cast<ptrdiff_t>(third) *
                                              static_cast<ptrdiff_t>(own.width));
  return true;
}

}  // namespace tenon
