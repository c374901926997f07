#include "core/exec/cpu/cpu_step.h"

#include <algorithm>
#include <iterator>

namespace tenon {
Status CpuBuffers::allocate(const Model& model, const PackedWeights& weights, uint32_t max_rows) {
  const ModelConfig& config = model.config;
  const auto rows_of = [max_rows](uint64_t width) {
    return saturating_mul(saturating_mul(width, max_rows), sizeof(float));
  };
  const uint64_t heads = uint64_t{config.heads} * config.head_dim;
  const uint64_t kv_heads = uint64_t{config.kv_heads} * config.head_dim;
  const std::pair<HostMemory*, uint64_t> sizes[] = {
      {&hidden, rows_of(config.hidden)},
      {&normed, rows_of(config.hidden)},
      {&q, rows_of(heads)},
      {&k, rows_of(kv_heads)},
      {&v, rows_of(kv_heads)},
      {&attended, rows_of(heads)},
      {&gate, rows_of(config.intermediate)},
      {&product, rows_of(std::max(config.hidden, config.intermediate))},
      {&prepared, weights.prepared_bytes(max_rows)},
      {&angles, rows_of(config.head_dim)},
      {&logits, rows_of(config.vocabulary)},
  };
  for (const auto& [memory, bytes] : sizes) {
    TENON_ASSIGN_OR_RETURN(*memory, HostMemory::allocate(bytes, HostMemory::Backing::lazy,
                                                         "a buffer for activations"));
  }
  return {};
}

bool CpuBuffers::intact() const {
  return std::ranges::all_of(
      all(), [this](const HostMemory* memory) { return memory == &attended || memory->intact(); });
}

void CpuStep::reserve(uint32_t max_rows) {
  for (std::vector<uint32_t>* rows : {&kept, &logits_at, &hidden_at}) rows->reserve(max_rows);
}

void CpuStep::begin(const BatchView& next) {
  batch = &next;
  const uint32_t layers = model->config.layers;
  hidden_out.begin(next, model->config.hidden);
  kept.assign(next.logits_rows.begin(), next.logits_rows.end());
  const bool late =
      hidden_out.of_layer(layers) != nullptr || hidden_out.of_layer(layers - 1) != nullptr;
  if (late) {
    kept.clear();
    std::ranges::set_union(next.logits_rows, next.hidden_rows, std::back_inserter(kept));
  }
  const auto stand = [this](std::span<const uint32_t> rows, std::vector<uint32_t>& at) {
    at.clear();
    for (const uint32_t row : rows) {
      at.push_back(static_cast<uint32_t>(std::ranges::lower_bound(kept, row) - kept.begin()));
    }
  };
  stand(next.logits_rows, logits_at);
  stand(late ? next.hidden_rows : std::span<const uint32_t>(), hidden_at);
}

}  // namespace tenon
