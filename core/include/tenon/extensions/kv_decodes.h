// An extension of KV managers (kKvDecodes): steps in which each sequence computes one token, in two
// calls instead of several for each sequence. It is what simulations spend their time on.
//
// Threads: [step].
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// One sequence of such a step.
struct KvDecode {
  SeqId seq = kNoSeq;
  std::span<const TokenId> tokens;  // all known ones
};

// `const KvDecodes*`
inline constexpr std::string_view kKvDecodes = "kv_decodes/1";
// Both calls of a manager that offers the extension.
struct KvDecodes {
  void* self = nullptr;  // first argument of both
  // As `step_begin` and then `grow` of each in this order, whose last known token is all that is
  // left to compute. Error: one of them would be refused, or would move bytes. Then nothing has
  // changed, and the usual calls are made.
  Status (*grow)(void* self, uint64_t step_id,
                 std::span<const KvDecode> sequences) noexcept = nullptr;
  // As `step_done` and then `resolve` of each; `tokens` now have the one that followed.
  Status (*resolve)(void* self, uint64_t step_id,
                    std::span<const KvDecode> sequences) noexcept = nullptr;
};

}  // namespace tenon
