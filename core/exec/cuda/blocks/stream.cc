// The residual stream: embeddings, norms, what is added, and the rows that are handed out.
#include <utility>

#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {

// Without a norm x is taken as it is.
void CudaStep::norm(const NormPlan& norm, const float* weight, const float* bias, const float* x,
                    uint32_t rows, void* out, Input type) {
  const uint32_t width = setup_.model->plan.hidden;
  NormShape shape;
  shape.rows = rows;
  shape.width = static_cast<int>(width);
  shape.out_stride = out == normed_ ? DeviceWeights::input_stride(width) : shape.width;
  if (!norm) {
    return keep(launch_take_rows(driver_.stream(), x, nullptr, out, type, rows, shape.width,
                                 shape.out_stride),
                "rows without a norm");
  }
  shape.eps = norm.eps;
  shape.centered = norm.kind == NormKind::layer;
  keep(launch_norm(driver_.stream(), x, weight, bias, out, type, shape), "a norm");
}

// Of a head tokens are embedded as they are: they enter it next to its states.
void CudaStep::embed() {
  const ModelPlan& plan = setup_.model->plan;
  const bool beside = setup_.head != nullptr;
  EmbedCall call = {};
  call.tokens = tokens_;
  call.positions = positions_;
  call.table = weights_.embedding.data;
  call.quant = scales_of(weights_.embedding);
  call.position_table = plan.learned_positions ? weights_.positions.data : nullptr;
  call.weights = weights_.type();
  call.hidden = beside ? embedded_ : hidden_;
  call.rows = rows_;
  call.width = static_cast<int>(plan.hidden);
  call.stride = weights_.embedding.stride;
  call.position_stride = weights_.positions.stride;
  call.scale = beside ? 1.0f : plan.embedding_scale;
  if (weights_.embedding.starts != nullptr) {
    embed_cut(call);
  } else {
    keep(launch_embed(driver_.stream(), call), "the embedding");
  }
  if (beside) return enter_head();
  if (plan.embedding_norm) {
    norm(plan.embedding_norm, weights_.embedding_norm, weights_.embedding_norm_bias, hidden_, rows_,
         hidden_, Input::f32);
  }
  if (setup_.keeps_embedded()) take_stream(hidden_, embedded_, plan.hidden);
}

void CudaStep::attention_norm(uint32_t layer) {
  if (joins(layer)) return join_head();
  const DeviceLayer& w = weights_.layers[layer];
  norm(plan(layer).attention_norm, w.attention_norm, w.attention_norm_bias, hidden_, rows_, normed_,
       weights_.type());
}

void CudaStep::norm_for_mlp(uint32_t layer, void* out, Input type) {
  const LayerPlan& own = plan(layer);
  const DeviceLayer& w = block_weights(layer);
  if (own.mlp_norm)
    return norm(own.mlp_norm, w.mlp_norm, w.mlp_norm_bias, hidden_, rows_, out, type);
  norm(own.attention_norm, w.attention_norm, w.attention_norm_bias, hidden_, rows_, out, type);
}

void CudaStep::mlp_norm(uint32_t layer) {
  norm_for_mlp(layer, normed_, weights_.type());
}

void CudaStep::input_of(bool has_norm) {
  if (has_norm) return;
  const uint32_t width = setup_.model->plan.hidden;
  keep(launch_take_rows(driver_.stream(), hidden_, nullptr, normed_, weights_.type(), rows_,
                        static_cast<int>(width), DeviceWeights::input_stride(width)),
       "a layer's input");
}

// hidden += scale · post_norm(x · Wᵀ + bias)
void CudaStep::add_to_hidden(const LayerPlan& layer, const NormPlan& post_norm, const float* weight,
                             const float* bias, const DeviceMatrix& w, const float* w_bias,
                             const void* x) {
  const bool adds = !std::exchange(cleared_, false);
  if (!post_norm) return multiply(w, w_bias, x, rows_, hidden_, adds, layer.residual_scale);
  multiply(w, w_bias, x, rows_, update_);
  add_normed(layer, post_norm, weight, bias);
}

void CudaStep::add_normed(const LayerPlan& layer, const NormPlan& post_norm, const float* weight,
                          const float* bias) {
  NormShape shape;
  shape.rows = rows_;
  shape.width = shape.out_stride = static_cast<int>(setup_.model->plan.hidden);
  shape.eps = post_norm.eps;
  shape.centered = post_norm.kind == NormKind::layer;
  shape.add = true;
  shape.factor = layer.residual_scale;
  keep(launch_norm(driver_.stream(), update_, weight, bias, hidden_, Input::f32, shape),
       "the norm of an update");
}

void CudaStep::layer_done(uint32_t layer) {
  float* const to = turn().hidden().of_layer(layer);
  const uint32_t count = hidden_count_;
  if (to == nullptr || count == 0) return;
  const uint32_t width = setup_.model->plan.hidden;
  keep(launch_take_rows(driver_.stream(), hidden_, hidden_rows_, wanted_, Input::f32, count,
                        static_cast<int>(width), static_cast<int>(width)),
       "hidden rows");
  keep(driver_.fetch(to, wanted_, uint64_t{count} * width * sizeof(float)));
}

void CudaStep::logits() {
  const ModelPlan& plan = setup_.model->plan;
  const auto take = [&](const uint32_t* rows, uint32_t count) {
    keep(launch_take_rows(driver_.stream(), hidden_, rows, wanted_, Input::f32, count,
                          static_cast<int>(plan.hidden), static_cast<int>(plan.hidden)),
         "wanted rows");
  };
  float* const last = turn().hidden().of_layer(static_cast<LayerId>(plan.layers.size()));
  const uint32_t kept = hidden_count_;
  if (last != nullptr && kept > 0) {
    take(hidden_rows_, kept);
    norm(plan.final_norm, weights_.final_norm, weights_.final_norm_bias, wanted_, kept, update_,
         Input::f32);
    keep(driver_.fetch(last, update_, uint64_t{kept} * plan.hidden * sizeof(float)));
  }
  const uint32_t count = logits_count_;
  if (count == 0) return;
  take(logits_rows_, count);
  norm(plan.final_norm, weights_.final_norm, weights_.final_norm_bias, wanted_, count, normed_,
       weights_.type());
  multiply(weights_.head, weights_.head_bias, normed_, count, logits_);
  const uint64_t numbers = uint64_t{count} * setup_.logits_width();
  if (plan.logit_scale != 1.0f || plan.logit_soft_cap > 0.0f) {
    keep(launch_adjust(driver_.stream(), logits_, numbers, plan.logit_scale, plan.logit_soft_cap,
                       0.0f),
         "the scale of logits");
  }
}

}  // namespace tenon::cuda
