// The residual stream: embeddings, norms, what is added, and the rows that are handed out.
#include <algorithm>
#include <cstring>

#include "core/exec/cpu/step/worker.h"
#include "core/exec/rotary.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {

void CpuWorker::embed() {
  const bool enters = step_.cut.range.has_first();
  if (enters) step_.head == nullptr ? embed_tokens() : enter_head();
  const Share mine = share_of(rows_, slice_);
  for (const CpuRope& rope : step_.ropes) {
    for (uint64_t row = mine.first; row < mine.last; ++row) {
      float* angles = rope.angles + row * 2 * rope.half;
      rotary_angles(step_.batch->positions[row], rope.frequencies, rope.factor, angles,
                    angles + rope.half);
    }
  }
  barrier();
  const bool finished = !enters || (plan().embedding_scale == 1.0f && !plan().learned_positions &&
                                    !plan().embedding_norm);
  if (!finished) finish_embeddings();
  if (plan().reads_embedded()) keep_embedded();
}

// What enters as it is was scaled where it comes from.
void CpuWorker::finish_embeddings() {
  const std::vector<float>& bias = step_.model->embedding_norm_bias;
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* hidden = step_.buffers.hidden.floats() + row * width;
    if (step_.batch->tokens[row] != kNoToken) {
      step_.ops->scale_and_cap(hidden, plan().embedding_scale, 0.0f, width);
    }
    if (plan().learned_positions) {
      read_row(step_.model->positions, step_.batch->positions[row], own_position_.data());
      step_.ops->add(hidden, own_position_.data(), width);
    }
    norm_row(plan().embedding_norm, hidden, step_.model->embedding_norm.data(),
             bias.empty() ? nullptr : bias.data(), width, hidden);
  }
  barrier();
}

// All rows in one call; where some enter as they are, each run of tokens between them.
void CpuWorker::embed_tokens() {
  const std::span<const TokenId> tokens = step_.batch->tokens;
  const TensorView& inputs = step_.batch->inputs;
  const uint64_t width = plan().hidden;
  float* hidden = step_.buffers.hidden.floats();
  for (size_t first = 0; first < rows_;) {
    size_t last = inputs.data == nullptr ? rows_ : first;
    while (last < rows_ && tokens[last] != kNoToken) ++last;
    const std::span<const TokenId> run = tokens.subspan(first, last - first);
    if (step_.weights.embedding_starts() == nullptr) {
      keep(step_.weights.embed(run, hidden + first * width, slice_));
    } else {
      gather_embedding(run, hidden + first * width);
    }
    for (; last < rows_ && tokens[last] == kNoToken; ++last) {
      if (last % slice_.count != slice_.index) continue;
      std::memcpy(hidden + last * width,
                  static_cast<const float*>(inputs.data) + last * inputs.stride[0],
                  width * sizeof(float));
    }
    first = last;
  }
}

void CpuWorker::norm_row(const NormPlan& norm, const float* x, const float* scale,
                         const float* bias, uint32_t width, float* out) const {
  if (norm.kind == NormKind::rms) step_.ops->rms_norm(x, scale, width, norm.eps, out);
  if (norm.kind == NormKind::layer) step_.ops->layer_norm(x, scale, bias, width, norm.eps, out);
}

// The rows of `prepare`'s slices, which follows without a barrier.
void CpuWorker::norm(const NormPlan& norm, std::span<const float> scale,
                     std::span<const float> bias) {
  const uint32_t width = plan().hidden;
  const float* hidden = step_.buffers.hidden.floats();
  const float* shift = bias.empty() ? nullptr : bias.data();
  if (alone()) return norm_row(norm, hidden, scale.data(), shift, width, own_normed_.floats());
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    norm_row(norm, hidden + row * width, scale.data(), shift, width,
             step_.buffers.normed.floats() + row * width);
  }
}

void CpuWorker::attention_norm(uint32_t layer) {
  if (joins(layer)) return join_head();
  const LayerWeights& w = vectors(layer);
  norm(plan(layer).attention_norm, w.attention_norm, w.attention_norm_bias);
  keep_normed(plan(layer).mixer_keeps);
}
void CpuWorker::mlp_norm(uint32_t layer) {
  if (!plan(layer).mlp_norm) return attention_norm(layer);
  const LayerWeights& w = vectors(block_of(layer));
  norm(plan(layer).mlp_norm, w.mlp_norm, w.mlp_norm_bias);
  keep_normed(plan(layer).mlp_keeps);
}

