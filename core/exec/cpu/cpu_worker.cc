#include "core/exec/cpu/cpu_worker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/exec/rotary.h"
#include "core/model/weight_rows.h"

namespace tenon {

Status CpuWorker::allocate() {
  CpuBuffers one_row;
  TENON_RETURN_IF_ERROR(one_row.allocate(*step_.model, step_.weights, 1));
  own_normed_ = std::move(one_row.normed);
  own_q_ = std::move(one_row.q);
  own_k_ = std::move(one_row.k);
  own_prepared_ = std::move(one_row.prepared);
  if (plan().learned_positions) own_position_.resize(plan().hidden);
  return {};
}

void CpuWorker::run() {
  rows_ = step_.batch->rows;
  status_ = Status();
  run_decoder(plan(), *this);
}

// The first error is the one to tell. A worker goes on behind it: the others wait at the barriers.
void CpuWorker::keep(Status status) {
  if (!status.ok() && status_.ok()) status_ = std::move(status);
}

void CpuWorker::embed() {
  embed_tokens();
  const Share mine = share_of(rows_, slice_);
  for (const CpuRope& rope : step_.ropes) {
    for (uint64_t row = mine.first; row < mine.last; ++row) {
      float* angles = rope.angles + row * 2 * rope.half;
      rotary_angles(step_.batch->positions[row], rope.frequencies, rope.factor, angles,
                    angles + rope.half);
    }
  }
  barrier();
  if (plan().embedding_scale != 1.0f || plan().learned_positions) scale_and_place_rows();
}

// What enters as it is was scaled where it comes from.
void CpuWorker::scale_and_place_rows() {
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* hidden = step_.buffers.hidden.floats() + row * width;
    if (step_.batch->tokens[row] != kNoToken) {
      step_.ops->scale_and_cap(hidden, plan().embedding_scale, 0.0f, width);
    }
    if (!plan().learned_positions) continue;
    read_row(step_.model->positions, step_.batch->positions[row], own_position_.data());
    step_.ops->add(hidden, own_position_.data(), width);
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
    keep(step_.weights.embed(tokens.subspan(first, last - first), hidden + first * width, slice_));
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
  const LayerWeights& w = vectors(layer);
  norm(plan(layer).attention_norm, w.attention_norm, w.attention_norm_bias);
}
void CpuWorker::mlp_norm(uint32_t layer) {
  if (!plan(layer).mlp_norm) return attention_norm(layer);
  const LayerWeights& w = vectors(layer);
  norm(plan(layer).mlp_norm, w.mlp_norm, w.mlp_norm_bias);
}

const void* CpuWorker::prepare(const PackedMatrix& matrix, const float* x) {
  if (matrix.reads_x) {
    if (!alone()) barrier();
    return x;
  }
  const HostMemory& to = alone() ? own_prepared_ : step_.buffers.prepared;
  PrepareCall call;
  call.preparation = matrix.preparation;
  call.packed = matrix.data;
  call.x = x;
  call.x_stride = matrix.k_in;
  call.rows = rows_;
  call.prepared = to.data();
  keep(matrix.kernel->prepare(call, alone() ? Slice() : slice_));
  if (!alone()) barrier();
  return call.prepared;
}

void CpuWorker::run_jobs(LinearKernel& kernel, std::span<const LinearJob> jobs) {
  uint64_t columns = 0;
  for (const LinearJob& job : jobs) columns += job.n_out;
  const auto parts = static_cast<uint32_t>(std::min<uint64_t>(
      columns / linear_part_columns(rows_) + slice_.count, WorkQueue::kMaxParts));
  const uint32_t call = linear_calls_++;
  for (WorkRange range; step_.queue->next(slice_.index, call, parts, range);) {
    keep(kernel.run(jobs, range, nullptr));
  }
}

CpuWorker::Part CpuWorker::part_of(const PackedMatrix& matrix, std::span<const float> bias,
                                   float* y) const {
  Part part{.matrix = &matrix, .job = {}};
  part.job.packed = matrix.data;
  part.job.n_out = matrix.n_out;
  part.job.k_in = matrix.k_in;
  part.job.x_stride = matrix.k_in;
  part.job.x_rows = rows_;
  part.job.y = y;
  part.job.y_stride = matrix.n_out;
  part.job.bias = bias.empty() ? nullptr : bias.data();
  return part;
}

// A kernel's own epilogue saves a pass over y. A gated one needs both matrices in one form, and the
// second without a bias.
void CpuWorker::multiply(const float* x, std::span<const Product> products) {
  std::array<Part, 4> parts;
  size_t count = 0;
  const Product* composed = nullptr;
  for (const Product& p : products) {
    const bool paired =
        p.second == nullptr || (p.second->prepared_like(*p.matrix) && p.second_bias.empty() &&
                                p.second->source->format == p.matrix->source->format);
    if (paired && (p.matrix->kernel->epilogues() & epilogue_bit(p.epilogue)) != 0) {
      LinearJob& job = (parts[count++] = part_of(*p.matrix, p.bias, p.y)).job;
      job.packed_second = p.second == nullptr ? nullptr : p.second->data;
      job.epilogue = p.epilogue;
      continue;
    }
    composed = &p;
    float* beside = step_.buffers.product.floats();
    parts[count++] = part_of(*p.matrix, p.bias, p.second == nullptr ? beside : p.y);
    if (p.second != nullptr) parts[count++] = part_of(*p.second, p.second_bias, beside);
  }
  multiply_parts(x, std::span(parts).first(count));
  if (composed != nullptr) combine(*composed);
}

// Jobs that share a preparation run together. Matrices of mixed files may have several kernels.
void CpuWorker::multiply_parts(const float* x, std::span<Part> parts) {
  std::array<LinearJob, 4> jobs;
  for (size_t first = 0; first < parts.size(); ++first) {
    const PackedMatrix& matrix = *parts[first].matrix;
    const auto same = [&](const Part& part) { return part.matrix->prepared_like(matrix); };
    if (std::any_of(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(first), same)) continue;
    const void* prepared = prepare(matrix, x);
    size_t count = 0;
    for (Part& part : parts.subspan(first)) {
      if (!same(part)) continue;
      part.job.prepared = prepared;
      jobs[count++] = part.job;
    }
    run_jobs(*matrix.kernel, std::span(jobs).first(count));
    barrier();
  }
}

void CpuWorker::combine(const Product& product) {
  const Share mine = share_of(uint64_t{rows_} * product.matrix->n_out, slice_);
  float* y = product.y + mine.first;
  const float* beside = step_.buffers.product.floats() + mine.first;
  const auto count = static_cast<uint32_t>(mine.last - mine.first);
  if (product.epilogue == Epilogue::add) step_.ops->add(y, beside, count);
  if (product.epilogue == Epilogue::silu_mul) step_.ops->silu_mul(y, beside, count);
  if (product.epilogue == Epilogue::gelu_mul) step_.ops->gelu_mul(y, beside, count);
  barrier();
}

void CpuWorker::qkv(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const CpuBuffers& to = step_.buffers;
  const Product products[] = {{&w.q, b.q_bias, to.q.floats()},
                              {&w.k, b.k_bias, to.k.floats()},
                              {&w.v, b.v_bias, to.v.floats()}};
  multiply(input(plan(layer).attention_norm), std::span(products).first(shares_kv(layer) ? 1 : 3));
  if (!alone()) return;
  std::memcpy(own_q_.data(), to.q.data(), own_q_.bytes());
  std::memcpy(own_k_.data(), to.k.data(), own_k_.bytes());
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
    float* of_q = q() + (row * heads + head) * dim;
    float* of_k = k() + (row * kv_heads + head - heads) * dim;
    function(row, is_query ? head : head - heads, is_query ? of_q : of_k, is_query);
  }
}

