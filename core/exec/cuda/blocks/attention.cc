// What attention launches.
#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {

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

void CudaStep::qkv(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  if (joins(layer) || plan(layer).shared) {
    multiply_all(block_weights(layer).qkv, joined_, qkv_);
    if (plan(layer).shared.qkv_rank > 0) add_low_qkv(layer);
    return;
  }
  input_of(static_cast<bool>(plan(layer).attention_norm));
  if (plan(layer).latent) return latent_qkv(layer);
  if (shares_kv(layer)) return multiply(w.qkv.parts[0], normed_, qkv_);
  multiply_all(w.qkv, normed_, qkv_);
}

CudaStep::Heads CudaStep::heads_of(uint32_t layer) const {
  const auto q_width = static_cast<int>(plan(layer).attention.q_width());
  const auto kv_width = static_cast<int>(plan(layer).attention.kv_width());
  if (plan(layer).latent) {
    return {qkv_, qkv_ + static_cast<size_t>(rows_) * q_width, nullptr, nullptr, q_width, kv_width};
  }
  if (shares_kv(layer)) return {qkv_, nullptr, nullptr, nullptr, q_width, 0};
  const bool gated = plan(layer).attention.output_gate;
  const int stride = (gated ? 2 : 1) * q_width + 2 * kv_width;
  float* const k = qkv_ + q_width;
  return {qkv_, k, k + kv_width, gated ? k + 2 * kv_width : nullptr, stride, stride};
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
  // Of several ranks the heads of all stand side by side afterwards. Latent attention makes more
  // of its own first.
  const ColumnStarts* const cut = plan(layer).latent ? nullptr : attended_starts(layer);
  arrays.out = cut != nullptr ? gather_.own() : attended_;
  AttentionShape call = {};
  call.cache = cache_shape(shape.group);
  call.q_stride = heads.q_stride;
  call.out_type = weights_.type();
  call.v_dim = static_cast<int>(group.v_dim);
  call.out_head_stride = call.v_dim;
  call.out_stride = cut != nullptr ? RankGather::stride(*cut)
                                   : DeviceWeights::input_stride(plan(layer).attention.q_width());
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
  if (heads.gate != nullptr) {
    keep(launch_open(driver_.stream(), heads.gate, arrays.out, weights_.type(), rows_,
                     static_cast<int>(plan(layer).attention.q_width()), heads.q_stride,
                     call.out_stride),
         "the gate after attention");
  }
  if (cut == nullptr) return;
  gather(*cut, weights_.type(), rows_, attended_, DeviceWeights::input_stride(cut->back()));
}

void CudaStep::attention_output(uint32_t layer) {
  const DeviceLayer& w = block_weights(layer);
  add_to_hidden(plan(layer), plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias, w.output, w.output_bias, attended_);
}

}  // namespace tenon::cuda