// hidden = factor · normed, where that is above 0. A single row is every worker's own, of which
// each keeps a part.
void CpuWorker::keep_normed(float factor) {
  if (factor <= 0.0f) return;
  const uint64_t width = plan().hidden;
  if (alone()) barrier();  // others read hidden for their norms
  const Share mine = alone() ? share_of(width, slice_) : share_of(rows_, slice_);
  const uint64_t each = alone() ? 1 : width;
  float* hidden = step_.buffers.hidden.floats() + mine.first * each;
  std::memcpy(hidden, normed() + mine.first * each,
              (mine.last - mine.first) * each * sizeof(float));
  step_.ops->scale_and_cap(hidden, factor, 0.0f,
                           static_cast<uint32_t>((mine.last - mine.first) * each));
}

// Rows `wanted` of `values` move to the front. Workers take columns, so that each moves its own
// without a barrier in between.
void CpuWorker::gather(std::span<const uint32_t> wanted, float* values, uint64_t width) const {
  const Share mine = share_of(width, slice_);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == i) continue;
    std::memcpy(values + i * width + mine.first, values + wanted[i] * width + mine.first,
                (mine.last - mine.first) * sizeof(float));
  }
}

// Of the wanted rows those of this worker's share of `from`, which may be its own work.
void CpuWorker::hand_out(float* to, const float* from, std::span<const uint32_t> rows) const {
  const uint64_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (size_t i = 0; i < rows.size() && to != nullptr; ++i) {
    if (rows[i] < mine.first || rows[i] >= mine.last) continue;
    std::memcpy(to + i * width, from + rows[i] * width, width * sizeof(float));
  }
}

// What comes out of the final norm, and then the rows whose logits are wanted alone.
void CpuWorker::hand_out_final_rows() {
  float* to = step_.hidden_out.of_layer(static_cast<uint32_t>(plan().layers.size()));
  if (to != nullptr) {
    norm_last();
    hand_out(to, input(plan().final_norm), step_.hidden_at);
  }
  if (step_.logits_at.size() == rows_) return;
  barrier();
  gather(step_.logits_at, step_.buffers.hidden.floats(), plan().hidden);
  rows_ = static_cast<uint32_t>(step_.logits_at.size());
  barrier();
}

// As it is, a product is added by its kernel. Else it is finished beside, a row by one worker.
void CpuWorker::add_to_stream(float factor, const float* x, const PackedMatrix& matrix,
                              std::span<const float> bias, const NormPlan& post_norm,
                              std::span<const float> scale, std::span<const float> norm_bias) {
  float* hidden = step_.buffers.hidden.floats();
  if (matrix.is_part) return add_parts(factor, x, matrix, bias, post_norm, scale, norm_bias);
  if (!post_norm && factor == 1.0f) {
    const Product product{&matrix, bias, hidden, Epilogue::add};
    return multiply(x, {&product, 1});
  }
  float* update = step_.buffers.product.floats();
  const Product product{&matrix, bias, update};
  multiply(x, {&product, 1});
  add_update(factor, post_norm, scale, norm_bias);
}

// The ranks' parts of a sum; the first has the bias as well.
void CpuWorker::add_parts(float factor, const float* x, const PackedMatrix& matrix,
                          std::span<const float> bias, const NormPlan& post_norm,
                          std::span<const float> scale, std::span<const float> norm_bias) {
  float* update = step_.buffers.product.floats();
  const bool is_first = step_.ranks->rank() == 0;
  const Product product{&matrix, is_first ? bias : std::span<const float>(), update};
  multiply(x, {&product, 1});
  sum_over_ranks(update, uint64_t{rows_} * plan().hidden);
  add_update(factor, post_norm, scale, norm_bias);
}

