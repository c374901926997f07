// How much memory a pipeline takes, and how many sequences that is enough for, in words.
#pragma once

#include <cstdint>
#include <string>

#include "core/pipeline/composing/stages.h"

namespace tenon {

// Of K and V, planned: all groups, states included.
uint64_t planned_kv_bytes(const PlannedMemory& pipeline);
// Bytes that one sequence of `tokens` takes at most, its states included.
uint64_t sequence_bytes(const KvNeeds& needs, uint64_t tokens);
// Sequences of `tokens` that `kv_bytes` are enough for, `most` at most.
uint64_t sequences_in(const KvNeeds& needs, uint64_t kv_bytes, uint64_t tokens, uint64_t most);

// "memory: weights 1.1 GiB, K/V 4.4 GiB for 32 sequences, or 3 of 40960 tokens each"
std::string memory_line(const PlannedMemory& pipeline);

}  // namespace tenon
