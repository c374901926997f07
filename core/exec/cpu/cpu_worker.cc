#include "core/exec/cpu/cpu_worker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/exec/rotary.h"

namespace tenon {

Status CpuWorker::allocate() {
  CpuBuffers one_row;
  TENON_RETURN_IF_ERROR(one_row.allocate(*step_.model, step_.weights, 1));
  own_normed_ = std::move(one_row.normed);
  own_q_ = std::move(one_row.q);
  own_k_ = std::move(one_row.k);
  own_prepared_ = std::move(one_row.prepared);
  return {};
}

void CpuWorker::run() {
  rows_ = step_.batch->rows;
  status_ = Status();
  run_decoder(config(), *this);
}

// The first error is the one to tell. A worker goes on behind it: the others wait at the barriers.
void CpuWorker::keep(Status status) {
  if (!status.ok() && status_.ok()) status_ = std::move(status);
}

void CpuWorker::embed() {
  embed_tokens();
  const uint64_t half = config().head_dim / 2;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* angles = step_.buffers.angles.floats() + row * 2 * half;
    rotary_angles(step_.batch->positions[row], step_.frequencies, angles, angles + half);
  }
  barrier();
}

// All rows in one call; where some enter as they are, each run of tokens between them.
void CpuWorker::embed_tokens() {
  const std::span<const TokenId> tokens = step_.batch->tokens;
  const TensorView& inputs = step_.batch->inputs;
  const uint64_t width = config().hidden;
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

// The rows of `prepare`'s slices, which follows without a barrier.
void CpuWorker::norm(std::span<const float> scale) {
  const uint64_t width = config().hidden;
  const float* hidden = step_.buffers.hidden.floats();
  if (alone()) {
    step_.ops->rms_norm(hidden, scale.data(), config().hidden, config().norm_eps,
                        own_normed_.floats());
    return;
  }
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    step_.ops->rms_norm(hidden + row * width, scale.data(), config().hidden, config().norm_eps,
                        step_.buffers.normed.floats() + row * width);
  }
}

void CpuWorker::attention_norm(uint32_t layer) {
  norm(vectors(layer).attention_norm);
}
void CpuWorker::mlp_norm(uint32_t layer) {
  norm(vectors(layer).mlp_norm);
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
  multiply(normed(), std::span(products).first(shares_kv(layer) ? 1 : 3));
  if (!alone()) return;
  std::memcpy(own_q_.data(), to.q.data(), own_q_.bytes());
  std::memcpy(own_k_.data(), to.k.data(), own_k_.bytes());
}

// Calls function(row, head, is_query) for this worker's heads of q and k. The shares are the same
// for every operation on heads, so that one may follow the other without a barrier.
template <typename Function>
void CpuWorker::for_each_head(uint32_t layer, Function&& function) {
  const uint64_t heads = config().heads;
  const uint64_t a_row = heads + (shares_kv(layer) ? 0 : config().kv_heads);
  const uint64_t dim = config().head_dim;
  const Share mine = share_of(rows_ * a_row, alone() ? Slice{} : slice_);
  for (uint64_t item = mine.first; item < mine.last; ++item) {
    const uint64_t row = item / a_row;
    const uint64_t head = item % a_row;
    const bool is_query = head < heads;
    float* of_q = q() + (row * heads + head) * dim;
    float* of_k = k() + (row * config().kv_heads + head - heads) * dim;
    function(row, is_query ? of_q : of_k, is_query);
  }
}

void CpuWorker::qk_norm(uint32_t layer) {
  const LayerWeights& w = vectors(layer);
  for_each_head(layer, [&](uint64_t, float* head, bool is_query) {
    step_.ops->rms_norm(head, (is_query ? w.q_norm : w.k_norm).data(), config().head_dim,
                        config().norm_eps, head);
  });
}

void CpuWorker::rotate(uint32_t layer) {
  const uint32_t half = config().head_dim / 2;
  for_each_head(layer, [&](uint64_t row, float* head, bool) {
    const float* angles = step_.buffers.angles.floats() + row * 2 * half;
    step_.ops->rotate_halves(angles, angles + half, half, head);
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
  gather(step_.kept, step_.buffers.hidden.floats(), config().hidden);
  gather(step_.kept, step_.buffers.attended.floats(), uint64_t{config().heads} * config().head_dim);
  rows_ = static_cast<uint32_t>(step_.kept.size());
  barrier();
}

// Of the wanted rows those of this worker's share of `from`, which may be its own work.
void CpuWorker::hand_out(float* to, const float* from, std::span<const uint32_t> rows) const {
  const uint64_t width = config().hidden;
  const Share mine = share_of(rows_, slice_);
  for (size_t i = 0; i < rows.size() && to != nullptr; ++i) {
    if (rows[i] < mine.first || rows[i] >= mine.last) continue;
    std::memcpy(to + i * width, from + rows[i] * width, width * sizeof(float));
  }
}

// What comes out of the final norm, and then the rows whose logits are wanted alone.
void CpuWorker::hand_out_final_rows() {
  float* to = step_.hidden_out.of_layer(config().layers);
  if (to != nullptr) {
    norm(step_.model->final_norm);
    hand_out(to, normed(), step_.hidden_at);
  }
  if (step_.logits_at.size() == rows_) return;
  barrier();
  gather(step_.logits_at, step_.buffers.hidden.floats(), config().hidden);
  rows_ = static_cast<uint32_t>(step_.logits_at.size());
  barrier();
}

void CpuWorker::attention_output(uint32_t layer) {
  if (layer + 1 == config().layers) keep_wanted_rows();
  if (rows_ == 0) return;
  const Product product{&step_.weights.layer(layer).output, vectors(layer).output_bias,
                        step_.buffers.hidden.floats(), Epilogue::add};
  multiply(step_.buffers.attended.floats(), {&product, 1});
}

void CpuWorker::gated_mlp(uint32_t layer) {
  if (rows_ == 0) return;
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const CpuBuffers& to = step_.buffers;
  const Product gated{&w.gate, b.gate_bias, to.gate.floats(), Epilogue::silu_mul, &w.up, b.up_bias};
  multiply(normed(), {&gated, 1});
  const Product down{&w.down, b.down_bias, to.hidden.floats(), Epilogue::add};
  multiply(to.gate.floats(), {&down, 1});
  const bool last = layer + 1 == config().layers;
  hand_out(step_.hidden_out.of_layer(layer), to.hidden.floats(),
           last ? step_.hidden_at : step_.batch->hidden_rows);
}

void CpuWorker::logits() {
  hand_out_final_rows();
  if (rows_ == 0) return;
  norm(step_.model->final_norm);
  const Product product{&step_.weights.head(), {}, step_.buffers.logits.floats()};
  multiply(normed(), {&product, 1});
}

}  // namespace tenon
