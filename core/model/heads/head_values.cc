#include "core/model/heads/head_values.h"

#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/model/strange_values.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

bool are_numbers(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

Result<std::vector<float>> head_vector(const Model& model, const std::string& name, uint64_t size) {
  Result<const TensorView*> view = model.checkpoint->get(name);
  if (!view.ok()) return with_context(model.path, view.status());
  if ((*view)->rank == 1) return head_row(model, name, size);
  return invalid_argument(model.path + ": tensor " +
                          in_quotes(model.checkpoint->stored_name(name)) + " is no vector of " +
                          std::to_string(size) + " numbers in f32, f16 or bf16");
}

Result<std::vector<float>> head_row(const Model& model, const std::string& name, uint64_t size) {
  Result<const TensorView*> view = model.checkpoint->get(name);
  if (!view.ok()) return with_context(model.path, view.status());
  const TensorView& found = **view;
  if (element_count(found) != size || !is_plain_type(found.dtype)) {
    return invalid_argument(model.path + ": tensor " +
                            in_quotes(model.checkpoint->stored_name(name)) + " is no vector of " +
                            std::to_string(size) + " numbers in f32, f16 or bf16");
  }
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = element(found, i);
  return values;
}

Status check_head_numbers(const Model& model, const Head& head) {
  const auto strange = [&model](const std::string& name) {
    return invalid_argument(model.path + ": tensor " + in_quotes(name) +
                            " has values that are no finite numbers; the head can draft nothing");
  };
  if (!std::isfinite(head.confidence_bias)) return strange("confidence_head.proj.bias");
  std::vector<const Weight*> matrices = {&head.fc, &model.embedding, &model.head};
  for (const Weight* weight : {&head.markov_in, &head.markov_out, &head.markov_gate}) {
    if (weight->n_out > 0) matrices.push_back(weight);
  }
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) matrices.push_back(weight);
  }
  for (const Weight* weight : matrices) {
    if (!is_finite(*weight, {})) return strange(weight->name);
  }
  std::vector<const std::vector<float>*> norms = {
      &head.features_norm,    &head.token_norm, &head.state_norm,       &head.confidence,
      &head.block.mask_state, &head.fc_bias,    &head.markov_gate_bias, &model.final_norm};
  for (const LayerWeights& layer : model.layers) {
    norms.insert(norms.end(),
                 {&layer.attention_norm, &layer.attention_post_norm, &layer.mlp_norm,
                  &layer.mlp_post_norm, &layer.q_norm, &layer.k_norm, &layer.q_bias, &layer.k_bias,
                  &layer.v_bias, &layer.output_bias, &layer.gate_bias, &layer.up_bias,
                  &layer.down_bias, &layer.router_bias, &layer.router_correction});
  }
  const bool fine = std::ranges::all_of(norms, [](const auto* norm) { return are_numbers(*norm); });
  return fine ? Status() : strange("of a norm or a bias");
}

}  // namespace tenon
