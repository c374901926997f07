// How much KV memory a pipeline gets, and how it is cut into blocks.
#include <algorithm>
#include <string>

#include "core/base/quote.h"
#include "core/base/saturating.h"
#include "core/base/text.h"
#include "core/pipeline/composing/composing.h"

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

// Slots that a running sequence holds: its state, and where its step may end; planned ahead, the
// next step's as well. With drafts each of them is an end; where slots are few, fewer are drafted.
constexpr uint64_t kSlotsForDrafts = 4;

struct StateNeeds {
  uint64_t slot_bytes = 0;  // of all recurrent groups together; 0: there are none
  uint64_t kept_slots = 0;  // of them, a step's for prefixes; 0: the manager keeps none
  uint64_t least_slots = 0;
  uint64_t most_slots = 0;  // that all sequences may hold, and as many cached as they write

  uint64_t least_bytes() const { return least_slots * slot_bytes; }
  uint64_t most_bytes() const { return saturating_mul(most_slots, slot_bytes); }
};

StateNeeds state_needs(const StrategyPlugins& pipeline) {
  const ModelShape& shape = pipeline.kv_shape();
  StateNeeds needs;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    if (shape.groups[group].kind == KvKind::recurrent) {
      needs.slot_bytes += shape.groups[group].state_bytes;
    }
  }
  if (needs.slot_bytes == 0) return needs;
  const ResolvedFact* kept = pipeline.facts.find("kv.snapshots");
  if (kept != nullptr) needs.kept_slots = static_cast<uint64_t>(kept->number);
  needs.least_slots = (pipeline.config.plan_ahead.value ? 3 : 2) + needs.kept_slots;
  needs.most_slots =
      pipeline.limits.max_sequences *
      (needs.least_slots + needs.kept_slots + (pipeline.config.drafter ? kSlotsForDrafts : 0));
  return needs;
}

// States take what all sequences may hold, but no more than half of the memory where tokens want
// some too (or what these leave over), and leave room for one sequence of full length. Of memory
// that someone asked for, states that are kept for prefixes take all of that share.
uint64_t slots_of(const StrategyPlugins& pipeline, const StateNeeds& needs, uint64_t memory,
                  uint64_t sequence_bytes) {
  if (needs.slot_bytes == 0) return 0;
  const uint64_t left = memory - sequence_bytes;
  const uint64_t all_tokens =
      std::min(memory, saturating_mul(sequence_bytes, pipeline.limits.max_sequences));
  const uint64_t share = std::min(left, std::max(memory / 2, memory - all_tokens));
  const bool all = needs.kept_slots > 0 && pipeline.config.kv_memory_bytes.value;
  return std::clamp(std::min(share / needs.slot_bytes, kMostBlocks), needs.least_slots,
                    all ? kMostBlocks : needs.most_slots);
}

// Half of what is left once the weights are in memory, but never more than all sequences need.
uint64_t automatic_bytes(const PipelineRequest& request, const StrategyPlugins& pipeline,
                         uint64_t sequence_bytes, const StateNeeds& states) {
  const uint64_t available = memory_beside_weights(request, pipeline);
  const uint64_t swap = pipeline.config.kv_swap_bytes.value;
  const uint64_t left = available > swap ? (available - swap) / 2 : 0;
  return std::min(
      left, saturating_add(sequence_bytes * pipeline.limits.max_sequences, states.most_bytes()));
}

// Slots that one sequence of full length holds at most, in the group that keeps most of it.
uint64_t held_tokens(const StrategyPlugins& pipeline, uint64_t block_tokens) {
  const uint64_t all = round_up(pipeline.limits.context_tokens, block_tokens);
  if (!pipeline.eviction) return all;
  const ModelShape& shape = pipeline.kv_shape();
  uint64_t most = round_up(pipeline.eviction->most_tokens, block_tokens);
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const uint64_t window = shape.groups[group].window_tokens;
    // In front of a step's rows, and in whole blocks at both ends.
    const uint64_t step = round_up(window + pipeline.eviction->every, block_tokens) + block_tokens;
    if (window > 0) most = std::max(most, step);
  }
  return std::min(all, most);
}

// `fits`: tokens of the longest sequence that would fit.
Status too_little(const StrategyPlugins& pipeline, uint64_t memory, uint64_t sequence_bytes,
                  const StateNeeds& states, uint64_t fits) {
  const auto& configured = pipeline.config.kv_memory_bytes;
  const std::string context = std::to_string(pipeline.limits.context_tokens);
  const bool evicts = pipeline.eviction.has_value();
  const std::string lower =
      fits == 0 || evicts ? ""
                          : "lower limits.context_tokens to " + std::to_string(fits) + " or less";
  std::string needs = "one sequence of " + context + " tokens" +
                      (evicts ? ", as much as is kept of it (" + pipeline.evicts + ")," : "") +
                      " needs ";
  if (sequence_bytes > 0) needs += approximate_bytes(sequence_bytes);
  if (states.slot_bytes > 0) {
    needs += (sequence_bytes > 0 ? " of K and V and " : "") +
             approximate_bytes(states.least_bytes()) + " of recurrent state (" +
             std::to_string(states.least_slots) + " slots" +
             (states.kept_slots > 0
                  ? ", of which kv_cache " + in_quotes(pipeline.config.kv_cache.plugin.value) +
                        " keeps " + std::to_string(states.kept_slots) + " for prefixes)"
                  : ")");
  }
  if (!configured.value) {
    return invalid_argument(needs + (states.slot_bytes > 0 ? "" : " of K and V") + ", but only " +
                            approximate_bytes(memory) +
                            " can be used (half of what is free beside the weights); " +
                            (lower.empty() ? "" : lower + ", or ") + "set kv_cache.memory");
  }
  return invalid_argument(configured.origin.text() + ": kv_cache.memory is " +
                          approximate_bytes(memory) + ", but " + needs + "; raise it" +
                          (lower.empty() ? "" : ", or " + lower));
}

