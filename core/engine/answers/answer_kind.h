// What a sequence is to give, and how that takes part in a step.
//
// There are four kinds: tokens one after the other (token_answer.h), a beam of a search
// (beam_answer.h), a text made by diffusion (diffusion_answer.h) and a vector
// (pooled_answer.h). The step loop knows none of them: it asks a sequence's kind at the few places
// where they differ. What they have in common is the default here.
//
// Threads: the step thread.
#pragma once

#include <tenon/sampler.h>
#include <tenon/scheduler.h>

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/result.h"

namespace tenon {

struct EngineContext;
struct Sequence;
struct Share;
struct Step;

// What the engine has to know of an answer before any step; it never changes.
struct AnswerTraits {
  bool sampled = true;        // a sampler draws its tokens
  bool has_text = true;       // tokens become text as they come
  bool drafted = true;        // drafters may propose its tokens
  bool device_draw = true;    // the executor may draw its tokens where the logits are
  bool plan_ahead = true;     // the next step may be planned before this one's tokens are drawn
  bool whole = false;         // each step computes all of it, and nothing of that stays
  bool grouped = false;       // has its memory together with other sequences of its request
  bool own_kv = false;        // nothing of its prompt may be found computed
  bool plain_tokens = false;  // is a TokenAnswer, and nothing more
};

// What a step is to give of one row.
enum class RowUse : uint8_t { none, drawn, scored, pooled };

class AnswerKind {
 public:
  // Both outlive it; the sequence owns it.
  AnswerKind(EngineContext& context, Sequence& sequence, const AnswerTraits& the_traits)
      : traits(the_traits), context_(context), sequence_(sequence) {}
  virtual ~AnswerKind() = default;
  AnswerKind(const AnswerKind&) = delete;
  AnswerKind& operator=(const AnswerKind&) = delete;

  const AnswerTraits traits;

  // Before a plan is made, where it is grouped.
  virtual void before_plan() {}
  // Whether no scheduler may see the sequence for now.
  virtual bool held_back() const { return false; }
  // Whether what is in flight ends the sequence, whatever comes out.
  virtual bool ends_in_flight() const { return false; }
  // Sequences to come, its own included, that a scheduler keeps rows for.
  virtual uint32_t rows_ahead() const;
  // Tokens that are delivered, or to be delivered in order.
  virtual uint32_t generated() const;
  // Known tokens, as far as they are what the sequence was served with.
  virtual uint32_t served() const;

  // The sequences that have their memory together, where they do.
  virtual std::span<Sequence* const> group() const { return {}; }
  // Tokens in the ledger's group that forks will take beyond what the sequence itself takes until
  // it forks, in blocks of `block_tokens`; 0 where it does not fork by itself. Where slots of state
  // are counted, `block_tokens` is 0.
  virtual uint64_t fork_tokens(uint32_t /*block_tokens*/) const { return 0; }
  // Takes the memory of the sequence, or of its whole group: they wait, and compute it again.
  // Error: the manager's.
  virtual Status release();

  // What is wanted of the row at `position`, which the step at hand computes.
  virtual RowUse use_of(uint32_t position) const = 0;
  // Takes what it needs of the step's output besides logits, before the next launch.
  virtual void gather(const Step&, const Share&) {}
  // How many of the most likely tokens the sampler is to name at each row.
  virtual uint32_t tops() const { return 0; }
  // The i-th row of the share's logits, for the sampler; without the logits and a grammar's mask.
  virtual SampleRow row_of(const Step&, const Share&, uint32_t /*i*/) const { return {}; }
  // Takes the first `count` results of the share; all but the last are accepted drafts. The first
  // may be no token: then the request fails.
  virtual void take(Step&, Share&, uint32_t /*count*/) {}

  // Whether the results taken last end the sample whatever its text, before they are delivered.
  virtual bool at_end(const Step&, const Share&) const { return false; }
  // For every share, before any of them is delivered.
  virtual void advance(Step&) {}
  // Hands over what the step has brought. Then the sample ends, or the scheduler hears of it.
  virtual void deliver(Step& step, const Share& share) = 0;

 protected:
  EngineContext& context_;
  Sequence& sequence_;
};

// The kind that the request asks for, of its first sequence. Others fork from that.
std::unique_ptr<AnswerKind> make_answer(EngineContext& context, Sequence& sequence);

}  // namespace tenon
