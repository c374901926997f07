#include "plugins/state/cpu/layer.h"

#include <algorithm>
#include <iterator>

#include "plugins/state/cpu/kind.h"

namespace tenon::state_cpu {
namespace {

#define TENON_STATE_KIND(name) &(name),
constexpr const Kind* kKinds[] = {
#include "plugins/state/cpu/kinds.def"
};
#undef TENON_STATE_KIND

std::string text(uint32_t number) {
  return std::to_string(number);
}

// "mamba, mamba2 and …"
std::string all_names() {
  std::string names;
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    if (i > 0) names += i + 1 == std::size(kKinds) ? " and " : ", ";
    names += kKinds[i]->name;
  }
  return names;
}

}  // namespace

Status read_dims(const LayerShape& shape, Layer& layer) {
  const auto* const kind = std::ranges::find(kKinds, shape.state_kind, &Kind::name);
  if (kind == std::end(kKinds)) {
    return refuse("a layer keeps a state of the kind '" + std::string(shape.state_kind) +
                  "'; \"cpu\" runs " + all_names());
  }
  layer.kind = *kind;
  layer.kind->read_dims(shape.state_dims, layer);
  const std::string of_kind = "a layer of the kind " + std::string(shape.state_kind) + " has ";
  const bool sound = layer.heads > 0 && layer.dim > 0 &&
                     (layer.state > 0 || !layer.kind->keeps_state) && layer.groups > 0 &&
                     layer.heads % layer.groups == 0;
  if (!sound || layer.width == 0 || layer.width > kMaxWidth) {
    return refuse(of_kind + text(layer.heads) + " heads in " + text(layer.groups) +
                  " groups, states of " + text(layer.state) + " and a convolution of " +
                  text(layer.width) +
                  "; expected none of them 0, whole groups, and at most 64 tokens");
  }
  if (layer.kind->fault != nullptr) {
    const std::string fault = layer.kind->fault(layer);
    if (!fault.empty()) return refuse(of_kind + fault);
  }
  if (shape.state_bytes == layer.state_floats() * sizeof(float)) return Status();
  return broken("a layer's state has " + std::to_string(shape.state_bytes) + " bytes; its sizes " +
                "make it " + std::to_string(layer.state_floats() * sizeof(float)));
}

Status read_parameters(std::span<const TensorView> parameters, Layer& layer) {
  if (parameters.size() != layer.kind->parameters) {
    return broken("a recurrence has " + std::to_string(parameters.size()) +
                  " parameters; expected " + text(layer.kind->parameters));
  }
  std::vector<const float*> values;
  for (const TensorView& parameter : parameters) {
    if (parameter.dtype != DType::f32 || parameter.data == nullptr) {
      return refuse("a parameter of a recurrence is no array of f32");
    }
    values.push_back(static_cast<const float*>(parameter.data));
  }
  layer.kind->read_parameters(values, layer);
  return Status();
}

}  // namespace tenon::state_cpu
