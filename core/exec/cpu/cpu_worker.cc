#include "core/exec/cpu/cpu_worker.h"

#include <algorithm>
#include <array>
#include <cstring>

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

void CpuWorker::embed() {
  const uint64_t half = config().head_dim / 2;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    step_.weights.embed(static_cast<uint32_t>(step_.batch->tokens[row]),
                        step_.buffers.hidden.floats() + row * config().hidden);
    float* angles = step_.buffers.angles.floats() + row * 2 * half;
    rotary_angles(step_.batch->positions[row], step_.frequencies, angles, angles + half);
  }
  barrier();
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

const void* CpuWorker::prepare(LinearKernel& kernel, const float* x, uint32_t k_in) {
  if (alone()) {
    kernel.prepare(x, k_in, 1, k_in, own_prepared_.data(), {0, 1});
    return own_prepared_.data();
  }
  kernel.prepare(x, k_in, rows_, k_in, step_.buffers.prepared.data(), slice_);
  barrier();
  return step_.buffers.prepared.data();
}

void CpuWorker::run_jobs(LinearKernel& kernel, std::span<const LinearJob> jobs) {
  uint64_t columns = 0;
  for (const LinearJob& job : jobs) columns += job.n_out;
  const auto parts = static_cast<uint32_t>(std::min<uint64_t>(
      columns / linear_part_columns(rows_) + slice_.count, WorkQueue::kMaxParts));
  const uint32_t call = linear_calls_++;
  for (WorkRange range; step_.queue->next(slice_.index, call, parts, range);) {
    kernel.run(jobs, range);
  }
}

// Matrices of mixed files may have several kernels, each with a preparation of its own.
void CpuWorker::multiply(const float* x, std::span<const Product> products) {
  std::array<LinearJob, 3> jobs;
  const uint32_t k_in = products[0].matrix->k_in;
  for (size_t first = 0; first < products.size(); ++first) {
    LinearKernel* kernel = products[first].matrix->kernel;
    const auto same = [&](const Product& p) { return p.matrix->kernel == kernel; };
    if (std::any_of(products.begin(), products.begin() + first, same)) continue;
    const void* prepared = prepare(*kernel, x, k_in);
    size_t count = 0;
    for (const Product& p : products.subspan(first)) {
      if (!same(p)) continue;
      LinearJob& job = jobs[count++] = LinearJob();
      job.packed = p.matrix->data;
      job.packed_second = p.second != nullptr ? p.second->data : nullptr;
      job.n_out = p.matrix->n_out;
      job.k_in = k_in;
      job.prepared = prepared;
      job.x_rows = rows_;
      job.y = p.y;
      job.y_stride = p.matrix->n_out;
      job.bias = p.bias.empty() ? nullptr : p.bias.data();
      job.epilogue = p.epilogue;
    }
    run_jobs(*kernel, std::span(jobs).first(count));
    barrier();
  }
}

void CpuWorker::qkv(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const CpuBuffers& to = step_.buffers;
  const Product products[] = {{&w.q, nullptr, b.q_bias, Epilogue::store, to.q.floats()},
                              {&w.k, nullptr, b.k_bias, Epilogue::store, to.k.floats()},
                              {&w.v, nullptr, b.v_bias, Epilogue::store, to.v.floats()}};
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
  AttentionCall call{layer, q(), k(), b.v.floats(), b.attended.floats()};
  if (shares_kv(layer)) call.k = call.v = nullptr;
  for (uint32_t phase = 0; phase < step_.attention_phases; ++phase) {
    // A worker goes on after an error: the others wait for it at the barriers.
    Status status = step_.attention->run(call, phase, slice_);
    if (!status.ok() && status_.ok()) status_ = std::move(status);
    barrier();
  }
}

// Behind the last attention a row matters only if its logits are wanted. Workers take columns, so
// that each moves its own to the front without a barrier in between.
void CpuWorker::keep_wanted_rows() {
  const std::span<const uint32_t> wanted = step_.batch->logits_rows;
  if (wanted.size() == rows_) return;
  const auto gather = [&](float* values, uint64_t width) {
    const Share mine = share_of(width, slice_);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == i) continue;
      std::memcpy(values + i * width + mine.first, values + wanted[i] * width + mine.first,
                  (mine.last - mine.first) * sizeof(float));
    }
  };
  gather(step_.buffers.hidden.floats(), config().hidden);
  gather(step_.buffers.attended.floats(), uint64_t{config().heads} * config().head_dim);
  rows_ = static_cast<uint32_t>(wanted.size());
  barrier();
}

void CpuWorker::attention_output(uint32_t layer) {
  if (layer + 1 == config().layers) keep_wanted_rows();
  if (rows_ == 0) return;
  const Product product{&step_.weights.layer(layer).output, nullptr, vectors(layer).output_bias,
                        Epilogue::add, step_.buffers.hidden.floats()};
  multiply(step_.buffers.attended.floats(), {&product, 1});
}

// gate = silu(gate) · up, in the kernel where it can: both matrices are its own, without biases.
void CpuWorker::gate_and_up(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  float* gate = step_.buffers.gate.floats();
  float* up = step_.buffers.up.floats();
  if (b.gate_bias.empty() && b.up_bias.empty() && w.gate.kernel == w.up.kernel &&
      w.gate.source->format == w.up.source->format) {
    const Product product{&w.gate, &w.up, {}, Epilogue::silu_mul, gate};
    return multiply(normed(), {&product, 1});
  }
  const Product products[] = {{&w.gate, nullptr, b.gate_bias, Epilogue::store, gate},
                              {&w.up, nullptr, b.up_bias, Epilogue::store, up}};
  multiply(normed(), products);
  const Share mine = share_of(uint64_t{rows_} * config().intermediate, slice_);
  step_.ops->silu_mul(gate + mine.first, up + mine.first,
                      static_cast<uint32_t>(mine.last - mine.first));
  barrier();
}

void CpuWorker::gated_mlp(uint32_t layer) {
  if (rows_ == 0) return;
  gate_and_up(layer);
  const Product product{&step_.weights.layer(layer).down, nullptr, vectors(layer).down_bias,
                        Epilogue::add, step_.buffers.hidden.floats()};
  multiply(step_.buffers.gate.floats(), {&product, 1});
}

void CpuWorker::logits() {
  if (rows_ == 0) return;
  norm(step_.model->final_norm);
  const Product product{
      &step_.weights.head(), nullptr, {}, Epilogue::store, step_.buffers.logits.floats()};
  multiply(normed(), {&product, 1});
}

}  // namespace tenon
