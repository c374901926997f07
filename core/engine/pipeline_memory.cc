// How much KV memory a pipeline gets, and how it is cut into blocks.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "core/base/text.h"
#include "core/engine/pipeline_parts.h"

namespace tenon {
namespace {

// Memory that the system can still give without swapping; 0 when it does not say.
uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

Result<DType> dtype_named(std::string_view name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::i4}) {
    if (dtype_name(type) == name) return type;
  }
  return internal("the negotiated kv.dtype '" + std::string(name) + "' is no element type");
}

// Bytes that one token takes in a group, all layers, K and V.
uint64_t token_bytes(const KvGroup& group, DType dtype) {
  const uint64_t elements = uint64_t{group.kv_heads} * (group.k_dim + group.v_dim);
  return group.layers * elements * dtype_bits(dtype) / 8;
}

uint64_t round_up(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

// Half of what is left once the weights are in memory, but never more than all sequences need.
uint64_t automatic_bytes(const Pipeline& pipeline, uint64_t sequence_bytes) {
  const uint64_t wanted = sequence_bytes * pipeline.limits.max_sequences;
  const uint64_t available = available_memory_bytes();
  const uint64_t weights = pipeline.model->weight_bytes();
  const uint64_t left = available > weights ? (available - weights) / 2 : 0;
  return std::clamp(left, std::min(sequence_bytes, wanted), wanted);
}

}  // namespace

Status plan_kv_memory(Pipeline& pipeline) {
  const ModelShape& shape = pipeline.shape->shape();
  const ResolvedFact* dtype = pipeline.facts.find("kv.dtype");
  const ResolvedFact* block = pipeline.facts.find("kv.block_tokens");
  if (dtype == nullptr || block == nullptr || block->number < 1) {
    return internal("the negotiation left kv.dtype or kv.block_tokens open");
  }
  KvGeometry& geometry = pipeline.geometry;
  TENON_ASSIGN_OR_RETURN(geometry.dtype, dtype_named(dtype->word));
  geometry.context_tokens = pipeline.limits.context_tokens;
  geometry.max_sequences = pipeline.limits.max_sequences;

  const uint64_t block_tokens = static_cast<uint64_t>(block->number);
  const uint64_t sequence_tokens = round_up(geometry.context_tokens, block_tokens);
  uint64_t bytes_per_token = 0;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    bytes_per_token += token_bytes(shape.groups[group], geometry.dtype);
  }
  const uint64_t sequence_bytes = sequence_tokens * bytes_per_token;
  const auto& configured = pipeline.config.kv_memory_bytes;
  const uint64_t memory =
      configured.value ? *configured.value : automatic_bytes(pipeline, sequence_bytes);
  if (memory < sequence_bytes) {
    return invalid_argument(
        configured.origin.text() + ": kv_cache.memory is " + approximate_bytes(memory) +
        ", but one sequence of " + std::to_string(geometry.context_tokens) + " tokens needs " +
        approximate_bytes(sequence_bytes) + "; raise it, or lower limits.context_tokens to " +
        std::to_string(memory / bytes_per_token / block_tokens * block_tokens) + " or less");
  }
  // No more blocks than all sequences could ever hold.
  const uint64_t most = sequence_tokens / block_tokens * geometry.max_sequences;
  uint64_t blocks = memory / (block_tokens * bytes_per_token);
  if (!configured.value) blocks = std::min(blocks, most);
  blocks = std::min<uint64_t>(blocks, 0x7fffffff);
  for (GroupId group = 0; group < shape.group_count; ++group) {
    pipeline.group_geometry.push_back({static_cast<uint32_t>(block_tokens),
                                       static_cast<uint32_t>(blocks),
                                       token_bytes(shape.groups[group], geometry.dtype)});
  }
  geometry.group_count = shape.group_count;
  geometry.groups = pipeline.group_geometry.data();
  return {};
}

}  // namespace tenon
