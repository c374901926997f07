#include "core/engine/answers/beams/beam_memory.h"

#include <algorithm>

namespace tenon {
namespace {

// Its state, and the one behind its next token.
constexpr uint64_t kSlotsOfABeam = 2;

uint64_t blocks_for(uint64_t tokens, uint64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

// Leading tokens that all beams have. Each has at least one of its own behind them.
uint32_t common_tokens(const std::vector<Sequence*>& beams) {
  const Sequence& first = *beams.front();
  uint32_t common = first.known - 1;
  for (const Sequence* beam : beams) {
    const auto begin = first.tokens.begin();
    const auto end = begin + std::min(common, beam->known - 1);
    common = static_cast<uint32_t>(std::mismatch(begin, end, beam->tokens.begin()).first - begin);
  }
  return common;
}

}  // namespace

// The last token of a sequence is never computed.
uint64_t beam_tokens(uint64_t prompt, uint64_t limit, uint64_t beams, uint64_t block_tokens,
                     uint64_t shared) {
  const uint64_t computed = std::max(limit, prompt + 1) - 1;
  const uint64_t whole = blocks_for(computed, block_tokens), once = shared / block_tokens;
  if (computed == prompt) return whole * block_tokens;
  return (once + beams * (whole - once)) * block_tokens;
}

uint64_t beam_slots(uint64_t beams) {
  return kSlotsOfABeam * beams;
}

uint64_t fork_tokens(const Sequence& sequence, uint32_t block_tokens) {
  const RequestState& state = *sequence.request;
  const std::vector<Sequence*>& beams = state.beam_group->running;
  const bool forks = sequence.stop_at > 0 || (beams.size() == 1 && sequence.generated() == 0 &&
                                              sequence.known + 1 < state.limit_tokens);
  if (block_tokens == 0) return forks ? kSlotsOfABeam * (state.request.beams - 1) : 0;
  const auto behind = [&](uint64_t fork, uint64_t known) {
    return blocks_for(known, block_tokens) - fork / block_tokens;
  };
  const auto own = [&](uint64_t fork) { return behind(fork, fork); };
  uint64_t blocks = 0;
  if (sequence.stop_at > 0) {
    for (const Sequence* beam : beams) blocks += behind(sequence.stop_at, beam->known);
    blocks -= own(sequence.stop_at);
  } else if (forks) {
    blocks = state.request.beams * behind(sequence.known, uint64_t{sequence.known} + 1);
    blocks -= own(sequence.known);
  }
  return blocks * block_tokens;
}

Status release_group(BeamGroup& group, KVCacheManager& manager, SequenceTable& table) {
  Status worst;
  bool released = false;
  for (Sequence* beam : group.running) {
    if (beam->state != SequenceState::running) continue;
    Status status = manager.release(beam->id, ReleaseHow::recompute);
    if (!status.ok() && worst.ok()) worst = std::move(status);
    if (!worst.ok() && !released) return worst;
    released = true;
    table.preempt(*beam);
  }
  for (Sequence* beam : group.running) {
    beam->stop_at = 0;
    path_of(*beam).sampled = false;
  }
  group.ready = false;
  if (group.running.size() < 2) return worst;
  // The oldest: what a scheduler remembers of a group, it remembers of that one.
  group.trunk = *std::min_element(group.running.begin(), group.running.end(),
                                  [](auto* a, auto* b) { return a->id < b->id; });
  group.trunk->stop_at = common_tokens(group.running);
  return worst;
}

}  // namespace tenon
