// Messages over lanes: the methods, and the head of every reply.
#pragma once

#include <tenon/host.h>
#include <tenon/scheduler.h>
#include <tenon/status.h>

#include <cstdint>

#include "core/isolation/wire.h"

namespace tenon {

enum class GuestMethod : uint32_t {
  describe = 1,  // loads the library and says what is in it
  score,
  examine,  // describe, and the scores of all
  create,   // the one instance of a process
  destroy,
  on_event,
  plan,
  begin_sampling,
  end_sampling,
  sample,
  verify,
  distribution,
  bind_drafter,
  offer,
  draft,
  observe,
};

// A log line, or what is added to a counter, that a plugin gave its host in a call.
struct GuestNote {
  bool is_line = false;
  LogLevel level = LogLevel::info;
  uint64_t amount = 0;
};

// Questions of a scheduler to its ledger. Growths that the process took for granted come first
// (Foreseen), and are made before the question is answered.
enum class LedgerQuestion : uint32_t { none = 0, cached, cost, try_grow, held, release };
struct LedgerAsked {
  LedgerQuestion question = LedgerQuestion::none;
  SeqId seq = kNoSeq;
  uint32_t first = 0;   // tokens; at_least; how
  uint32_t second = 0;  // at_most
};
union LedgerAnswer {
  CachedTokens cached;
  uint64_t cost;
  GrowResult grown;
  HeldTokens held;
  bool released;
};
struct LedgerReply {
  uint64_t free_tokens = 0;  // after what was asked
  uint64_t words[2] = {};    // a LedgerAnswer
};
struct Foreseen {
  SeqId seq = kNoSeq;
  uint32_t at_least = 0;
  uint32_t at_most = 0;
  uint32_t granted = 0;  // what the plan goes by
};

// How a plan's message begins; events and both lists of sequences follow.
struct PlanHead {
  uint64_t step_id = 0;
  int64_t now_ns = 0;
  SchedulerLimits limits;
  uint64_t kv_tokens = 0;
  StepCost last_step;
  uint64_t free_tokens = 0;
  // Growths of running sequences that surely fit may be foreseen in blocks of so many tokens; 0:
  // no.
  uint32_t foresee_block_tokens = 0;
};
// How a plan's reply goes on; grants and what was foreseen since the last question follow.
struct PlanTail {
  uint32_t grant_count = 0;
  uint32_t idle_rows = 0;
  int64_t wake_ns = 0;
};

}  // namespace tenon
