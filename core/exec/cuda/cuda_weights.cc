#include "core/exec/cuda/cuda_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/model/weight_rows.h"

namespace tenon::cuda {
namespace {

uint16_t rounded_to_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::vector<const Weight*> all_matrices(const Model& model) {
  std::vector<const Weight*> all = {&model.embedding};
  if (!model.plan.tied_embeddings) all.push_back(&model.head);
  if (model.plan.learned_positions) all.push_back(&model.positions);
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      if (weight->n_out > 0) all.push_back(weight);
    }
  }
  return all;
}

uint64_t element_bytes(Input type) {
  return type == Input::f32 ? sizeof(float) : sizeof(uint16_t);
}

}  // namespace

Input DeviceWeights::type_for(const Model& model) {
  const bool wide = std::ranges::all_of(
      all_matrices(model), [](const Weight* weight) { return weight->format == "f32"; });
  return wide ? Input::f32 : Input::bf16;
}

uint64_t DeviceWeights::matrix_bytes(const Model& model) {
  uint64_t bytes = 0;
  for (const Weight* weight : all_matrices(model)) {
    bytes += uint64_t{weight->n_out} * static_cast<uint64_t>(weight_stride(weight->k_in));
  }
  return bytes * element_bytes(type_for(model));
}

// Row by row through memory of the host, so that a model is never there twice.
Result<DeviceMatrix> DeviceWeights::matrix(const Weight& weight) {
  if (weight.n_out == 0) return DeviceMatrix();
  TENON_RETURN_IF_ERROR(readable_by_rows(weight));
  DeviceMatrix made;
  made.n_out = static_cast<int>(weight.n_out);
  made.k_in = static_cast<int>(weight.k_in);
  made.stride = weight_stride(weight.k_in);
  const auto stride = static_cast<size_t>(made.stride);
  const uint64_t row_bytes = stride * element_bytes(type_);
  TENON_ASSIGN_OR_RETURN(void* const at, memory_.bytes(weight.n_out * row_bytes, weight.name));
  constexpr uint32_t kRowsAtOnce = 256;
  std::vector<float> wide(kRowsAtOnce * stride, 0.0f);
  std::vector<uint16_t> narrow(wide.size());
  for (uint32_t row = 0; row < weight.n_out; row += kRowsAtOnce) {
    const uint32_t count = std::min(kRowsAtOnce, weight.n_out - row);
    for (uint32_t i = 0; i < count; ++i) read_row(weight, row + i, &wide[i * stride]);
    const void* from = wide.data();
    if (type_ == Input::bf16) {
      std::ranges::transform(wide, narrow.begin(), rounded_to_bf16);
      from = narrow.data();
    }
    void* const to = static_cast<std::byte*>(at) + row * row_bytes;
    TENON_RETURN_IF_ERROR(memory_.driver().send(to, from, count * row_bytes));
    TENON_RETURN_IF_ERROR(memory_.driver().wait());
  }
  made.data = at;
  return made;
}

Result<const float*> DeviceWeights::vector(std::span<const float> values) {
  if (values.empty()) return static_cast<const float*>(nullptr);
  TENON_ASSIGN_OR_RETURN(float* const at, memory_.array<float>(values.size(), "a weight vector"));
  TENON_RETURN_IF_ERROR(memory_.driver().send(at, values.data(), values.size_bytes()));
  TENON_RETURN_IF_ERROR(memory_.driver().wait());
  return static_cast<const float*>(at);
}

Status DeviceWeights::load_layer(const Model& model, size_t index) {
  const LayerWeights& from = model.layers[index];
  DeviceLayer& to = layers[index];
  const std::pair<DeviceMatrix*, const Weight*> matrices[] = {
      {&to.q, &from.q},       {&to.k, &from.k},   {&to.v, &from.v},      {&to.output, &from.output},
      {&to.gate, &from.gate}, {&to.up, &from.up}, {&to.down, &from.down}};
  for (const auto& [made, weight] : matrices) {
    TENON_ASSIGN_OR_RETURN(*made, matrix(*weight));
  }
  const std::vector<float> none;
  const std::vector<float>& sinks = model.plan.sinks.empty() ? none : model.plan.sinks[index];
  const std::pair<const float**, const std::vector<float>*> vectors[] = {
      {&to.attention_norm, &from.attention_norm},
      {&to.attention_norm_bias, &from.attention_norm_bias},
      {&to.attention_post_norm, &from.attention_post_norm},
      {&to.attention_post_norm_bias, &from.attention_post_norm_bias},
      {&to.mlp_norm, &from.mlp_norm},
      {&to.mlp_norm_bias, &from.mlp_norm_bias},
      {&to.mlp_post_norm, &from.mlp_post_norm},
      {&to.mlp_post_norm_bias, &from.mlp_post_norm_bias},
      {&to.q_norm, &from.q_norm},
      {&to.k_norm, &from.k_norm},
      {&to.q_norm_bias, &from.q_norm_bias},
      {&to.k_norm_bias, &from.k_norm_bias},
      {&to.q_bias, &from.q_bias},
      {&to.k_bias, &from.k_bias},
      {&to.v_bias, &from.v_bias},
      {&to.output_bias, &from.output_bias},
      {&to.gate_bias, &from.gate_bias},
      {&to.up_bias, &from.up_bias},
      {&to.down_bias, &from.down_bias},
      {&to.sinks, &sinks}};
  for (const auto& [made, values] : vectors) {
    TENON_ASSIGN_OR_RETURN(*made, vector(*values));
  }
  return {};
}

Status DeviceWeights::load(const Model& model) {
  type_ = type_for(model);
  TENON_ASSIGN_OR_RETURN(embedding, matrix(model.embedding));
  head = embedding;
  if (!model.plan.tied_embeddings) {
    TENON_ASSIGN_OR_RETURN(head, matrix(model.head));
  }
  if (model.plan.learned_positions) {
    TENON_ASSIGN_OR_RETURN(positions, matrix(model.positions));
  }
  TENON_ASSIGN_OR_RETURN(embedding_norm, vector(model.embedding_norm));
  TENON_ASSIGN_OR_RETURN(embedding_norm_bias, vector(model.embedding_norm_bias));
  TENON_ASSIGN_OR_RETURN(final_norm, vector(model.final_norm));
  TENON_ASSIGN_OR_RETURN(final_norm_bias, vector(model.final_norm_bias));
  TENON_ASSIGN_OR_RETURN(head_bias, vector(model.head_bias));
  layers.resize(model.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) TENON_RETURN_IF_ERROR(load_layer(model, i));
  return {};
}

}  // namespace tenon::cuda
