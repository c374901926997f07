// How sequences join: sampler, drafter, KV manager and scheduler come to know them, as new ones or
// as forks of others.
#pragma once

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

// To sampler and drafter, as far as its answer has to do with them. `parent` is the sequence that
// it goes on from, or kNoSeq. Error: whoever refuses it.
Status introduce(EngineContext& context, Sequence& sequence, SeqId parent);
// To the KV manager; it shares the first `parent_tokens` tokens of `parent`, which may be null.
// Error: the manager's.
Status begin_kv(EngineContext& context, Sequence& sequence, const Sequence* parent,
                uint32_t parent_tokens);
// To the scheduler, last. A request that it refuses fails.
void announce(EngineContext& context, Sequence& sequence);

// A fork joins in two steps, since it may draw from its parent's row before the step's K/V is
// settled. First sampler and drafter come to know it, and it follows its parent's grammar.
Status introduce_fork(EngineContext& context, Sequence& child, const Sequence& parent);
// Then it shares the K/V of its parent's first `tokens` tokens and runs, where there is room for it
// to run; else it waits and computes them again. Fails the request when that fails.
void place_fork(EngineContext& context, Sequence& child, const Sequence& parent, uint32_t tokens);
// The same anew for a sequence that waits and holds nothing, known to everyone as it is.
void fork_anew(EngineContext& context, Sequence& child, const Sequence& parent, uint32_t tokens);

// Each request whose prompt was computed in this step becomes as many sequences as it has samples.
// Their shares follow those that have rows. Fails the request when that fails.
void fork_samples(EngineContext& context, Step& step);

}  // namespace tenon
