// Weights as checkpoints store them in plain floating point, one value after the other.
#pragma once

#include <tenon/sdk/linear/panels.h>

#include <string_view>

namespace tenon::sdk {

// Null status when the one part of `weight` is a row-major matrix of `dtype` in host memory, of the
// size that the weight says it has. `kernel` names the plugin in messages.
Status check_plain_weight(const WeightView& weight, DType dtype, std::string_view kernel);

}  // namespace tenon::sdk
