// The attention half of a layer.
#include <array>
#include <cmath>
#include <cstring>

#include "core/exec/cpu/step/worker.h"

namespace tenon {

void CpuWorker::qkv(uint32_t layer) {
  if (plan(layer).latent) return latent_qkv(layer);
  const PackedLayer& w = step_.weights.layer(block_of(layer));
  const LayerWeights& b = vectors(block_of(layer));
  const CpuBuffers& to = step_.buffers;
  std::array<Product, kMostProducts> products;
  size_t count = 0;
  products[count++] = {&w[&LayerWeights::q], b.q_bias, to.q.floats()};
  if (plan(layer).attention.output_gate) {
    products[count++] = {&w[&LayerWeights::output_gate], b.output_gate_bias,
                         to.attention_gate.floats()};
  }
  const SelfAttentionPlan& attention = plan(layer).attention;
  if (!shares_kv(layer)) {
    products[count++] = {&w[&LayerWeights::k], b.k_bias, to.k.floats()};
    if (!attention.k_is_v) {
      products[count++] = {&w[&LayerWeights::v], b.v_bias, to.v.floats()};
    }
  }
  const float* x = reads_joined(layer) ? to.joined.floats() : input(plan(layer).attention_norm);
  multiply(x, std::span(products).first(count));
  if (plan(layer).shared.qkv_rank > 0) add_low_qkv(layer, x);
  if (attention.v_scale != 1.0f && !shares_kv(layer)) scale_v(attention);
  if (!alone()) return;
  std::memcpy(own_q_.data(), to.q.data(), own_q_.bytes());
  std::memcpy(own_k_.data(), to.k.data(), own_k_.bytes());
  if (own_v_.bytes() > 0) std::memcpy(own_v_.data(), to.v.data(), own_v_.bytes());
}

// Ends with a barrier.
void CpuWorker::scale_v(const SelfAttentionPlan& attention) {
  const Share mine = share_of(uint64_t{rows_} * attention.v_width(), slice_);
  step_.ops->scale_and_cap(step_.buffers.v.floats() + mine.first, attention.v_scale, 0.0f,
                           static_cast<uint32_t>(mine.last - mine.first));
  barrier();
}

// Calls function(row, head, values, is_query) for this worker's heads of q and k. The shares are
// the same for every operation on heads, so that one may follow the other without a barrier.
template <typename Function>
void CpuWorker::for_each_head(uint32_t layer, Function&& function) {
  const SelfAttentionPlan& attention = plan(layer).attention;
  const uint64_t heads = attention.heads;
  const uint64_t kv_heads = attention.kv_heads;
  const uint64_t a_row = heads + (shares_kv(layer) ? 0 : kv_heads);
  const uint64_t dim = attention.head_dim;
  const Share mine = share_of(rows_ * a_row, alone() ? Slice{} : slice_);
  for (uint64_t item = mine.first; item < mine.last; ++item) {
    const uint64_t row = item / a_row;
    const uint64_t head = item % a_row;
    const bool is_query = head < heads;
    if (is_query) {
      function(row, head, q() + (row * heads + head) * dim, true);
    } else {
      function(row, head - heads, k() + (row * kv_heads + (head - heads)) * dim, false);
    }
  }
}

void CpuWorker::qk_norm(uint32_t layer) {
  const LayerWeights& w = vectors(layer);
  const SelfAttentionPlan& attention = plan(layer).attention;
  if (attention.qk_norm_extent == QkNormExtent::whole) return norm_all_heads(layer);
  const bool own = attention.qk_norm_extent == QkNormExtent::own_head;
  const uint32_t dim = attention.head_dim;
  for_each_head(layer, [&](uint64_t row, uint64_t head, float* values, bool is_query) {
    if (!is_query && attention.makes_v()) make_v(attention, row, head, values);
    const std::vector<float>& scale = is_query ? w.q_norm : w.k_norm;
    const std::vector<float>& bias = is_query ? w.q_norm_bias : w.k_norm_bias;
    const uint64_t at = own ? head * dim : 0;
    norm_row(attention.qk_norm, values, scale.data() + at, bias.empty() ? nullptr : &bias[at], dim,
             values);
  });
  // A rotation after it has the same shares and ends with one.
  const bool rotates_next = attention.rope >= 0 && !attention.qk_norm_after_rope;
  if (!rotates_next && !alone()) barrier();
}

// A head of V, while that of k is a product still.
void CpuWorker::make_v(const SelfAttentionPlan& attention, uint64_t row, uint64_t head,
                       const float* k) {
  const uint32_t dim = attention.head_dim;
  float* to = v() + (row * attention.kv_heads + head) * dim;
  const float* from = attention.k_is_v ? k : to;
  if (attention.v_norm_eps > 0.0f) {
    step_.ops->rms_norm(from, own_ones_.data(), dim, attention.v_norm_eps, to);
  } else {
    std::memcpy(to, from, dim * sizeof(float));
  }
}

// One norm over all heads of a row.
void CpuWorker::norm_all_heads(uint32_t layer) {
  const LayerWeights& w = vectors(layer);
  const SelfAttentionPlan& attention = plan(layer).attention;
  const auto shift = [](const std::vector<float>& bias) {
    return bias.empty() ? nullptr : bias.data();
  };
  const Share mine = share_of(rows_, alone() ? Slice{} : slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* of_q = q() + row * attention.q_width();
    float* of_k = k() + row * attention.kv_width();
    norm_row(attention.qk_norm, of_q, w.q_norm.data(), shift(w.q_norm_bias), attention.q_width(),
             of_q);
    if (shares_kv(layer)) continue;
    norm_row(attention.qk_norm, of_k, w.k_norm.data(), shift(w.k_norm_bias), attention.kv_width(),
             of_k);
  }
  if (!alone()) barrier();
}

void CpuWorker::clip(uint32_t layer) {
  const SelfAttentionPlan& attention = plan(layer).attention;
  for_each_head(layer, [&](uint64_t, uint64_t, float* head, bool) {
    step_.ops->clip(head, attention.clip, attention.head_dim);
  });
  if (!shares_kv(layer)) {
    const Share mine = share_of(uint64_t{rows_} * attention.v_width(), slice_);
    step_.ops->clip(step_.buffers.v.floats() + mine.first, attention.clip,
                    static_cast<uint32_t>(mine.last - mine.first));
  }
  barrier();
}

// In the shares of heads or rows that came before and come after.
void CpuWorker::grow_q(uint32_t layer) {
  const SelfAttentionPlan& attention = plan(layer).attention;
  const auto grow = [&](uint64_t row, float* values, uint32_t count) {
    const float factor = attention.q_growth.at(step_.batch->positions[row]);
    if (factor != 1.0f) step_.ops->scale_and_cap(values, factor, 0.0f, count);
  };
  if (plan(layer).latent) {
    const uint32_t width = attention.heads * plan(layer).latent.q_dim();
    const Share mine = share_of(rows_, alone() ? Slice{} : slice_);
    for (uint64_t row = mine.first; row < mine.last; ++row) {
      grow(row, expanded() + row * width, width);
    }
    return;
  }
  for_each_head(layer, [&](uint64_t row, uint64_t, float* head, bool is_query) {
    if (is_query) grow(row, head, attention.head_dim);
  });
  if (attention.rope < 0 && !alone()) barrier();
}

void CpuWorker::rotate(uint32_t layer) {
  if (plan(layer).latent) return rotate_latent(layer);
  const CpuRope& rope = step_.ropes[static_cast<size_t>(plan(layer).attention.rope)];
  const auto turn = rope.pairs ? step_.ops->rotate_pairs : step_.ops->rotate_halves;
  for_each_head(layer, [&](uint64_t row, uint64_t, float* head, bool) {
    const float* angles = rope.angles + row * 2 * rope.half;
    turn(angles, angles + rope.half, rope.half, head);
  });
  if (!alone()) barrier();
}

static float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

// What the gate after attention multiplies by.
static float open_by(const SelfAttentionPlan& attention, float x) {
  return attention.gate_softplus ? softplus(x) : 1.0f / (1.0f + std::exp(-x));
}

// Ends with a barrier.
void CpuWorker::gate_attended(const LayerPlan& layer) {
  const SelfAttentionPlan& attention = layer.attention;
  float* attended = step_.buffers.attended.floats();
  const float* gate = step_.buffers.attention_gate.floats();
  const Share mine = share_of(uint64_t{rows_} * attention.gate_width(), slice_);
  if (!attention.gate_by_head && !attention.gate_softplus) {
    step_.ops->sigmoid_mul(attended + mine.first, gate + mine.first,
                           static_cast<uint32_t>(mine.last - mine.first));
  } else {
    const uint32_t each = attention.gate_by_head ? layer.kernel_out_width() / attention.heads : 1;
    for (uint64_t i = mine.first; i < mine.last; ++i) {
      const float open = open_by(attention, gate[i]);
      for (uint64_t at = i * each; at < (i + 1) * each; ++at) attended[at] *= open;
    }
  }
  barrier();
}

// Rows of q and k with one more element, next to each other in CpuBuffers::expanded. Ends with a
// barrier.
void CpuWorker::mask_keys(uint32_t layer) {
  const SelfAttentionPlan& attention = plan(layer).attention;
  const LayerWeights& w = vectors(layer);
  const CpuBuffers& b = step_.buffers;
  const Product of_v{&step_.weights.layer(layer)[&LayerWeights::mask_in], w.mask_in_bias,
                     b.scores.floats()};
  multiply(b.v.floats(), {&of_v, 1});
  const uint64_t dim = attention.head_dim, heads = attention.heads, kv_heads = attention.kv_heads;
  float* const wide_k = masked_k(layer);
  const Share mine = share_of(rows_, slice_);
  const auto widen = [dim](const float* from, float last, float* to) {
    std::memcpy(to, from, dim * sizeof(float));
    to[dim] = last;
  };
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    for (uint64_t at = row * heads; at < (row + 1) * heads; ++at) {
      widen(q() + at * dim, 1.0f / attention.scale, b.expanded.floats() + at * (dim + 1));
    }
    for (uint64_t at = row * kv_heads; at < (row + 1) * kv_heads; ++at) {
      const float rate = w.mask_rate[at % kv_heads];
      widen(k() + at * dim, std::exp(rate * softplus(b.scores.floats()[at])),
            wide_k + at * (dim + 1));
    }
  }
  barrier();
}

