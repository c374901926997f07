// Products with low-rank adapters: y = W · x + scale · B · (A · x) for the rows that have one.
//
// A multiplies beside W, since both read x; then B adds to what W made, one adapter's rows a job. A
// row's bits follow from its own adapter alone: W comes first, and no row has two.
#include <algorithm>

#include "core/exec/cpu/products/products.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {

bool CpuProducts::is_adapted(const PackedMatrix& matrix) const {
  if (matrix.adapted == nullptr) return false;
  const std::span<const AdapterRows::OfAdapter> all = adapter_rows().adapters();
  return std::ranges::any_of(all, [&](const AdapterRows::OfAdapter& of) {
    return matrix.adapted->pairs[of.adapter].a.kernel != nullptr;
  });
}

bool CpuProducts::any_adapted(std::span<const Product> products) const {
  if (adapter_rows().adapters().empty()) return false;
  return std::ranges::any_of(products, [this](const Product& product) {
    return is_adapted(*product.matrix) ||
           (product.second != nullptr && is_adapted(*product.second));
  });
}

void CpuProducts::multiply_adapted(const float* x, std::span<const Product> products) {
  parts_.clear();
  low_.clear();
  low_targets_ = 0;
  const Product* composed = nullptr;
  const Product* gated = nullptr;
  for (const Product& product : products) {
    if (product.second != nullptr) {
      gated = &product;
      add_gate(product);
      continue;
    }
    const bool finished =
        (product.matrix->kernel->epilogues() & epilogue_bit(product.epilogue)) != 0;
    if (!finished) composed = &product;
    float* y = finished ? product.y : step_.buffers.product.floats();
    parts_.push_back(part_of(*product.matrix, product.bias, y));
    if (!finished) continue;
    parts_.back().job.epilogue = product.epilogue;
    parts_.back().job.y_stride = product.stride();
  }
  for (const Product& product : products) {
    add_low(*product.matrix, product.y, product.stride());
    if (product.second == nullptr) continue;
    add_low(*product.second, step_.buffers.product.floats(), product.second->n_out);
  }
  multiply_parts(x, rows_, parts_);
  if (composed != nullptr) combine(*composed);
  add_low_products();
  if (gated != nullptr) finish_gate(*gated);
}

// The product of A for every adapter that changes the matrix, to be added to y later.
void CpuProducts::add_low(const PackedMatrix& matrix, float* y, uint64_t y_stride) {
  if (!is_adapted(matrix)) return;
  const uint64_t stride = step_.weights.highest_rank();
  float* u = step_.buffers.low_rank.floats() + uint64_t{low_targets_} * rows_ * stride;
  for (const AdapterRows::OfAdapter& of : adapter_rows().adapters()) {
    const PackedPair& pair = matrix.adapted->pairs[of.adapter];
    if (pair.a.kernel == nullptr) continue;
    Part part = part_of(pair.a, {}, u);
    part.job.y_stride = stride;
    choose_rows(part.job, of.rows);
    parts_.push_back(part);
    low_.push_back({&pair, of.rows, low_targets_, u, y, y_stride, matrix.n_out});
  }
  ++low_targets_;
}

// Rows of x that become the same rows of y.
void CpuProducts::choose_rows(LinearJob& job, std::span<const uint32_t> rows) const {
  if (rows.size() == rows_) return;
  job.rows = job.y_rows = rows;
}

// Whether the kernel finishes gates of the product where no adapter changes them.
bool CpuProducts::is_fused(const Product& product) const {
  return product.second_bias.empty() &&
         product.matrix->pairs_with(*product.second, product.epilogue);
}

// What it offers to end them with; null: nothing.
GateFinishCall CpuProducts::finish_of(const Product& product) const {
  const GateFinish* finish = product.matrix->gate_finish;
  if (finish == nullptr || !is_fused(product)) return nullptr;
  return product.epilogue == Epilogue::silu_mul ? finish->silu_mul : finish->gelu_mul;
}

// What B adds comes in front of a gate's activation, so gate and up go beside each other and are
// finished behind. Rows without an adapter keep their kernel's own activation: where it does not
// offer that by itself, they are a job of their own, and the weights are read once more.
void CpuProducts::add_gate(const Product& product) {
  changed_.clear();
  const bool apart = is_fused(product) && finish_of(product) == nullptr;
  Part gate = part_of(*product.matrix, product.bias, product.y);
  if (apart) {
    sort_gate_rows(product);
    Part whole = gate;
    whole.job.packed_second = product.second->data;
    whole.job.epilogue = product.epilogue;
    choose_rows(whole.job, plain_);
    if (!plain_.empty()) parts_.push_back(whole);
  }
  Part up = part_of(*product.second, product.second_bias, step_.buffers.product.floats());
  for (Part* part : {&gate, &up}) {
    if (apart) choose_rows(part->job, changed_);
    parts_.push_back(*part);
  }
}

// Which rows of a gate an adapter changes.
void CpuProducts::sort_gate_rows(const Product& product) {
  plain_.assign(adapter_rows().without().begin(), adapter_rows().without().end());
  for (const AdapterRows::OfAdapter& of : adapter_rows().adapters()) {
    const auto changes = [&](const PackedMatrix& matrix) {
      return matrix.adapted != nullptr && matrix.adapted->pairs[of.adapter].a.kernel != nullptr;
    };
    std::vector<uint32_t>& to =
        changes(*product.matrix) || changes(*product.second) ? changed_ : plain_;
    to.insert(to.end(), of.rows.begin(), of.rows.end());
  }
}

