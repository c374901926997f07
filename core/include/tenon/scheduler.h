// Scheduler: decides, once a step, which sequence computes how many tokens.
//
// One rule serves prefill, chunks, prefix hits and speculation: a sequence has `computed` tokens,
// whose K/V are in the cache, and `known` tokens, which exist as ids. A grant of n lets the step
// move `computed` n tokens towards `known`; when the last known token is among them, the sequence
// is sampled and gains at least one known token, or ends. There is no mode for prefill or decoding.
//
// A scheduler promises
//   - to grant only sequences of the view, each at most once, and only what the ledger granted;
//   - to keep within `max_sequences` and `max_batch_tokens`;
//   - to decide from its arguments alone: no clock, no randomness, no state outside `this`;
//   - not to allocate in `plan` after warm-up, and to ignore event kinds that it does not know;
//   - to accept a refusal of the ledger: tokens that were not granted wait for another step.
// It may assume
//   - that every sequence of a view has arrived by `on_event` before, and none has finished;
//   - that `waiting` is in arrival order (preempted sequences keep their arrival) and that a
//     sequence is either waiting (holds no KV) or running;
//   - that the same trace of calls leads to the same views.
// With engine.plan_ahead = 1 a step is planned while the device computes the one before it. The
// view then shows each sequence as that step will leave it at least: its `in_flight_tokens` count
// as computed, and the token that it will draw counts as known. Sequences that this token certainly
// ends are omitted. If any other running sequence's outcome is open (drafts in flight, a fork or a
// beam to come), the step is planned once the one before it was collected. The ledger does not
// release tokens in flight. A grant of a sequence that turns out to have ended is dropped.
//
// When `plan` returns an error, or breaks a promise, nothing of it is run: grants are rolled back,
// and the requests that it names fail if it keeps failing.
//
// Threads: every method is [step], called from one thread.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

struct SequenceView {
  SeqId seq = kNoSeq;
  uint32_t prompt_tokens = 0;
  uint32_t known_tokens = 0;      // prompt + generated
  uint32_t computed_tokens = 0;   // of the known ones, K/V present
  uint32_t in_flight_tokens = 0;  // of the computed ones, in a step that was not collected yet
  uint32_t limit_tokens = 0;      // known_tokens never grows beyond it
  uint32_t offered_drafts = 0;    // drafts that could be proposed; a grant may use up to these
  uint32_t fork_group = 0;        // the same for samples or beams of one request
  // The rows it takes or will take: a request of n is one sequence until its prompt is computed.
  // Samples beyond max_sequences then wait as arrivals do. A beam that can only wait for others of
  // its search is in no view; its row counts here with the first one that is.
  uint32_t samples = 1;
  uint32_t tenant = 0;
  int32_t priority = 0;       // lower runs first
  uint32_t whole_tokens = 0;  // a grant takes all of the next so many tokens, or none
  uint64_t adapter = 0;       // as in CacheKey
  int64_t arrival_ns = 0;
  int64_t deadline_ns = 0;  // it should be done by then; 0 = none was set
};

struct SchedulerLimits {
  uint32_t max_sequences = 0;     // rows running at once
  uint32_t max_batch_tokens = 0;  // tokens of one step, draft slots included
  uint32_t context_tokens = 0;
};

// The cost of a step, measured by the engine, for schedulers that fit their steps to a time. A
// pipeline whose clock is virtual and stands still during steps reports a duration of 0.
struct StepCost {
  uint64_t step_id = 0;      // 0 = nothing was computed yet
  uint32_t rows = 0;         // token positions computed, drafts included
  uint32_t sequences = 0;    // to which the rows belong
  uint32_t logits_rows = 0;  // rows that were sampled from
  int64_t duration_ns = 0;   // of the whole step, from its start to the last token delivered
};

struct SchedulerView {
  uint64_t step_id = 0;
  int64_t now_ns = 0;
  SchedulerLimits limits;
  uint64_t kv_tokens = 0;                 // KV memory in all, free or not
  StepCost last_step;                     // the latest that was collected and computed something
  std::span<const SequenceView> waiting;  // in arrival order
  std::span<const SequenceView> running;  // in admission order
};

