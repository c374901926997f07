// Products of activations and weights, with what is done to them.
#include <algorithm>
#include <array>

#include "core/exec/cpu/worker.h"

namespace tenon {

const void* CpuWorker::prepare(const PackedMatrix& matrix, const float* x, uint32_t rows) {
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
  call.rows = rows;
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
  if (any_adapted(products)) return multiply_adapted(x, products);
  std::array<Part, kMostProducts> parts;
  size_t count = 0;
  const Product* composed = nullptr;
  for (const Product& p : products) {
    const bool finished = p.second != nullptr
                              ? p.second_bias.empty() && p.matrix->pairs_with(*p.second, p.epilogue)
                              : (p.matrix->kernel->epilogues() & epilogue_bit(p.epilogue)) != 0;
    if (finished) {
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
  multiply_parts(x, rows_, std::span(parts).first(count));
  if (composed != nullptr) combine(*composed);
}

// Jobs that share a preparation run together. Matrices of mixed files may have several kernels.
void CpuWorker::multiply_parts(const float* x, uint32_t rows, std::span<Part> parts) {
  for (size_t first = 0; first < parts.size(); ++first) {
    const PackedMatrix& matrix = *parts[first].matrix;
    const auto same = [&](const Part& part) { return part.matrix->prepared_like(matrix); };
    if (std::any_of(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(first), same)) continue;
    const void* prepared = prepare(matrix, x, rows);
    jobs_.clear();
    for (Part& part : parts.subspan(first)) {
      if (!same(part)) continue;
      part.job.prepared = prepared;
      jobs_.push_back(part.job);
    }
    run_jobs(*matrix.kernel, jobs_);
    barrier();
  }
}

// All heads of a layer are stored in one format, so one kernel has them all; where files differ by
// head, kernels follow each other.
void CpuWorker::multiply_heads(const std::vector<PackedMatrix>& heads, const HeadRows& x,
                               const HeadRows& y) {
  std::byte* to = (alone() ? own_prepared_ : step_.buffers.prepared).data();
  const Slice slice = alone() ? Slice() : slice_;
  head_jobs_.clear();
  for (size_t head = 0; head < heads.size(); ++head) {
    const PackedMatrix& matrix = heads[head];
    LinearJob& job =
        head_jobs_.emplace_back(part_of(matrix, {}, y.first + head * y.head_stride).job);
    job.y_stride = y.row_stride;
    job.x_stride = x.row_stride;
    job.prepared = x.first + head * x.head_stride;
    if (matrix.reads_x) continue;
    PrepareCall call;
    call.preparation = matrix.preparation;
    call.packed = matrix.data;
    call.x = job.prepared;
    call.x_stride = x.row_stride;
    call.rows = rows_;
    call.prepared = to;
    job.prepared = to;
    keep(matrix.kernel->prepare(call, slice));
    to += matrix.prepared_bytes(rows_);
  }
  if (!alone()) barrier();
  for (size_t first = 0; first < heads.size();) {
    size_t last = first + 1;
    while (last < heads.size() && heads[last].kernel == heads[first].kernel) ++last;
    run_jobs(*heads[first].kernel, std::span(head_jobs_).subspan(first, last - first));
    first = last;
  }
  barrier();
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
  add_update(layer, post_norm, scale, norm_bias);
}

void CpuWorker::add_update(uint32_t layer, const NormPlan& post_norm, std::span<const float> scale,
                           std::span<const float> norm_bias) {
  float* hidden = step_.buffers.hidden.floats();
  float* update = step_.buffers.product.floats();
  const uint32_t width = plan().hidden;
  const float* shift = norm_bias.empty() ? nullptr : norm_bias.data();
  const Share mine = share_of(rows_, slice_);
  for (uint64_t at = mine.first * width; at < mine.last * width; at += width) {
    if (post_norm) norm_row(post_norm, update + at, scale.data(), shift, width, update + at);
    step_.ops->add_scaled(hidden + at, update + at, plan(layer).residual_scale, width);
  }
  barrier();
}

}  // namespace tenon
