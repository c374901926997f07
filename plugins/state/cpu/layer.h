// A recurrent layer as this plugin keeps it: its sizes, and its parameters in the order in which
// kernels read them.
#pragma once

#include <tenon/model.h>
#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon::state_cpu {

struct Kind;

inline constexpr uint32_t kMaxWidth = 64;  // of a convolution, in tokens

// Members without a meaning in a kind stay as they are.
struct Layer {
  const Kind* kind = nullptr;
  // Mamba and short convolutions have channels as heads of 1, the latter without any state. Of
  // gated_delta heads and dim are those of values; a group is a head of keys, which are `state`
  // wide.
  uint32_t heads = 0, dim = 1, state = 0, groups = 1, width = 1;
  uint32_t decays = 1;       // of a head
  uint32_t channels = 0;     // that are convolved
  uint64_t kept_floats = 0;  // of a state, after the rows that the convolution keeps
  std::vector<float> conv;   // [width, channels]
  std::vector<float> a;      // [heads], or [state, channels]
  const float *conv_bias = nullptr, *dt_bias = nullptr, *d = nullptr;
  const float* limits = nullptr;  // [2]

  uint32_t inner() const { return heads * dim; }
  uint32_t steps() const { return heads * decays; }
  uint32_t factors() const { return steps() + heads; }  // of a row: decays, and β of each head
  uint64_t kept_rows() const { return uint64_t{width - 1} * channels; }  // of the convolution
  uint64_t state_floats() const { return kept_rows() + kept_floats; }
};

// Errors: unsupported with what is not run here; internal where the shape contradicts itself.
Status read_dims(const LayerShape& shape, Layer& layer);
// As docs/futures.md, "State kinds", orders them. Views of the parameters stay in use.
Status read_parameters(std::span<const TensorView> parameters, Layer& layer);

inline Status refuse(const std::string& message) {
  return Status::error(StatusCode::unsupported, message);
}
inline Status broken(const std::string& message) {
  return Status::error(StatusCode::internal, message);
}

}  // namespace tenon::state_cpu