void CpuWorker::add_update(float factor, const NormPlan& post_norm, std::span<const float> scale,
                           std::span<const float> norm_bias) {
  float* hidden = step_.buffers.hidden.floats();
  float* update = step_.buffers.product.floats();
  const uint32_t width = plan().hidden;
  const float* shift = norm_bias.empty() ? nullptr : norm_bias.data();
  const Share mine = share_of(rows_, slice_);
  for (uint64_t at = mine.first * width; at < mine.last * width; at += width) {
    if (post_norm) norm_row(post_norm, update + at, scale.data(), shift, width, update + at);
    step_.ops->add_scaled(hidden + at, update + at, factor, width);
  }
  barrier();
}

// Behind the last mixer a row matters only if its logits or hidden states are wanted.
void CpuWorker::keep_wanted_rows(uint32_t layer) {
  if (step_.kept.size() == rows_) return;
  gather(step_.kept, step_.buffers.hidden.floats(), plan().hidden);
  const LayerPlan& last = plan(layer);
  if (last.attends()) {
    gather(step_.kept, step_.buffers.attended.floats(), last.kernel_out_width());
  }
  if (last.input) {
    gather(step_.kept, step_.buffers.inputs.floats(), plan().layer_inputs_width());
  }
  if (last.joins_aside || last.shared) {
    gather(step_.kept, step_.buffers.beside.floats(), plan().hidden);
  }
  if (last.streams) {
    gather(step_.kept, step_.buffers.streams.floats(),
           uint64_t{last.streams.count} * plan().hidden);
  }
  if (last.recurrent) gather(step_.kept, recurred(layer), last.recurrent.inner());
  rows_ = static_cast<uint32_t>(step_.kept.size());
  rows_are_kept_ = true;
  barrier();
}

// Of this worker's rows, in place.
void CpuWorker::norm_rows(const NormPlan& norm, std::span<const float> scale, float* rows) const {
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t at = mine.first * width; at < mine.last * width; at += width) {
    norm_row(norm, rows + at, scale.data(), nullptr, width, rows + at);
  }
}

void CpuWorker::norm_wide_rows(const NormPlan& norm, std::span<const float> scale, uint32_t width,
                               float* rows) {
  if (!norm) return;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* own = rows + row * width;
    norm_row(norm, own, scale.data(), nullptr, width, own);
  }
  barrier();
}

void CpuWorker::weigh_stream(uint32_t layer, bool of_mlp) {
  if (rows_ == 0) return;
  const LayerWeights& w = vectors(layer);
  const std::vector<float>& by = of_mlp ? w.mlp_residual : w.attention_residual;
  const uint64_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* hidden = step_.buffers.hidden.floats() + row * width;
    for (uint64_t i = 0; i < width; ++i) hidden[i] *= by[i];
  }
  barrier();
}

void CpuWorker::scale_layer(uint32_t layer) {
  if (rows_ == 0) return;
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t at = mine.first * width; at < mine.last * width; at += width) {
    step_.ops->scale_and_cap(step_.buffers.hidden.floats() + at, vectors(layer).layer_scale.front(),
                             0.0f, width);
  }
  barrier();
}

// All have stored the layer's K and V before any of them has added its mixer's product.
void CpuWorker::layer_done(uint32_t layer) {
  if (slice_.index == 0) step_.kv_blocks->layer_done(layer);
  if (rows_ == 0) return;
  hand_out(step_.hidden_out.of_layer(layer), step_.buffers.hidden.floats(),
           rows_are_kept_ ? step_.hidden_at : step_.batch->hidden_rows);
}

void CpuWorker::norm_last() {
  const NormPlan& last = plan().final_norm;
  if (last) norm(last, step_.model->final_norm, step_.model->final_norm_bias);
}

void CpuWorker::logits() {
  hand_out_final_rows();
  if (rows_ == 0) return;
  norm_last();
  float* logits = step_.logits();
  const Product product{&step_.weights.head(), step_.model->head_bias, logits};
  multiply(input(plan().final_norm), {&product, 1});
  if (plan().logit_scale == 1.0f && plan().logit_soft_cap == 0.0f) return;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    step_.ops->scale_and_cap(logits + row * plan().vocabulary, plan().logit_scale,
                             plan().logit_soft_cap, plan().vocabulary);
  }
}

}  // namespace tenon
