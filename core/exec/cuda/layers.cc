// What each operation of the decoder launches.
#include "core/exec/cuda/step.h"

namespace tenon::cuda {

ActivationKind activation_kind(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return ActivationKind::silu;
    case Activation::gelu:
      return ActivationKind::gelu;
    case Activation::gelu_tanh:
      return ActivationKind::gelu_tanh;
    case Activation::relu:
      return ActivationKind::relu;
    case Activation::relu_squared:
      return ActivationKind::relu_squared;
  }
  return ActivationKind::silu;
}

CacheType cache_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CacheType::f32;
    case DType::i8:
      return CacheType::i8;
    case DType::i4:
      return CacheType::i4;
    default:
      return CacheType::bf16;
  }
}

QuantScales scales_of(const DeviceMatrix& w) {
  return {w.scales, w.zeros, w.groups, w.group, w.bits, w.rows, w.floats};
}

void CudaStep::norm(const NormPlan& norm, const float* weight, const float* bias, const float* x,
                    uint32_t rows, void* out, Input type) {
  const uint32_t width = setup_.model->plan.hidden;
  NormShape shape;
  shape.rows = rows;
  shape.width = static_cast<int>(width);
  shape.out_stride = out == normed_ ? DeviceWeights::input_stride(width) : shape.width;
  shape.eps = norm.eps;
  shape.centered = norm.kind == NormKind::layer;
  keep(launch_norm(driver_.stream(), x, weight, bias, out, type, shape), "a norm");
}

MultiplyCall CudaStep::multiply_call(const DeviceMatrix& w, const float* bias, const void* x,
                                     uint32_t rows, float* y) {
  MultiplyCall call = {};
  call.x = x;
  call.w = w.data;
  call.bias = bias;
  call.y = y;
  call.rows = rows;
  call.n_out = w.n_out;
  call.k_in = w.k_in;
  call.x_stride = DeviceWeights::input_stride(static_cast<uint32_t>(w.k_in));
  call.w_stride = w.stride;
  call.y_stride = w.n_out;
  return call;
}

void CudaStep::multiply(const DeviceMatrix& w, const MultiplyCall& call, const GatedOutput& gated) {
  if (w.bits == 0 && guest_ && CublasLtProducts::takes(call)) {
    return keep(guest_->multiply(weights_.type(), call));
  }
  if (w.bits == 0) {
    return keep(launch_multiply(driver_.stream(), weights_.type(), call), "a product");
  }
  keep(launch_multiply_quant(driver_.stream(), {call, scales_of(w), gated}),
       "a product with packed weights");
}

void CudaStep::multiply(const DeviceMatrix& w, const float* bias, const void* x, uint32_t rows,
                        float* y, bool add, float factor) {
  MultiplyCall call = multiply_call(w, bias, x, rows, y);
  call.add = add;
  call.factor = factor;
  multiply(w, call);
}

int CudaStep::multiply_all(const DeviceStack& stack, std::initializer_list<StackPart> parts,
                           float* y) {
  int width = 0;
  for (const StackPart& part : parts) width += part.matrix.n_out;
  const bool guests = guest_ && stack.matrix.bits == 0;
  if (stack.matrix.n_out > 0 && !guests) {
    multiply(stack.matrix, stack.bias, normed_, rows_, y);
    return width;
  }
  for (const StackPart& part : parts) {
    MultiplyCall call = multiply_call(part.matrix, part.bias, normed_, rows_, y);
    call.y_stride = width;
    multiply(part.matrix, call);
    y += part.matrix.n_out;
  }
  return width;
}

void CudaStep::embed() {
  const ModelPlan& plan = setup_.model->plan;
  EmbedCall call = {};
  call.tokens = tokens_;
  call.positions = positions_;
  call.table = weights_.embedding.data;
  call.quant = scales_of(weights_.embedding);
  call.position_table = plan.learned_positions ? weights_.positions.data : nullptr;
  call.weights = weights_.type();
  call.hidden = hidden_;
  call.rows = rows_;
  call.width = static_cast<int>(plan.hidden);
  call.stride = weights_.embedding.stride;
  call.position_stride = weights_.positions.stride;
  call.scale = plan.embedding_scale;
  keep(launch_embed(driver_.stream(), call), "the embedding");
  if (!plan.embedding_norm) return;
  norm(plan.embedding_norm, weights_.embedding_norm, weights_.embedding_norm_bias, hidden_, rows_,
       hidden_, Input::f32);
}

void CudaStep::attention_norm(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  norm(plan(layer).attention_norm, w.attention_norm, w.attention_norm_bias, hidden_, rows_, normed_,
       weights_.type());
}

