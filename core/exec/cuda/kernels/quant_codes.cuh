// How weights of few bits are coded (QuantScales), for kernels that take them apart and for those
// that launch them.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

struct NibbleCodes {
  static constexpr int kBits = 4;
  static constexpr bool kFloats = false;
  using Scale = Half;
};
struct ByteCodes {
  static constexpr int kBits = 8;
  static constexpr bool kFloats = false;
  using Scale = Half;
};
struct FloatCodes {
  static constexpr int kBits = 8;
  static constexpr bool kFloats = true;
  using Scale = float;
};

// Calls `use` with the codes of a matrix.
template <typename Use>
auto with_codes(const QuantScales& quant, const Use& use) {
  if (quant.bits == 4) return use(NibbleCodes());
  return quant.floats ? use(FloatCodes()) : use(ByteCodes());
}

// A matrix's scales, with a watched pointer for either type.
struct CodeScales {
  Global<const Half> halves;
  Global<const float> floats;

  CodeScales() = default;
  explicit CodeScales(const QuantScales& quant) {
    if (quant.floats) {
      floats = Global<const float>(static_cast<const float*>(quant.scales));
    } else {
      halves = Global<const Half>(static_cast<const Half*>(quant.scales));
    }
  }
  template <typename Codes>
  TENON_DEVICE auto of() const {
    if constexpr (Codes::kFloats) return floats;
    if constexpr (!Codes::kFloats) return halves;
  }
  template <typename Codes>
  TENON_DEVICE float at(int64_t i) const {
    const typename Codes::Scale scale = of<Codes>()[i];
    return to_float(scale);
  }
  // From number `count` on.
  TENON_DEVICE void skip(int64_t count) {
    if (halves) halves = halves + count;
    if (floats) floats = floats + count;
  }
};

}  // namespace tenon::cuda
