#include "plugins/state/cpu/layer.h"

namespace tenon::state_cpu {
namespace {

std::string text(uint32_t number) {
  return std::to_string(number);
}

// rows × columns → columns × rows
std::vector<float> transposed(const float* from, uint64_t rows, uint64_t columns) {
  std::vector<float> to(rows * columns);
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      to[column * rows + row] = from[row * columns + column];
    }
  }
  return to;
}

}  // namespace

Status read_dims(const LayerShape& shape, Layer& layer) {
  const uint32_t* dims = shape.state_dims;
  if (shape.state_kind == "mamba") {
    layer.heads = dims[0], layer.state = dims[1], layer.width = dims[2];
  } else if (shape.state_kind == "mamba2") {
    layer.kind = Kind::mamba2;
    layer.heads = dims[0], layer.dim = dims[1], layer.state = dims[2], layer.groups = dims[3];
    layer.width = dims[4];
  } else if (shape.state_kind == "gated_delta") {
    layer.kind = Kind::gated_delta;
    layer.groups = dims[0], layer.heads = dims[1], layer.state = dims[2], layer.dim = dims[3];
    layer.width = dims[4], layer.decays = dims[5];
  } else if (shape.state_kind == "short_conv") {
    layer.kind = Kind::short_conv;
    layer.heads = dims[0], layer.width = dims[1];
  } else {
    return refuse("a layer keeps a state of the kind '" + std::string(shape.state_kind) +
                  "'; \"cpu\" runs mamba, mamba2, gated_delta and short_conv");
  }
  const bool keeps_state = layer.state > 0 || layer.kind == Kind::short_conv;
  const bool sound = layer.heads > 0 && layer.dim > 0 && keeps_state && layer.groups > 0 &&
                     layer.heads % layer.groups == 0;
  if (!sound || layer.width == 0 || layer.width > kMaxWidth) {
    return refuse("a layer of the kind " + std::string(shape.state_kind) + " has " +
                  text(layer.heads) + " heads in " + text(layer.groups) + " groups, states of " +
                  text(layer.state) + " and a convolution of " + text(layer.width) +
                  "; expected none of them 0, whole groups, and at most 64 tokens");
  }
  if (layer.decays != 1 && layer.decays != layer.state) {
    return refuse("a layer of the kind gated_delta has " + text(layer.decays) +
                  " decays a head; expected 1, or one for each of the " + text(layer.state) +
                  " elements of a key");
  }
  if (shape.state_bytes == layer.state_floats() * sizeof(float)) return Status();
  return broken("a layer's state has " + std::to_string(shape.state_bytes) + " bytes; its sizes " +
                "make it " + std::to_string(layer.state_floats() * sizeof(float)));
}

Status read_parameters(std::span<const TensorView> parameters, Layer& layer) {
  const size_t expected = layer.kind == Kind::mamba2 ? 6 : layer.kind == Kind::short_conv ? 2 : 5;
  if (parameters.size() != expected) {
    return broken("a recurrence has " + std::to_string(parameters.size()) +
                  " parameters; expected " + std::to_string(expected));
  }
  const auto values = [&](size_t i) { return static_cast<const float*>(parameters[i].data); };
  for (const TensorView& parameter : parameters) {
    if (parameter.dtype == DType::f32 && parameter.data != nullptr) continue;
    return refuse("a parameter of a recurrence is no array of f32");
  }
  layer.conv = transposed(values(0), layer.channels(), layer.width);
  layer.conv_bias = values(1);
  if (layer.kind == Kind::short_conv) return Status();
  layer.dt_bias = values(3);
  if (layer.kind == Kind::mamba) {
    layer.a = transposed(values(2), layer.inner(), layer.state);
  } else {
    layer.a.assign(values(2), values(2) + layer.heads);
  }
  if (layer.kind == Kind::gated_delta) {
    layer.strongest_decay = values(4)[0];
    layer.beta_scale = values(4)[1];
    return Status();
  }
  layer.d = values(4);
  if (layer.kind == Kind::mamba2) {
    layer.least_step = values(5)[0];
    layer.most_step = values(5)[1];
  }
  return Status();
}

}  // namespace tenon::state_cpu
