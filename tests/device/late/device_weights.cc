#include "tests/device/late/device_weights.h"

#include <algorithm>
#include <string>

#include "core/base/result.h"
#include "tests/support/models/flat_config.h"

namespace tenon::test {

Status DeviceWeights::load(const Model& model, const ModelShape& shape,
                           const LinearResolver& resolve, LateDevice& device) {
  resolve_ = &resolve;
  device_ = &device;
  for (const LayerPlan& layer : model.plan.layers) {
    if (layer.experts || layer.attention.clip > 0.0f) {
      return unsupported("this device has no experts and clips nothing");
    }
  }
  layers.resize(model.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool has_kv = shape.layers[i].shares_kv_with < 0;
    TENON_RETURN_IF_ERROR(add_layer(model.layers[i], has_kv, layers[i]));
  }
  TENON_RETURN_IF_ERROR(add(model.head, head));
  if (model.plan.tied_embeddings) {
    embedding = head;
  } else {
    TENON_RETURN_IF_ERROR(add(model.embedding, embedding));
  }
  final_norm = add(model.final_norm);
  frequencies = add(first_frequencies(model.plan));
  return {};
}

Status DeviceWeights::add_layer(const LayerWeights& from, bool has_kv, DeviceLayer& to) {
  TENON_RETURN_IF_ERROR(add(from.q, to.q));
  if (has_kv) {
    TENON_RETURN_IF_ERROR(add(from.k, to.k));
    TENON_RETURN_IF_ERROR(add(from.v, to.v));
  }
  TENON_RETURN_IF_ERROR(add(from.output, to.output));
  TENON_RETURN_IF_ERROR(add(from.gate, to.gate));
  TENON_RETURN_IF_ERROR(add(from.up, to.up));
  TENON_RETURN_IF_ERROR(add(from.down, to.down));
  to.attention_norm = add(from.attention_norm);
  to.mlp_norm = add(from.mlp_norm);
  to.q_norm = add(from.q_norm);
  to.k_norm = add(from.k_norm);
  to.q_bias = add(from.q_bias);
  to.k_bias = add(from.k_bias);
  to.v_bias = add(from.v_bias);
  to.output_bias = add(from.output_bias);
  to.gate_bias = add(from.gate_bias);
  to.up_bias = add(from.up_bias);
  to.down_bias = add(from.down_bias);
  return {};
}

Status DeviceWeights::add(const Weight& weight, DeviceMatrix& to) {
  const WeightView view = weight.view();
  TENON_ASSIGN_OR_RETURN(const ChosenLinear chosen, (*resolve_)(view));
  LinearKernel* kernel = chosen.kernel;
  TENON_RETURN_IF_ERROR(kernel->accepts(view));
  const uint64_t bytes = kernel->packed_bytes(view);
  to = {.kernel = kernel,
        .data = device_->memory.device.allocate(bytes),
        .n_out = weight.n_out,
        .k_in = weight.k_in,
        .preparation = kernel->preparation(view),
        .format = weight.format};
  to.reads_x = kernel->prepared_bytes(to.preparation, 1) == 0;
  if (to.data == nullptr) return out_of_memory("the device has no room for '" + weight.name + "'");
  bytes_ += bytes;
  matrices_.push_back(to);
  constexpr uint32_t kSlices = 3;
  for (uint32_t slice = 0; slice < kSlices; ++slice) {
    TENON_RETURN_IF_ERROR(kernel->pack(view, to.data, {slice, kSlices}));
  }
  return {};
}

const float* DeviceWeights::add(const std::vector<float>& values) {
  if (values.empty()) return nullptr;
  return reinterpret_cast<const float*>(
      device_->upload(values.data(), values.size() * sizeof(float)));
}

uint64_t DeviceWeights::prepared_bytes(uint32_t rows) const {
  uint64_t most = 0;
  for (const DeviceMatrix& matrix : matrices_) {
    most = std::max(most, matrix.kernel->prepared_bytes(matrix.preparation, rows));
  }
  return most;
}

std::string DeviceWeights::numerics() const {
  std::vector<LinearKernel*> seen;
  std::string text;
  for (const DeviceMatrix& matrix : matrices_) {
    if (std::ranges::find(seen, matrix.kernel) != seen.end()) continue;
    seen.push_back(matrix.kernel);
    text += std::string(matrix.kernel->numerics()) + "+";
  }
  return text;
}

}  // namespace tenon::test
