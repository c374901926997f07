// Norms: what a layer reads or adds is scaled by one.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/model/blocks/fields.h"

namespace tenon {

// rms    x / sqrt(mean(x²) + eps) · weight                        (arXiv:1910.07467)
// layer  (x - mean(x)) / sqrt(var(x) + eps) · weight + bias       (arXiv:1607.06450)
enum class NormKind : uint8_t { none, rms, layer };
inline std::string_view name_of(NormKind value) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "an RMS norm", "a layer norm"};
  return kNames[static_cast<size_t>(value)];
}

struct NormPlan {
  NormKind kind = NormKind::none;
  float eps = 1e-5f;
  bool bias = false;      // layer norms only
  bool plus_one = false;  // folders store the weight less one
  bool weight = true;     // else the checkpoint has none, and all of it is 1

  explicit operator bool() const { return kind != NormKind::none; }
  friend bool operator==(const NormPlan&, const NormPlan&) = default;
};

template <>
struct PlanFields<NormPlan> {
  using P = NormPlan;
  static constexpr void list(auto field) {
    field(&P::kind, "", "its kind");
    field(&P::eps, "", "its epsilon");
    field(&P::bias, "", "whether it has a bias");
    field(&P::plus_one, "", "whether its weight is stored less one");
    field(&P::weight, "", "whether it has a weight");
  }
};

}  // namespace tenon
