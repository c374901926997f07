// How much KV memory a pipeline gets, and how it is cut into blocks.
#include <algorithm>
#include <string>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/pipeline/composing.h"

namespace tenon {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr uint64_t kMostBlocks = 0x7fffffff;  // block ids are int32

Result<DType> dtype_named(std::string_view name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::i4}) {
    if (dtype_name(type) == name) return type;
  }
  return internal("the negotiated kv.dtype " + in_quotes(name) + " is no element type");
}

uint64_t round_up(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

// Half of what is left once the weights are in memory, but never more than all sequences need.
uint64_t automatic_bytes(const PipelineRequest& request, const Pipeline& pipeline,
                         uint64_t sequence_bytes) {
  const uint64_t available = request.available_memory_bytes;
  const uint64_t taken =
      pipeline.weight_bytes() + pipeline.config.kv_swap_bytes.value;  // below 2^51 each
  const uint64_t left = available > taken ? (available - taken) / 2 : 0;
  return std::min(left, sequence_bytes * pipeline.limits.max_sequences);
}

// `fits`: tokens of the longest sequence that would fit.
Status too_little(const Pipeline& pipeline, uint64_t memory, uint64_t sequence_bytes,
                  uint64_t fits) {
  const auto& configured = pipeline.config.kv_memory_bytes;
  const std::string context = std::to_string(pipeline.limits.context_tokens);
  const std::string lower =
      fits == 0 ? "" : "lower limits.context_tokens to " + std::to_string(fits) + " or less";
  const std::string needs =
      "one sequence of " + context + " tokens needs " + approximate_bytes(sequence_bytes);
  if (!configured.value) {
    return invalid_argument(needs + " of K and V, but only " + approximate_bytes(memory) +
                            " can be used (half of what is free beside the weights); " +
                            (lower.empty() ? "" : lower + ", or ") + "set kv_cache.memory");
  }
  return invalid_argument(configured.origin.text() + ": kv_cache.memory is " +
                          approximate_bytes(memory) + ", but " + needs + "; raise it" +
                          (lower.empty() ? "" : ", or " + lower));
}

// Blocks of the swap pool, as many in each group.
Result<uint32_t> swap_blocks(const Pipeline& pipeline, uint64_t block_bytes) {
  const auto& configured = pipeline.config.kv_swap_bytes;
  if (configured.value == 0) return uint32_t{0};
  if (configured.value < block_bytes) {
    return invalid_argument(configured.origin.text() + ": kv_cache.swap_memory is " +
                            approximate_bytes(configured.value) + ", but one KV block takes " +
                            approximate_bytes(block_bytes) + "; raise it, or set 0 for no pool");
  }
  return static_cast<uint32_t>(std::min(configured.value / block_bytes, kMostBlocks));
}

// What "auto" became, so that the resolved configuration and its hash say it.
void settle_config(Pipeline& pipeline, uint32_t block_tokens) {
  PipelineConfig& config = pipeline.config;
  config.kv_dtype.value = pipeline.kv_dtype;
  config.kv_block_tokens.value = block_tokens;
  config.context_tokens.value = pipeline.limits.context_tokens;
  config.max_batch_tokens.value = pipeline.limits.max_batch_tokens;
}

}  // namespace

Status plan_kv_memory(const PipelineRequest& request, Pipeline& pipeline) {
  const ModelShape& shape = pipeline.kv_shape();
  const ResolvedFact* dtype = pipeline.facts.find("kv.dtype");
  const ResolvedFact* block = pipeline.facts.find("kv.block_tokens");
  if (dtype == nullptr || block == nullptr || block->number < 1 || block->number > kMostTokens) {
    return internal("the negotiation left kv.dtype or kv.block_tokens open");
  }
  KvGeometry& geometry = pipeline.geometry;
  TENON_ASSIGN_OR_RETURN(pipeline.kv_dtype, dtype_named(dtype->word));
  geometry.context_tokens = pipeline.limits.context_tokens;
  geometry.max_sequences = pipeline.limits.max_sequences;

  const uint64_t block_tokens = static_cast<uint64_t>(block->number);
  const uint64_t sequence_tokens = round_up(geometry.context_tokens, block_tokens);
  uint64_t bytes_per_token = 0;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    bytes_per_token += kv_bytes_per_token(shape, group, pipeline.kv_dtype);
  }
  const uint64_t sequence_bytes = sequence_tokens * bytes_per_token;
  const auto& configured = pipeline.config.kv_memory_bytes.value;
  const uint64_t memory =
      configured ? *configured : automatic_bytes(request, pipeline, sequence_bytes);
  if (memory < sequence_bytes) {
    const uint64_t tokens = memory / bytes_per_token;
    const bool whole_blocks = block_tokens < geometry.context_tokens;
    return too_little(pipeline, memory, sequence_bytes,
                      whole_blocks ? tokens / block_tokens * block_tokens : tokens);
  }
  const uint64_t blocks =
      std::min<uint64_t>(memory / (block_tokens * bytes_per_token), kMostBlocks);
  TENON_ASSIGN_OR_RETURN(const uint32_t pool,
                         swap_blocks(pipeline, block_tokens * bytes_per_token));
  for (GroupId group = 0; group < shape.group_count; ++group) {
    pipeline.group_geometry.push_back({pipeline.kv_dtype, static_cast<uint32_t>(block_tokens),
                                       static_cast<uint32_t>(blocks),
                                       kv_bytes_per_token(shape, group, pipeline.kv_dtype), pool});
  }
  geometry.group_count = shape.group_count;
  geometry.groups = pipeline.group_geometry.data();
  if (pipeline.second) {
    const uint32_t own = pipeline.second->shape->shape().group_count;
    pipeline.second->geometry = geometry;
    pipeline.second->geometry.group_count = own;
    pipeline.second->geometry.groups = geometry.groups + (geometry.group_count - own);
  }
  settle_config(pipeline, static_cast<uint32_t>(block_tokens));
  return {};
}

}  // namespace tenon