enum class EventKind : uint8_t { arrived = 0, progressed = 1, aborted = 2, finished = 3 };

// Results of a step reach the scheduler as events, so planning ahead needs no other signature.
struct SequenceEvent {
  EventKind kind = EventKind::arrived;
  SeqId seq = kNoSeq;
  uint64_t step_id = 0;  // the step that caused it; 0 for arrivals
  uint32_t tenant = 0;
  uint32_t prompt_tokens = 0;
  uint32_t known_tokens = 0;
  uint32_t computed_tokens = 0;
  uint32_t accepted_drafts = 0;  // progressed: drafts kept in that step
};

struct CachedTokens {
  uint32_t ready = 0;     // leading known tokens whose K/V could be reused now
  uint32_t promised = 0;  // beyond them: being computed right now by another sequence
};
struct HeldTokens {
  uint32_t tokens = 0;     // slots this sequence holds
  uint32_t exclusive = 0;  // of them, those that a release would free
};
struct GrowResult {
  uint32_t granted = 0;  // tokens this step may compute; 0 = not enough memory, nothing changed
  uint32_t reused = 0;   // tokens skipped because a prefix was found; `computed` moved past them
};
enum class ReleaseHow : uint8_t {
  recompute = 0,  // drop the K/V; the sequence waits and is computed again
  // Move the K/V to the host pool; the sequence waits with nothing computed. Tokens that come back
  // when it is grown again count as reused, and `cached` shows them as ready meanwhile.
  swap = 1,
  end = 2,  // the sequence is over: for the engine only, a ledger refuses it
};

// The scheduler's only view of KV memory; every scheduler composes with every KV manager through
// it. Grants are real: `try_grow` takes the memory at once. Valid during `plan` only.
class KvLedger {
 public:
  virtual CachedTokens cached(SeqId seq) noexcept = 0;
  // Tokens that computing `tokens` more would take out of `free_tokens`, in whole blocks: net of a
  // prefix that others hold, counting cached blocks that nobody holds and the copy of a shared one.
  virtual uint64_t cost(SeqId seq, uint32_t tokens) noexcept = 0;
  // Memory for computing at_least … at_most tokens beyond `computed`, counted after any reuse
  // (prefixes are matched again and held here; `cached` was advice). All or nothing below at_least;
  // but if a manager evicts (KvEviction), the granted range ends before that.
  virtual GrowResult try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept = 0;
  virtual HeldTokens held(SeqId seq) noexcept = 0;
  // Takes back the memory of a running sequence and of all beams of its search, and puts it
  // among the waiting. False when refused (no pool, in flight, granted in this plan): no change.
  virtual bool release(SeqId seq, ReleaseHow how) noexcept = 0;
  // An estimate of the tokens that could be granted in all, evictable blocks included.
  virtual uint64_t free_tokens() noexcept = 0;

 protected:
  ~KvLedger() = default;
};

struct Grant {
  SeqId seq = kNoSeq;
  uint32_t tokens = 0;  // known tokens to compute, without drafts; at least 1
  uint32_t drafts = 0;  // draft slots after them; the ledger granted tokens + drafts
};

// The caller gives room for one grant for each sequence of the view.
struct PlanOut {
  std::span<Grant> grants;
  uint32_t grant_count = 0;
  // Rows kept reserved though nothing is computed in them (request-level batching holds the rows
  // of finished requests until the batch ends). Only counted, never computed.
  uint32_t idle_rows = 0;
  // Without grants: nothing is granted before then, unless something arrives. 0 = ask at once.
  int64_t wake_ns = 0;

  bool push(Grant grant) noexcept {
    if (grant_count == grants.size()) return false;
    grants[grant_count++] = grant;
    return true;
  }
};

class Scheduler {
 public:
  virtual Status on_event(const SequenceEvent& event) noexcept = 0;
  virtual Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept = 0;

 protected:
  ~Scheduler() = default;
};

}  // namespace tenon
