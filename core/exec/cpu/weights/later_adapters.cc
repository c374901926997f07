// Low-rank adapters that come while steps run, and go.
#include <algorithm>
#include <deque>

#include "core/exec/cpu/weights/packed_weights.h"

namespace tenon {

// A step looks at every place of a matrix that any adapter changes.
void PackedWeights::set_places(uint32_t places) {
  places_ = places;
  for (auto& [target, adapted] : adapted_) adapted.pairs.resize(places_);
}

// It is packed into memory of its own, and counts once all of it is.
Status PackedWeights::put(uint32_t place, const Adapter& adapter, const Model& model,
                          const LinearResolver& resolve, WorkerPool& pool) {
  const uint64_t total = std::exchange(total_bytes_, 0);
  const uint64_t guards = std::exchange(guard_bytes_, 0);
  std::vector<PackedPair> pairs(adapter.matrices.size());
  HostMemory memory;
  const auto pack = [&]() -> Status {
    for (size_t i = 0; i < pairs.size(); ++i) {
      TENON_RETURN_IF_ERROR(add_pair(adapter.matrices[i], resolve, pairs[i]));
    }
    TENON_ASSIGN_OR_RETURN(
        memory, HostMemory::allocate(total_bytes_, HostMemory::Backing::eager, "an adapter"));
    return pack_all(model, pool, {}, memory);
  };
  Status status = pack();
  placements_.clear();
  total_bytes_ = total;
  guard_bytes_ = guards;
  if (!status.ok()) {
    measure_adapters();
    return status;
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    AdaptedMatrix& adapted = adapted_[adapter.matrices[i].target];
    adapted.pairs.resize(places_);
    adapted.pairs[place] = pairs[i];
  }
  connect_adapted(model);
  later_[place] = std::move(memory);
  return {};
}

void PackedWeights::drop(uint32_t place) {
  for (auto& [target, adapted] : adapted_) {
    if (place < adapted.pairs.size()) adapted.pairs[place] = {};
  }
  later_.erase(place);
  measure_adapters();
}

void PackedWeights::measure_adapters() {
  highest_rank_ = widest_beside_ = 0;
  for (const auto& [target, adapted] : adapted_) {
    for (const PackedPair& pair : adapted.pairs) measure(pair);
  }
}

// Matrices that no adapter changed before are shown what is added to them.
void PackedWeights::connect_adapted(const Model& model) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (auto& [which, matrix] : layers_[i].matrices_) {
      const auto found = adapted_.find(&(model.layers[i].*which));
      if (found != adapted_.end()) matrix.adapted = &found->second;
    }
  }
}

std::vector<LinearKernel*> PackedWeights::kernels_at(uint32_t place) const {
  std::vector<LinearKernel*> kernels;
  for (const auto& [target, adapted] : adapted_) {
    if (place >= adapted.pairs.size()) continue;
    for (LinearKernel* kernel : {adapted.pairs[place].a.kernel, adapted.pairs[place].b.kernel}) {
      const bool is_new = std::ranges::find(kernels, kernel) == kernels.end();
      if (kernel != nullptr && is_new) kernels.push_back(kernel);
    }
  }
  return kernels;
}

uint64_t PackedWeights::bytes_at(uint32_t place) const {
  const auto found = later_.find(place);
  return found == later_.end() ? 0 : found->second.bytes();
}

}  // namespace tenon
