// Products of activations and weights, with what is done to them.
#include "core/exec/cpu/products/products.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon {

// The first error is the one to tell. A worker goes on after it: the others wait at the barriers.
void CpuProducts::keep(Status status) {
  if (status.ok()) return;
  step_.has_failed = true;
  if (status_.ok()) status_ = std::move(status);
}

void CpuProducts::reserve(size_t heads, size_t experts) {
  head_jobs_.reserve(heads);
  const size_t most = std::max<size_t>(kMostProducts, 2 * (experts + 1));
  parts_.reserve(most);
  jobs_.reserve(most);
  gathered_.reserve(most);
  if (step_.ranks != nullptr) {
    const size_t ranks = step_.ranks->size();
    exchanged_bytes_.resize(ranks);
    part_starts_.resize(ranks * (ranks + 1));
    part_at_.resize(ranks);
  }
  reserve_adapters();
}

void CpuProducts::reserve_adapters() {
  if (step_.adapters == 0) return;
  const size_t low = size_t{kMostProducts} * step_.adapters;
  parts_.reserve(kMostProducts + low);
  jobs_.reserve(kMostProducts + low);
  gathered_.reserve(kMostProducts + low);
  low_.reserve(low);
  for (std::vector<uint32_t>* rows : {&plain_, &changed_}) rows->reserve(step_.max_rows);
  chosen_.reserve(size_t{kMostProducts} * step_.max_rows);
  scales_.reserve(size_t{kMostProducts} * step_.max_rows);
}

const void* CpuProducts::prepare(const PackedMatrix& matrix, const float* x, uint32_t rows) {
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

void CpuProducts::run_jobs(LinearKernel& kernel, std::span<const LinearJob> jobs) {
  uint64_t columns = 0;
  for (const LinearJob& job : jobs) columns += job.n_out;
  if (columns == 0) return;
  const auto parts = static_cast<uint32_t>(std::min<uint64_t>(
      columns / linear_part_columns(rows_) + slice_.count, WorkQueue::kMaxParts));
  const uint32_t call = linear_calls_++;
  for (WorkRange range; step_.queue->next(slice_.index, call, parts, range);) {
    keep(kernel.run(jobs, range, nullptr));
  }
}

CpuProducts::Part CpuProducts::part_of(const PackedMatrix& matrix, std::span<const float> bias,
                                       float* y) const {
  Part part{.matrix = &matrix, .job = {}};
  part.job.packed = matrix.data;
  part.job.n_out = matrix.columns;
  part.job.k_in = matrix.k_in;
  part.job.x_stride = matrix.k_in;
  part.job.x_rows = rows_;
  part.job.y = y + matrix.first;
  part.job.y_stride = matrix.n_out;
  part.job.bias = bias.empty() ? nullptr : bias.data() + matrix.first;
  return part;
}

// A kernel's own epilogue saves a pass over y. A gated one needs both matrices in one form, and the
// second without a bias.
void CpuProducts::multiply(const float* x, std::span<const Product> products) {
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
      job.y_stride = p.stride();
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

// Jobs that share a preparation run together. Matrices of mixed files may have several kernels. A
// rank may have no columns of a matrix.
void CpuProducts::multiply_parts(const float* x, uint32_t rows, std::span<Part> parts,
                                 uint32_t y_rows) {
  const auto is_here = [](const Part& part) { return part.job.n_out > 0; };
  for (size_t first = 0; first < parts.size(); ++first) {
    const PackedMatrix& matrix = *parts[first].matrix;
    const auto same = [&](const Part& part) {
      return is_here(part) && part.matrix->prepared_like(matrix);
    };
    if (!is_here(parts[first])) continue;
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
  if (step_.ranks != nullptr) gather_products(parts, rows, y_rows > 0 ? y_rows : rows);
}

// All heads of a layer are stored in one format, so one kernel has them all; where files differ by
// head, kernels follow each other.
void CpuProducts::multiply_heads(const std::vector<PackedMatrix>& heads, const HeadRows& x,
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

void CpuProducts::combine(const Product& product) {
  const Share mine = share_of(uint64_t{rows_} * product.matrix->n_out, slice_);
  float* y = product.y + mine.first;
  const float* beside = step_.buffers.product.floats() + mine.first;
  const auto count = static_cast<uint32_t>(mine.last - mine.first);
  if (product.epilogue == Epilogue::add) step_.ops->add(y, beside, count);
  if (product.epilogue == Epilogue::silu_mul) step_.ops->silu_mul(y, beside, count);
  if (product.epilogue == Epilogue::gelu_mul) step_.ops->gelu_mul(y, beside, count);
  barrier();
}

}  // namespace tenon