void CudaStep::norm_for_mlp(uint32_t layer, void* out, Input type) {
  const LayerPlan& own = plan(layer);
  const DeviceLayer& w = weights_.layers[layer];
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

void CudaStep::qkv(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  input_of(static_cast<bool>(plan(layer).attention_norm));
  if (plan(layer).latent) return latent_qkv(layer);
  if (shares_kv(layer)) return multiply(w.q, w.q_bias, normed_, rows_, qkv_);
  multiply_all(w.qkv, {{w.q, w.q_bias}, {w.k, w.k_bias}, {w.v, w.v_bias}}, qkv_);
}

CudaStep::Heads CudaStep::heads_of(uint32_t layer) const {
  const auto q_width = static_cast<int>(plan(layer).attention.q_width());
  const auto kv_width = static_cast<int>(plan(layer).attention.kv_width());
  if (plan(layer).latent) {
    return {qkv_, qkv_ + static_cast<size_t>(rows_) * q_width, nullptr, q_width, kv_width};
  }
  if (shares_kv(layer)) return {qkv_, nullptr, nullptr, q_width, 0};
  const int stride = q_width + 2 * kv_width;
  return {qkv_, qkv_ + q_width, qkv_ + q_width + kv_width, stride, stride};
}

void CudaStep::norm_heads(const SelfAttentionPlan& attention, const float* weight,
                          const float* bias, float* heads, uint32_t count, int stride) {
  const bool whole = attention.qk_norm_extent == QkNormExtent::whole;
  NormShape shape;
  shape.rows = whole ? rows_ : rows_ * count;
  shape.width = static_cast<int>(whole ? count * attention.head_dim : attention.head_dim);
  shape.x_stride = shape.out_stride = stride;
  shape.heads = whole ? 1 : count;
  shape.weight_rows = attention.qk_norm_extent == QkNormExtent::own_head ? count : 1;
  shape.eps = attention.qk_norm.eps;
  shape.centered = attention.qk_norm.kind == NormKind::layer;
  keep(launch_norm(driver_.stream(), heads, weight, bias, heads, Input::f32, shape),
       "the norm of heads");
}

void CudaStep::qk_norm(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const SelfAttentionPlan& attention = plan(layer).attention;
  const Heads heads = heads_of(layer);
  norm_heads(attention, w.q_norm, w.q_norm_bias, heads.q, attention.heads, heads.q_stride);
  if (shares_kv(layer)) return;
  norm_heads(attention, w.k_norm, w.k_norm_bias, heads.k, attention.kv_heads, heads.kv_stride);
}

// Rows have nothing but q, K and V.
void CudaStep::clip(uint32_t layer) {
  const uint64_t count = uint64_t{rows_} * static_cast<uint64_t>(heads_of(layer).q_stride);
  keep(launch_adjust(driver_.stream(), qkv_, count, 1.0f, 0.0f, plan(layer).attention.clip),
       "clipping");
}

void CudaStep::rotate(uint32_t layer) {
  place_heads(layer);
}

void CudaStep::place_heads(uint32_t layer) {
  const LayerPlan& own = plan(layer);
  const LayerShape& shape = setup_.shape->layers[layer];
  const Heads heads = heads_of(layer);
  HeadsCall call = {};
  call.rows = rows_;
  call.cache = cache_shape(shape.group);
  if (own.attention.rope >= 0) {
    const auto rope = static_cast<size_t>(own.attention.rope);
    const RopePlan& turn = setup_.model->plan.ropes[rope];
    call.angles = device_angles_[rope];
    call.half = static_cast<int>(turn.dim / 2);
    call.pairs = turn.pairs;
    call.q = heads.q;
    call.q_stride = heads.q_stride;
    call.q_heads = static_cast<int>(own.attention.heads);
    call.q_dim = static_cast<int>(own.attention.head_dim);
  }
  if (own.latent) {
    // The last elements turn; q is not absorbed yet.
    call.q = latent_.expanded + own.latent.nope_dim;
    call.q_dim = static_cast<int>(own.latent.q_dim());
    call.q_stride = call.q_heads * call.q_dim;
    call.k_first = static_cast<int>(own.latent.kv_rank);
  }
  if (!shares_kv(layer)) {
    const GroupPlan& step = plan_of(layer);
    call.k = heads.k;
    if (!setup_.shape->groups[shape.group].v_inside_k()) call.v = heads.v;
    call.kv_stride = heads.kv_stride;
    call.blocks = step.blocks;
    call.offsets = step.offsets;
    call.k_cache = const_cast<void*>(kv_.k(shape.group, shape.index_in_group));
    call.v_cache = const_cast<void*>(kv_.v(shape.group, shape.index_in_group));
  }
  keep(launch_place_heads(driver_.stream(), call), "the way of heads to attention");
}

CacheShape CudaStep::cache_shape(GroupId id) const {
  const KvGroup& group = setup_.shape->groups[id];
  const KvGroupGeometry& geometry = setup_.groups[id];
  return {cache_type(geometry.dtype), static_cast<int>(group.kv_heads),
          static_cast<int>(group.k_dim), static_cast<int>(geometry.block_tokens)};
}

void CudaStep::attend(uint32_t layer) {
  const LayerShape& shape = setup_.shape->layers[layer];
  const GroupPlan& own = plan_of(layer);
  const KvGroup& group = setup_.shape->groups[shape.group];
  if (plan(layer).attention.rope < 0) place_heads(layer);
  const Heads heads = heads_of(layer);
  AttentionArrays arrays = own.device;
  if (own.host.parents.empty()) arrays.parents = nullptr;
  arrays.q = heads.q;
  arrays.k = kv_.k(shape.group, shape.index_in_group);
  arrays.v = kv_.v(shape.group, shape.index_in_group);
  arrays.sinks = weights_.layers[layer].sinks;
  arrays.slopes = weights_.layers[layer].slopes;
  arrays.partial = partial_;
  arrays.sums = sums_;
  arrays.out = attended_;
  AttentionShape call = {};
  call.cache = cache_shape(shape.group);
  call.q_stride = heads.q_stride;
  call.out_type = weights_.type();
  call.v_dim = static_cast<int>(group.v_dim);
  call.out_head_stride = call.v_dim;
  call.out_stride = DeviceWeights::input_stride(plan(layer).attention.q_width());
  if (plan(layer).latent) {
    // Heads are inputs of products one by one.
    call.out_head_stride = DeviceWeights::input_stride(group.v_dim);
    call.out_stride = static_cast<int>(own.heads) * call.out_head_stride;
  }
  call.heads = static_cast<int>(own.heads);
  own.host.describe(call);
  call.window = group.window_tokens;
  call.scale = shape.scale;
  call.cap = shape.soft_cap;
  keep(launch_attention(driver_.stream(), arrays, call), "attention");
}

// hidden += scale · post_norm(x · Wᵀ + bias)
void CudaStep::add_to_hidden(const LayerPlan& layer, const NormPlan& post_norm, const float* weight,
                             const float* bias, const DeviceMatrix& w, const float* w_bias,
                             const void* x) {
  if (!post_norm) return multiply(w, w_bias, x, rows_, hidden_, true, layer.residual_scale);
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

void CudaStep::attention_output(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  add_to_hidden(plan(layer), plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias, w.output, w.output_bias, attended_);
}

void CudaStep::mlp_in(uint32_t layer) {
  if (plan(layer).experts) return experts_in(layer);
  const DeviceLayer& w = weights_.layers[layer];
  const MlpPlan& mlp = plan(layer).mlp;
  input_of(static_cast<bool>(plan(layer).mlp_input_norm()));
  const ActivationKind kind = activation_kind(mlp.activation);
  const int out_stride = DeviceWeights::input_stride(mlp.width);
  if (const DeviceMatrix& both = w.gate_up.matrix; gates_at_once(both)) {
    const MultiplyCall call = multiply_call(both, w.gate_up.bias, normed_, rows_, nullptr);
    return multiply(both, call, {inner_, out_stride, kind});
  }
  int stride = static_cast<int>(mlp.width);
  if (mlp.gated) {
    stride = multiply_all(w.gate_up, {{w.gate, w.gate_bias}, {w.up, w.up_bias}}, gate_up_);
  } else {
    multiply(w.up, w.up_bias, normed_, rows_, gate_up_);
  }
  keep(launch_gate(driver_.stream(), mlp.gated ? gate_up_ : nullptr,
                   mlp.gated ? gate_up_ + mlp.width : gate_up_, inner_, weights_.type(), rows_,
                   static_cast<int>(mlp.width), stride, out_stride, kind),
       "the activation");
}

void CudaStep::mlp_out(uint32_t layer) {
  if (plan(layer).experts) return experts_out(layer);
  const DeviceLayer& w = weights_.layers[layer];
  add_to_hidden(plan(layer), plan(layer).mlp_post_norm, w.mlp_post_norm, w.mlp_post_norm_bias,
                w.down, w.down_bias, inner_);
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
  const uint64_t numbers = uint64_t{count} * plan.vocabulary;
  if (plan.logit_scale != 1.0f || plan.logit_soft_cap > 0.0f) {
    keep(launch_adjust(driver_.stream(), logits_, numbers, plan.logit_scale, plan.logit_soft_cap,
                       0.0f),
         "the scale of logits");
  }
}

}  // namespace tenon::cuda