// Workers take columns.
void CpuProducts::finish_gate(const Product& product) {
  const GateFinishCall of_kernel = finish_of(product);
  if (of_kernel == nullptr && changed_.empty()) return combine(product);
  const uint64_t width = product.matrix->n_out;
  const Share mine = share_of(width, slice_);
  const auto finish = [&](uint32_t row) {
    float* y = product.y + row * width + mine.first;
    const float* up = step_.buffers.product.floats() + row * width + mine.first;
    const uint64_t count = mine.last - mine.first;
    if (of_kernel != nullptr) return of_kernel(y, up, count);
    const auto own =
        product.epilogue == Epilogue::silu_mul ? step_.ops->silu_mul : step_.ops->gelu_mul;
    own(y, up, static_cast<uint32_t>(count));
  };
  if (of_kernel != nullptr) {
    for (uint32_t row = 0; row < rows_; ++row) finish(row);
  } else {
    for (const uint32_t row : changed_) finish(row);
  }
  barrier();
}

// y += scale · B · u. Matrices of other ranks are prepared for anew.
void CpuProducts::add_low_products() {
  for (size_t first = 0; first < low_.size(); ++first) {
    const PackedMatrix& matrix = low_[first].pair->b;
    const auto same = [&](const Low& low) { return low.pair->b.prepared_like(matrix); };
    if (std::any_of(low_.begin(), low_.begin() + static_cast<ptrdiff_t>(first), same)) continue;
    prepare_low(first);
    if (!alone()) barrier();
    run_jobs(*matrix.kernel, jobs_);
    barrier();
  }
  add_beside();
}

// Jobs for all that share a preparation with low_[first]: rows of one target are prepared together,
// adapter by adapter.
void CpuProducts::prepare_low(size_t first) {
  const PackedMatrix& matrix = low_[first].pair->b;
  jobs_.clear();
  chosen_.clear();
  scales_.clear();
  for (size_t i = first; i < low_.size();) {
    const uint32_t target = low_[i].target;
    const float* u = low_[i].u;
    const size_t first_row = chosen_.size(), first_job = jobs_.size();
    for (; i < low_.size() && low_[i].target == target; ++i) {
      if (low_[i].pair->b.prepared_like(matrix)) add_low_job(low_[i], first_row);
    }
    const std::span<const uint32_t> rows = std::span(chosen_).subspan(first_row);
    if (rows.empty()) continue;
    const void* prepared = prepare_rows(matrix, u, rows, target);
    for (LinearJob& job : std::span(jobs_).subspan(first_job)) {
      job.prepared = prepared;
      job.x_rows = matrix.reads_x ? rows_ : static_cast<uint32_t>(rows.size());
    }
  }
}

void CpuProducts::add_low_job(const Low& low, size_t first_row) {
  const PackedMatrix& b = low.pair->b;
  const bool adds = (b.kernel->epilogues() & epilogue_bit(Epilogue::add)) != 0;
  LinearJob job = part_of(b, {}, adds ? low.y : beside_of(low)).job;
  job.x_stride = step_.weights.highest_rank();
  if (adds) job.y_stride = low.y_stride;
  const size_t place = chosen_.size() - first_row;
  job.rows = b.reads_x ? low.rows : std::span(step_.counting).subspan(place, low.rows.size());
  job.y_rows = low.rows;
  job.row_scale = scales_.data() + scales_.size();
  job.epilogue = adds ? Epilogue::add : Epilogue::store;
  chosen_.insert(chosen_.end(), low.rows.begin(), low.rows.end());
  scales_.insert(scales_.end(), low.rows.size(), low.pair->scale);
  jobs_.push_back(job);
}

const void* CpuProducts::prepare_rows(const PackedMatrix& matrix, const float* u,
                                      std::span<const uint32_t> rows, uint32_t target) {
  if (matrix.reads_x) return u;
  std::byte* to = alone() ? own_low_prepared_.data() : step_.buffers.low_prepared.data();
  PrepareCall call;
  call.preparation = matrix.preparation;
  call.packed = matrix.data;
  call.x = u;
  call.x_stride = step_.weights.highest_rank();
  call.rows = static_cast<uint32_t>(rows.size());
  call.x_rows = rows;
  call.prepared = to + target * (alone() ? step_.low_bytes_of_a_row : step_.low_bytes);
  keep(matrix.kernel->prepare(call, alone() ? Slice() : slice_));
  return call.prepared;
}

float* CpuProducts::beside_of(const Low& low) const {
  return step_.buffers.low_beside.floats() +
         uint64_t{low.target} * rows_ * step_.weights.widest_beside();
}

// What kernels without Epilogue::add made. Workers take columns.
void CpuProducts::add_beside() {
  if (step_.weights.widest_beside() == 0) return;
  for (const Low& low : low_) {
    if ((low.pair->b.kernel->epilogues() & epilogue_bit(Epilogue::add)) != 0) continue;
    const Share mine = share_of(low.n_out, slice_);
    for (const uint32_t row : low.rows) {
      const float* own = beside_of(low) + uint64_t{row} * low.n_out;
      step_.ops->add(low.y + uint64_t{row} * low.y_stride + mine.first, own + mine.first,
                     static_cast<uint32_t>(mine.last - mine.first));
    }
  }
  barrier();
}

}  // namespace tenon