void CpuWorker::attend(uint32_t layer) {
  const CpuBuffers& b = step_.buffers;
  AttentionCall call;
  call.layer = layer;
  const bool latent = static_cast<bool>(plan(layer).latent);
  const bool masked = plan(layer).attention.learned_mask;
  call.q = latent ? b.q.floats() : masked ? b.expanded.floats() : q();
  call.k = shares_kv(layer) ? nullptr : masked ? masked_k(layer) : k();
  call.v = shares_kv(layer) || latent ? nullptr : v();
  call.out = b.attended.data();
  if (plan(layer).index) store_k_of_chosen(layer);
  for (uint32_t phase = 0; phase < step_.attention.phases(layer); ++phase) {
    keep(step_.attention.run(call, phase, slice_));
    barrier();
  }
  if (plan(layer).attention.output_gate) gate_attended(plan(layer));
  if (const auto sums = step_.scores.rows(layer); !sums.empty()) {
    keep(step_.attention.score(call, sums, slice_));
    barrier();  // the next layer stores and rotates where this reads
  }
  if (is_last_mixer(layer) && !plan(layer).recurrent) keep_wanted_rows(layer);
}

// Each rank's heads, next to those of the others.
const float* CpuWorker::attended_by_all(uint32_t layer, const float* own) {
  const ColumnStarts& starts = step_.cut.layers[layer].attended;
  const bool shares = step_.by_all.attended != nullptr &&
                      step_.weights.layer(block_of(layer))[&LayerWeights::output].starts != nullptr;
  float* all = shares ? step_.by_all.attended : step_.buffers.attended_by_all.floats();
  const Gathered heads{own, plan(layer).attended_width(), all, starts.back(), rows_, &starts};
  gather_columns({&heads, 1});
  return all;
}

void CpuWorker::attention_output(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& w = vectors(block_of(layer));
  float* own = (plan(layer).latent ? step_.buffers.expanded : step_.buffers.attended).floats();
  // Layers with such a norm are not cut by heads.
  norm_wide_rows(plan(layer).attention.attended_norm, w.attended_norm, plan(layer).attended_width(),
                 own);
  const bool is_gathered = step_.cut.by_heads(layer) && !step_.cut.layers[layer].adds_attention;
  const float* x = is_gathered ? attended_by_all(layer, own) : own;
  add_to_stream(plan(layer).attention_scale(), x,
                step_.weights.layer(block_of(layer))[&LayerWeights::output], w.output_bias,
                plan(layer).attention_post_norm, w.attention_post_norm, w.attention_post_norm_bias);
}

}  // namespace tenon