// Blocks of the swap pool, as many in each group that keeps tokens, and slots of states.
struct SwapPool {
  uint32_t blocks = 0;
  uint32_t slots = 0;
};
Result<SwapPool> swap_pool(const StrategyPlugins& pipeline, uint64_t block_bytes,
                           const StateNeeds& states) {
  const auto& configured = pipeline.config.kv_swap_bytes;
  SwapPool pool;
  if (configured.value == 0) return pool;
  uint64_t left = configured.value;
  if (states.slot_bytes > 0) {
    const uint64_t share = block_bytes > 0 ? left / 2 : left;
    pool.slots = static_cast<uint32_t>(
        std::min<uint64_t>(share / states.slot_bytes, pipeline.limits.max_sequences));
    left -= pool.slots * states.slot_bytes;
    if (pool.slots == 0) {
      return invalid_argument(configured.origin.text() + ": kv_cache.swap_memory is " +
                              approximate_bytes(configured.value) + ", but one recurrent state " +
                              (block_bytes > 0 ? "may take half of it and " : "") + "takes " +
                              approximate_bytes(states.slot_bytes) +
                              "; raise it, or set 0 for no pool");
    }
  }
  if (block_bytes == 0) return pool;
  if (left < block_bytes) {
    return invalid_argument(configured.origin.text() + ": kv_cache.swap_memory is " +
                            approximate_bytes(configured.value) + ", but one KV block takes " +
                            approximate_bytes(block_bytes) + "; raise it, or set 0 for no pool");
  }
  pool.blocks = static_cast<uint32_t>(std::min(left / block_bytes, kMostBlocks));
  return pool;
}

// What "auto" became, so that the resolved configuration and its hash say it.
void settle_config(PlannedMemory& pipeline, uint32_t block_tokens) {
  PipelineConfig& config = pipeline.config;
  config.kv_dtype.value = pipeline.kv_dtype;
  config.kv_block_tokens.value = block_tokens;
  config.context_tokens.value = pipeline.limits.context_tokens;
  config.max_batch_tokens.value = pipeline.limits.max_batch_tokens;
}

}  // namespace

Status plan_kv_memory(const PipelineRequest& request, PlannedMemory& pipeline) {
  TENON_RETURN_IF_ERROR(check_asked_memory(request, pipeline));
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
  const uint64_t sequence_tokens = held_tokens(pipeline, block_tokens);
  uint64_t bytes_per_token = 0;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    if (shape.groups[group].kind == KvKind::recurrent) continue;
    bytes_per_token += kv_bytes_per_token(shape, group, pipeline.kv_dtype);
  }
  const StateNeeds states = state_needs(pipeline);
  const uint64_t sequence_bytes = sequence_tokens * bytes_per_token;
  pipeline.kv_needs = {bytes_per_token, sequence_bytes, states.least_bytes()};
  const auto& configured = pipeline.config.kv_memory_bytes.value;
  const uint64_t memory =
      configured ? *configured : automatic_bytes(request, pipeline, sequence_bytes, states);
  if (memory < saturating_add(sequence_bytes, states.least_bytes())) {
    const uint64_t left = memory - std::min(memory, states.least_bytes());
    const uint64_t tokens = bytes_per_token == 0 ? 0 : left / bytes_per_token;
    const bool whole_blocks = block_tokens < geometry.context_tokens;
    return too_little(pipeline, memory, sequence_bytes, states,
                      whole_blocks ? tokens / block_tokens * block_tokens : tokens);
  }
  const uint64_t slots = slots_of(pipeline, states, memory, sequence_bytes);
  const uint64_t block_bytes = block_tokens * bytes_per_token;
  const uint64_t blocks =
      block_bytes == 0
          ? 0
          : std::min<uint64_t>((memory - slots * states.slot_bytes) / block_bytes, kMostBlocks);
  TENON_ASSIGN_OR_RETURN(const SwapPool pool, swap_pool(pipeline, block_bytes, states));
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const uint64_t bytes = kv_bytes_per_token(shape, group, pipeline.kv_dtype);
    if (shape.groups[group].kind == KvKind::recurrent) {
      pipeline.group_geometry.push_back(
          {DType::u8, 1, static_cast<uint32_t>(slots), bytes, pool.slots});
      continue;
    }
    pipeline.group_geometry.push_back({pipeline.kv_dtype, static_cast<uint32_t>(block_tokens),
                                       static_cast<uint32_t>(blocks), bytes, pool.blocks});
  }
  geometry.group_count = shape.group_count;
  geometry.groups = pipeline.group_geometry.data();
  if (pipeline.second) place_second_model(pipeline.limits, geometry, *pipeline.second);
  settle_config(pipeline, static_cast<uint32_t>(block_tokens));
  return {};
}

}  // namespace tenon
