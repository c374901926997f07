#include "core/exec/cpu/packed_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/model/weight_rows.h"

namespace tenon {

Status PackedWeights::load(const Model& model, const ModelShape& shape,
                           const LinearResolver& resolve, WorkerPool& pool,
                           const LoadProgress& progress) {
  *this = PackedWeights();
  TENON_RETURN_IF_ERROR(add_all(model, shape, resolve));
  TENON_ASSIGN_OR_RETURN(
      memory_, HostMemory::allocate(total_bytes_, HostMemory::Backing::eager, "the packed model"));
  return pack_all(model, pool, progress);
}

Status PackedWeights::add_all(const Model& model, const ModelShape& shape,
                              const LinearResolver& resolve) {
  layers_.resize(model.layers.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerWeights& from = model.layers[i];
    PackedLayer& to = layers_[i];
    TENON_RETURN_IF_ERROR(add(from.q, resolve, to.q));
    if (shape.layer[i].shares_kv_with < 0) {
      TENON_RETURN_IF_ERROR(add(from.k, resolve, to.k));
      TENON_RETURN_IF_ERROR(add(from.v, resolve, to.v));
    }
    TENON_RETURN_IF_ERROR(add(from.output, resolve, to.output));
    TENON_RETURN_IF_ERROR(add(from.gate, resolve, to.gate));
    TENON_RETURN_IF_ERROR(add(from.up, resolve, to.up));
    TENON_RETURN_IF_ERROR(add(from.down, resolve, to.down));
  }
  embedding_source_ = &model.embedding;
  TENON_RETURN_IF_ERROR(add(model.head, resolve, head_));
  if (model.config.tied_embeddings || readable_by_rows(model.embedding).ok()) return {};
  return add(model.embedding, resolve, embedding_);
}

Status PackedWeights::add(const Weight& weight, const LinearResolver& resolve,
                          PackedMatrix& matrix) {
  TENON_ASSIGN_OR_RETURN(LinearKernel * kernel, resolve(weight.view()));
  if (kernel == nullptr) return internal("no linear kernel was chosen for '" + weight.name + "'");
  if (Status status = kernel->accepts(weight.view()); !status.ok()) {
    return with_context(weight.name, status);
  }
  matrix = {kernel, nullptr, weight.n_out, weight.k_in, &weight};
  placements_.push_back({&matrix, total_bytes_});
  total_bytes_ =
      saturating_add(total_bytes_, round_up_to_line(kernel->packed_bytes(weight.view())));
  if (std::ranges::find(kernels_, kernel) == kernels_.end()) kernels_.push_back(kernel);
  return {};
}

Status PackedWeights::pack_all(const Model& model, WorkerPool& pool, const LoadProgress& progress) {
  std::vector<Status> status(pool.size());
  for (size_t i = 0; i < placements_.size(); ++i) {
    PackedMatrix& matrix = *placements_[i].matrix;
    matrix.data = memory_.data() + placements_[i].offset;
    const WeightView view = matrix.source->view();
    pool.run([&](uint32_t worker) {
      status[worker] = matrix.kernel->pack(view, matrix.data, {worker, pool.size()});
    });
    for (const Status& one : status) {
      if (!one.ok()) return with_context(matrix.source->name, one);
    }
    if (model.checkpoint != nullptr) {
      for (const TensorView& part : view.parts) model.checkpoint->release(part);
    }
    const bool last = i + 1 == placements_.size();
    if (progress) progress(last ? total_bytes_ : placements_[i + 1].offset, total_bytes_);
  }
  placements_.clear();
  if (model.config.tied_embeddings) embedding_ = head_;
  return {};
}

void PackedWeights::embed(uint32_t token, float* out) const {
  if (embedding_.kernel == nullptr) return read_row(*embedding_source_, token, out);
  embedding_.kernel->unpack_row(embedding_.data, embedding_.n_out, embedding_.k_in, token, out);
}

}  // namespace tenon
