#include "core/model/convert/convert_check.h"

#include <cmath>
#include <string>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

// From here on a value becomes infinite. Scales of blocks are f16.
float too_large_for(const TensorType& type) {
  if (type.name == "f32") return INFINITY;
  return type.name == "bf16" ? 0x1.ffp127f : 65520.0f;
}

Status check_range(const Weight& weight, const TensorType& type) {
  const bool in_blocks = type.block_elements > 1;
  for (const TensorView& part : weight.parts) {
    if (part.data == nullptr || !is_plain_type(part.dtype)) continue;
    const float most = largest_magnitude(part);
    const std::string tensor = "tensor " + in_quotes(weight.name);
    if (!std::isfinite(most)) {
      if (!in_blocks) continue;  // it stays what it is
      return invalid_argument(tensor +
                              " holds values that are no finite numbers; the file is damaged");
    }
    if (most < too_large_for(type)) continue;
    return unsupported(tensor + " holds a value of " + format_real(most) + ", which " +
                       in_quotes(type.name) + " cannot hold; choose another type");
  }
  return {};
}

}  // namespace

Status check_range(const Model& model, const TensorType& type) {
  std::vector<const Weight*> matrices = {&model.embedding, &model.positions, &model.head};
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) matrices.push_back(weight);
  }
  for (const Weight* weight : matrices) TENON_RETURN_IF_ERROR(check_range(*weight, type));
  return {};
}

}  // namespace tenon
