// The KV memory of a beam group, which its beams have together or not at all: what single ones hold
// while others wait for more is of use to nobody.
//
// A group whose memory was taken comes back as its *trunk*: one beam computes what all have in
// common, and then the others fork from it (beam_groups.h). So it shares as much as it ever did,
// and never needs more than was checked when it was submitted (request_check.h).
#pragma once

#include <tenon/kv_cache.h>

#include "core/engine/answers/beams/beam_answer.h"

namespace tenon {

// Most slots of K/V that a search may hold at a time, in blocks of `block_tokens`: the first
// `shared` tokens' whole blocks once, all else once a beam.
uint64_t beam_tokens(uint64_t prompt, uint64_t limit, uint64_t beams, uint64_t block_tokens,
                     uint64_t shared);
// Most slots of state: each beam has its own, and a slot for the next one.
uint64_t beam_slots(uint64_t beams);

// Slots of K/V (of state, where `block_tokens` is 0) that the group of a beam takes once its
// forks have computed what they know, beyond what the beam itself takes until it forks. 0 where it
// is not about to.
uint64_t fork_tokens(const Sequence& sequence, uint32_t block_tokens);

// Takes the memory of all its beams; they wait. Error: the manager's first; nothing has changed
// only if it came with the first running beam.
Status release_group(BeamGroup& group, KVCacheManager& manager, SequenceTable& table);

}  // namespace tenon
