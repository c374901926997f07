// What the phases of a step share: the parts, who is alive, what is counted, and how samples end.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/machine/floating_point_state.h"
#include "core/contract/contracts.h"
#include "core/engine/engine_parts.h"
#include "core/engine/records/metrics.h"
#include "core/engine/requests/grammars.h"
#include "core/engine/requests/request_check.h"
#include "core/engine/requests/sequence_table.h"

namespace tenon {

// Around a call of a plugin on the step thread: its time is counted, and what it does to the
// floating-point state is undone.
class PluginCall {
 public:
  PluginCall(const Clock& clock, int64_t& counter_ns) : watch_(clock, counter_ns) {}

 private:
  KeepFloatingPointState keep_;
  Stopwatch watch_;
};

// Whom alone.h has chosen: the beams of a request, or one sequence of it.
struct RunsAlone {
  RequestId request = 0;
  SeqId seq = kNoSeq;  // kNoSeq: all of its beams
};

struct EngineContext {
  EngineContext(EngineParts engine_parts, EngineOptions engine_options);
  EngineContext(const EngineContext&) = delete;
  EngineContext& operator=(const EngineContext&) = delete;

  const Contracts contracts;
  const EngineParts parts;  // its plugins are those of `contracts`
  const EngineOptions options;
  const uint64_t kv_tokens;              // slots of the ledger's group, which every token needs
  const uint32_t sequence_limit_tokens;  // most tokens of one sample

  mutable Grammars grammars;  // any thread may ask
  SequenceTable table;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests;
  EngineTotals totals;
  std::string last_fault;  // of a plugin; empty when there was none
  std::optional<RunsAlone> alone;
  // Waiting ones whose K/V may come from a tier (memory/tiering.h): no scheduler sees them yet.
  std::unordered_set<SeqId> awaiting_kv;

  // The pass over the phases at hand.
  uint64_t step_id = 0;  // whose results come in it
  int64_t start_ns = 0;
  PartTimes times;

  // What requests must fit into.
  RequestLimits request_limits() const;
  // Of the ledger's group; 0 where it counts slots of state.
  uint32_t block_tokens() const;
  // Slots that a sequence of any length holds at most.
  uint64_t held_tokens() const;
  // Slots of the group of states that has the fewest; all of uint64 where no layer recurs.
  uint64_t state_slots() const;

  // Whether anybody looks at the tables of a step.
  bool asks_tables() const;
  // Whether a scheduler may see it: false where another one runs alone.
  bool may_run(const Sequence& sequence) const;

  void begin_pass();
  // Frees what has ended, unless a step in flight may point to it: then the next time.
  void sweep(bool in_flight);

  // The KV manager forgets a sequence that it knows.
  Status end_kv(Sequence& sequence);
  // Takes a sequence out of everything that knows it.
  void retire(Sequence& sequence, EventKind how);
  // Of the ledger's group; nothing where the manager cannot tell.
  KvUsage kv_usage();
  // Tells the drafter how many of a sequence's drafts were kept; `known_tokens` has what is known
  // now.
  void tell_accepted(const Sequence& sequence, uint32_t drafted, uint32_t accepted);
  // Tells the scheduler what became of a sequence in this step.
  void tell_progress(Sequence& sequence, uint32_t accepted_drafts);
  void end_sample(Sequence& sequence, FinishReason reason, std::string_view message,
                  std::string_view stop = {}, Blame blame = Blame::server);
  // All samples of a request, born or not.
  void end_request(RequestState& request, FinishReason reason, std::string_view message,
                   Blame blame = Blame::server);
  // All beams of a request; samples from `first` on have no answer.
  void end_beam_group(RequestState& request, uint32_t first, FinishReason reason,
                      std::string_view message, Blame blame = Blame::server);

  // Notes and logs a fault of a plugin; whom it concerns goes on.
  void fault(const std::string& message);
  void fail_request(RequestState& request, const std::string& message);
  // What the request itself asks for cannot be done: nobody else is at fault.
  void refuse_request(RequestState& request, const std::string& message);
  // The requests of all of them, also where one takes others along.
  void fail_sequences(std::span<Sequence* const> sequences, const std::string& message);

 private:
  std::vector<RequestId> ended_requests_, ended_before_;
};

// Hands on new tokens and the text that became ready with them.
void send_delta(Sequence& sequence, std::span<const GeneratedToken> tokens);

// "scheduler 'fair' <did>: <what the status says>"
std::string plugin_fault(std::string_view interface, std::string_view name, std::string_view did,
                         const Status& status);

}  // namespace tenon
