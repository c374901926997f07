// A request that runs, its sequences, and the part that each has in a step.
#pragma once

#include <tenon/sampler.h>
#include <tenon/scheduler.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "core/engine/answers/answer_kind.h"
#include "core/engine/answers/followed_grammar.h"
#include "core/engine/answers/text_stream.h"
#include "core/engine/records/metrics.h"
#include "core/engine/requests/request.h"

namespace tenon {

struct BeamGroup;

// What the samples of one request share.
struct RequestState {
  RequestState();
  ~RequestState();

  RequestId id = 0;
  Request request;
  uint64_t adapter = 0;         // as BatchSequence has it
  uint32_t limit_tokens = 0;    // known tokens of a sample never exceed it
  uint32_t forked_samples = 1;  // that have a sequence, or had one
  uint32_t live_samples = 0;    // not ended, those still to be forked included
  uint32_t scored = 1;  // prompt tokens whose log probabilities were delivered, or have none
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
  uint32_t offered_drafts = 0;
  Growth growth;
  // Who knows this sequence and must hear of its end.
  bool in_kv_cache = false;
  bool in_sampler = false;
  bool in_drafter = false;
  bool shows_prompt = true;  // hidden states along its prompt, to the drafter
  bool in_scheduler = false;
  uint64_t digest = 0;
  std::unique_ptr<AnswerKind> answer;  // set by whoever adds the sequence to the table
  FollowedGrammar grammar;             // of all known tokens
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
  // The token that is being drawn, or was just drawn, is its last; or what is in flight ends it.
  bool ends_for_sure() const {
    if (in_flight > 0 && answer->ends_in_flight()) return true;
    return ending || (undrawn > 0 && known_ahead() >= request->limit_tokens);
  }
  uint32_t generated() const { return answer->generated(); }
};

// One sequence's part of a step.
struct Share {
  Sequence* sequence = nullptr;
  // A sample that forks in this step computes nothing: it draws from its parent's row, and all else
  // here is as in its parent's share.
  Sequence* parent = nullptr;
  uint32_t base = 0;    // tokens computed, or in flight, before it
  uint32_t tokens = 0;  // known tokens computed
  uint32_t drafts = 0;  // draft tokens behind them
  // [drafts] the draft that each follows, -1 = the known tokens; empty: the one before it.
  std::span<const int32_t> parents;
  const float* draft_probs = nullptr;  // [drafts, vocabulary] that they were drawn from, if known

  uint32_t place = 0;         // among the batch's sequences
  uint32_t first_row = 0;     // in the batch
  uint32_t first_logits = 0;  // in the output
  uint32_t logits_rows = 0;   // 0 = not sampled
  uint32_t first_score = 0;   // rows of the prompt that are scored, before the sampled ones
  uint32_t score_rows = 0;
  uint32_t score_from = 0;    // the position of the token that the first of them scores
  uint32_t first_hidden = 0;  // in the output's hidden states: its last rows
  uint32_t hidden_rows = 0;

  bool masked = false;      // its rows have masks of a grammar
  uint32_t first_mask = 0;  // in the step's masks

  uint32_t first_result = 0;  // in the step's rows and results: one for each new token
  uint32_t result_count = 0;
  uint32_t accepted = 0;           // drafts
  std::span<const uint32_t> path;  // [accepted] which; empty where drafts are a chain

  uint32_t rows() const { return tokens + drafts; }
  // Drafts on the way to the i-th row of its logits, behind what is known.
  uint32_t depth_of(uint32_t i) const {
    if (parents.empty()) return i;
    uint32_t depth = 0;
    for (auto at = static_cast<int32_t>(i) - 1; at >= 0; at = parents[static_cast<uint32_t>(at)]) {
      ++depth;
    }
    return depth;
  }
  // Which of the drafts follows the i-th row and is `token`; `drafts` where none does.
  uint32_t draft_behind(uint32_t i, std::span<const TokenId> tokens_of_drafts,
                        TokenId token) const {
    for (uint32_t draft = i; draft < drafts; ++draft) {
      const int64_t before = parents.empty() ? int64_t{draft} - 1 : parents[draft];
      if (before == int64_t{i} - 1 && tokens_of_drafts[draft] == token) return draft;
    }
    return drafts;
  }
  // The draft that became the i-th accepted one.
  uint32_t accepted_draft(uint32_t i) const { return path.empty() ? i : path[i]; }
};

// For messages to everyone in a step.
inline std::vector<Sequence*> sequences_of(const std::vector<Share>& shares) {
  std::vector<Sequence*> sequences;
  for (const Share& share : shares) sequences.push_back(share.sequence);
  return sequences;
}
inline std::vector<Sequence*> sequences_of(const std::vector<Share*>& shares) {
  std::vector<Sequence*> sequences;
  for (const Share* share : shares) sequences.push_back(share->sequence);
  return sequences;
}

}  // namespace tenon
