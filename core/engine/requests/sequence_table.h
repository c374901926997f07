// The sequences that the engine knows: tokens, progress, and who waits or runs.
#pragma once

#include <tenon/scheduler.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/engine/answers/beam_search.h"
#include "core/engine/answers/canvas.h"
#include "core/engine/answers/text_stream.h"
#include "core/engine/records/metrics.h"
#include "core/engine/requests/request.h"
#include "core/grammar/matcher.h"

namespace tenon {

// A beam's way so far, and what its latest row says comes next.
struct BeamPath {
  using Token = ResultSink::Token;
  std::vector<Token> tokens;  // generated
  double sum = 0.0;           // of their log probabilities
  bool sampled = false;       // `top` and `digest` are those behind all known tokens
  std::vector<TokenLogprob> top;
  uint64_t digest = 0;
};
// An answer that a beam search keeps.
struct BeamAnswer {
  uint64_t number = 0;
  std::vector<BeamPath::Token> tokens;
  FinishReason reason = FinishReason::length;
  RequestRecord record;
};
struct Sequence;
struct BeamGroup {
  BeamSearch search;
  std::vector<Sequence*> running;  // in the order of the search
  std::vector<BeamAnswer> answers;
  bool ready = false;  // all running ones were sampled
  // Not null: their memory was taken, and this one computes what all have in common.
  Sequence* trunk = nullptr;
};

// What the samples of one request share.
struct RequestState {
  RequestId id = 0;
  Request request;
  uint64_t adapter = 0;                // as BatchSequence has it
  uint32_t limit_tokens = 0;           // known tokens of a sample never exceed it
  uint32_t forked_samples = 1;         // that have a sequence, or had one
  uint32_t live_samples = 0;           // not ended, those still to be forked included
  std::vector<TokenId> ending_tokens;  // sorted: end of text (unless ignored) and stop tokens
  // [ceil(vocabulary/64)] all tokens but the ending ones; empty unless min_tokens asks for it.
  std::vector<uint64_t> not_ending;
  // What its lists permit, likewise; empty unless a grammar and min_tokens ask for it.
  std::vector<uint64_t> permitted;
  std::unique_ptr<BeamGroup> beam_group;  // null where no beams were asked for
};

enum class SequenceState : uint8_t { waiting, running, ended };

// KV memory that the ledger took for a sequence on behalf of the plan at hand.
struct Growth {
  bool in_plan = false;  // the ledger took something
  bool was_waiting = false;
  bool used = false;  // a checked grant names it
  uint32_t computed_before = 0;
  uint32_t slots = 0;        // behind `computed`, what is in flight included there
  uint32_t granted = 0;      // of them, those that a grant may use
  uint32_t used_tokens = 0;  // … and that one does
  uint32_t reused = 0;       // tokens that `computed` moved by without being computed
  uint32_t restored = 0;     // of them, brought back from the swap pool
};

// What becomes an embedding.
struct PooledStates {
  uint32_t rows = 0;         // that were added up, in the order of positions
  std::vector<double> sums;  // [hidden]
};

struct Sequence {
  SeqId id = kNoSeq;
  uint32_t sample = 0;
  RequestState* request = nullptr;
  SequenceState state = SequenceState::waiting;
  // Known tokens first, then, during a step, drafts.
  std::vector<TokenId> tokens;
  uint32_t prompt_tokens = 0;
  uint32_t known = 0;
  uint32_t computed = 0;
  uint32_t furthest = 0;   // the most that `computed` ever was, its parent's included
  uint32_t stop_at = 0;    // known tokens that the trunk of a beam group computes; 0 = all
  uint32_t in_flight = 0;  // tokens behind them that a step computes which was not collected yet
  uint32_t undrawn = 0;    // 1: that step draws one more token
  bool ending = false;     // its last token is known, and not delivered yet
  uint32_t scored = 1;     // prompt tokens whose log probabilities were delivered, or have none
  uint32_t offered_drafts = 0;
  Growth growth;
  // Who knows this sequence and must hear of its end.
  bool in_kv_cache = false;
  bool in_sampler = false;
  bool in_drafter = false;
  bool in_scheduler = false;
  uint64_t digest = 0;
  std::unique_ptr<BeamPath> beam;             // null unless it is one
  std::unique_ptr<PooledStates> pool;         // null unless an embedding is wanted
  std::unique_ptr<grammar::Matcher> matcher;  // behind all known tokens; null without a grammar
  // Null unless the answer is made by diffusion. Then all of its tokens are known from the first,
  // as masks, and none is ever computed for good: `computed` stays 0.
  std::unique_ptr<Canvas> canvas;
  TextStream text;
  RequestRecord record;

  std::span<const TokenId> known_tokens() const { return {tokens.data(), known}; }
  // To be computed; a token that is being drawn is not among them yet.
  std::span<const TokenId> wanted_tokens() const {
    return known_tokens().first(std::min(known, known_ahead()));
  }
  // As the step in flight will leave it at least.
  uint32_t known_ahead() const { return stop_at > 0 ? stop_at : known + undrawn; }
  uint32_t computed_ahead() const { return computed + in_flight; }
  // The token that is being drawn, or was just drawn, is its last; or the rest of a prompt that is
  // pooled is in flight.
  bool ends_for_sure() const {
    if (pool != nullptr && in_flight > 0 && computed_ahead() >= prompt_tokens) return true;
    return ending || (undrawn > 0 && known_ahead() >= request->limit_tokens);
  }
  uint32_t generated() const {
    return canvas != nullptr ? canvas->delivered() : known - prompt_tokens;
  }
};

// Owns all live sequences. Waiting ones stand in order of arrival, running ones in order of
// admission.
class SequenceTable {
 public:
  Sequence& add(RequestState& request, uint32_t sample, int64_t arrival_ns);
  Sequence* find(SeqId id);
  // Ends its place in the lists; the object is freed by `sweep`.
  void end(Sequence& sequence);

  // waiting → running, last or right behind another one.
  void admit(Sequence& sequence, const Sequence* behind = nullptr);
  void preempt(Sequence& sequence);  // running → waiting, at its arrival
  // Frees ended sequences; while a step is in flight, those that ended before the last sweep.
  void sweep(bool in_flight);

  const std::vector<Sequence*>& waiting() const { return waiting_; }
  const std::vector<Sequence*>& running() const { return running_; }
  // Running ones that go on running, as far as that is known.
  uint32_t staying() const;
  bool empty() const { return waiting_.empty() && running_.empty(); }
  // All live ones, waiting first. For rare operations.
  std::vector<Sequence*> all() const;

 private:
  std::unordered_map<SeqId, std::unique_ptr<Sequence>> by_id_;
  std::vector<Sequence*> waiting_;
  std::vector<Sequence*> running_;
  std::vector<SeqId> ended_, ended_before_;
  SeqId next_id_ = 0;
};

// The row that draws the token at `position`, without logits. `history` is what the sequence knows
// and perhaps drafts behind it.
SampleRow sample_row_of(const Sequence& sequence, std::span<const TokenId> history,
                        uint32_t position);
// A beam that can only wait for others of its group: no scheduler sees it.
bool is_held_back(const Sequence& sequence);
// The scheduler's picture of one sequence.
SequenceView view_of(const Sequence& sequence);
// What became of it, for the scheduler.
SequenceEvent event_of(EventKind kind, const Sequence& sequence, uint64_t step_id);

}  // namespace tenon
