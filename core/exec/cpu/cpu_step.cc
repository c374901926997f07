#include "core/exec/cpu/cpu_step.h"

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

}  // namespace tenon
