#include "core/pipeline/memory_text.h"

#include <algorithm>

#include "core/base/text.h"

namespace tenon {

uint64_t planned_kv_bytes(const PlannedMemory& pipeline) {
  uint64_t bytes = 0;
  for (const KvGroupGeometry& group : pipeline.group_geometry) {
    bytes += uint64_t{group.blocks} * group.block_tokens * group.bytes_per_token;
  }
  return bytes;
}

uint64_t sequence_bytes(const KvNeeds& needs, uint64_t tokens) {
  return std::min(needs.sequence_bytes, tokens * needs.token_bytes) + needs.state_bytes;
}

uint64_t sequences_in(const KvNeeds& needs, uint64_t kv_bytes, uint64_t tokens, uint64_t most) {
  const uint64_t each = sequence_bytes(needs, tokens);
  return each == 0 ? most : std::min(most, kv_bytes / each);
}

std::string memory_line(const PlannedMemory& pipeline) {
  const uint64_t kv = planned_kv_bytes(pipeline);
  const uint32_t most = pipeline.limits.max_sequences, context = pipeline.limits.context_tokens;
  const uint64_t whole = sequences_in(pipeline.kv_needs, kv, context, most);
  const std::string length = " of " + std::to_string(context) + " tokens";
  const std::string all = std::to_string(most) + (most == 1 ? " sequence" : " sequences");
  const uint32_t ranks = pipeline.cut.ranks;
  return (ranks == 1 ? "memory: weights "
                     : "memory of each of " + std::to_string(ranks) + " ranks: weights about ") +
         approximate_bytes(pipeline.weight_bytes() / ranks) + ", K/V " + approximate_bytes(kv) +
         " for " + all +
         (whole == most ? length : ", or " + std::to_string(whole) + length + " each");
}

}  // namespace tenon