void CpuWorker::qk_norm(uint32_t layer) {
  const LayerWeights& w = vectors(layer);
  const SelfAttentionPlan& attention = plan(layer).attention;
  if (attention.qk_norm_extent == QkNormExtent::whole) return norm_all_heads(layer);
  const bool own = attention.qk_norm_extent == QkNormExtent::own_head;
  const uint32_t dim = attention.head_dim;
  for_each_head(layer, [&](uint64_t, uint64_t head, float* values, bool is_query) {
    const std::vector<float>& scale = is_query ? w.q_norm : w.k_norm;
    const std::vector<float>& bias = is_query ? w.q_norm_bias : w.k_norm_bias;
    const uint64_t at = own ? head * dim : 0;
    norm_row(attention.qk_norm, values, scale.data() + at, bias.empty() ? nullptr : &bias[at], dim,
             values);
  });
  // A rotation would follow with the same shares and end with one.
  if (attention.rope < 0 && !alone()) barrier();
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

void CpuWorker::rotate(uint32_t layer) {
  const CpuRope& rope = step_.ropes[static_cast<size_t>(plan(layer).attention.rope)];
  const auto turn = rope.pairs ? step_.ops->rotate_pairs : step_.ops->rotate_halves;
  for_each_head(layer, [&](uint64_t row, uint64_t, float* head, bool) {
    const float* angles = rope.angles + row * 2 * rope.half;
    turn(angles, angles + rope.half, rope.half, head);
  });
  if (!alone()) barrier();
}

void CpuWorker::attend(uint32_t layer) {
  const CpuBuffers& b = step_.buffers;
  AttentionCall call;
  call.layer = layer;
  call.q = q();
  call.k = shares_kv(layer) ? nullptr : k();
  call.v = shares_kv(layer) ? nullptr : b.v.data();
  call.out = b.attended.data();
  for (uint32_t phase = 0; phase < step_.attention.phases(layer); ++phase) {
    keep(step_.attention.run(call, phase, slice_));
    barrier();
  }
  if (is_last(layer)) keep_wanted_rows();
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

// Behind the last attention a row matters only if its logits or hidden states are wanted.
void CpuWorker::keep_wanted_rows() {
  if (step_.kept.size() == rows_) return;
  gather(step_.kept, step_.buffers.hidden.floats(), plan().hidden);
  gather(step_.kept, step_.buffers.attended.floats(), plan().layers.back().attention.q_width());
  rows_ = static_cast<uint32_t>(step_.kept.size());
  barrier();
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
    norm(plan().final_norm, step_.model->final_norm, step_.model->final_norm_bias);
    hand_out(to, normed(), step_.hidden_at);
  }
  if (step_.logits_at.size() == rows_) return;
  barrier();
  gather(step_.logits_at, step_.buffers.hidden.floats(), plan().hidden);
  rows_ = static_cast<uint32_t>(step_.logits_at.size());
  barrier();
}

// As it is, a product is added by its kernel. Else it is finished beside, a row by one worker.
void CpuWorker::add_to_stream(uint32_t layer, const float* x, const PackedMatrix& matrix,
                              std::span<const float> bias, const NormPlan& post_norm,
                              std::span<const float> scale, std::span<const float> norm_bias) {
  float* hidden = step_.buffers.hidden.floats();
  if (plan(layer).adds_plainly(post_norm)) {
    const Product product{&matrix, bias, hidden, Epilogue::add};
    return multiply(x, {&product, 1});
  }
  float* update = step_.buffers.product.floats();
  const Product product{&matrix, bias, update};
  multiply(x, {&product, 1});
  const uint32_t width = plan().hidden;
  const float* shift = norm_bias.empty() ? nullptr : norm_bias.data();
  const Share mine = share_of(rows_, slice_);
  for (uint64_t at = mine.first * width; at < mine.last * width; at += width) {
    if (post_norm) norm_row(post_norm, update + at, scale.data(), shift, width, update + at);
    step_.ops->add_scaled(hidden + at, update + at, plan(layer).residual_scale, width);
  }
  barrier();
}

void CpuWorker::attention_output(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& w = vectors(layer);
  add_to_stream(layer, step_.buffers.attended.floats(), step_.weights.layer(layer).output,
                w.output_bias, plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias);
}

// Kernels finish gates by SiLU and by GELU's approximation; others are made of two products.
void CpuWorker::mlp_in(uint32_t layer) {
  if (rows_ == 0) return;
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const MlpPlan& mlp = plan(layer).mlp;
  const CpuBuffers& to = step_.buffers;
  const float* x = input(plan(layer).mlp_input_norm());
  const bool silu = mlp.activation == Activation::silu;
  if (mlp.gated && (silu || mlp.activation == Activation::gelu_tanh)) {
    const Product gated{
        &w.gate, b.gate_bias, to.inner.floats(), silu ? Epilogue::silu_mul : Epilogue::gelu_mul,
        &w.up,   b.up_bias};
    return multiply(x, {&gated, 1});
  }
  float* beside = mlp.gated ? to.product.floats() : nullptr;
  const Product products[] = {{&w.up, b.up_bias, mlp.gated ? beside : to.inner.floats()},
                              {&w.gate, b.gate_bias, to.inner.floats()}};
  multiply(x, std::span(products).first(mlp.gated ? 2 : 1));
  const Share mine = share_of(uint64_t{rows_} * mlp.width, slice_);
  step_.ops->activate(mlp.activation, to.inner.floats() + mine.first,
                      mlp.gated ? beside + mine.first : nullptr,
                      static_cast<uint32_t>(mine.last - mine.first));
  barrier();
}

void CpuWorker::mlp_out(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& w = vectors(layer);
  add_to_stream(layer, step_.buffers.inner.floats(), step_.weights.layer(layer).down, w.down_bias,
                plan(layer).mlp_post_norm, w.mlp_post_norm, w.mlp_post_norm_bias);
  hand_out(step_.hidden_out.of_layer(layer), step_.buffers.hidden.floats(),
           is_last(layer) ? step_.hidden_at : step_.batch->hidden_rows);
}

void CpuWorker::logits() {
  hand_out_final_rows();
  if (rows_ == 0) return;
  norm(plan().final_norm, step_.model->final_norm, step_.model->final_norm_bias);
  float* logits = step_.buffers.logits.floats();
  const Product product{&step_.weights.head(), {}, logits};
  multiply(normed(), {&product, 1});
  if (plan().logit_scale == 1.0f && plan().logit_soft_cap == 0.0f) return;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    step_.ops->scale_and_cap(logits + row * plan().vocabulary, plan().logit_scale,
                             plan().logit_soft_cap, plan().vocabulary);
  }
}

}  // namespace tenon
