// Facts: what a component can do (provides) or needs (requires), in a small closed vocabulary.
//
// Before anything is created the host intersects, key by key, the facts of all participants of a
// pipeline. An empty intersection refuses the pipeline with a message that lists which participant
// stated which fact, where it was configured, and what to try. A key that is not in the vocabulary
// refuses the library; keys of third parties carry a prefix: "acme.key".
//
// All facts of one participant about a key hold together, but several `equals` are alternatives.
// `all_of` asks for several values at once: each of them must be possible for every other
// participant with that key; the resolved word is then all of them. Words that are digits count as
// numbers among numbers; numbers are positive. numerics.rows is not intersected: a pipeline is as
// invariant as its weakest part.
//
// A capability is a key of its own, with `no yes` if a component can do it and can do without, and
// `no` if it cannot; "yes" is resolved if a participant asks for it.
//
// Vocabulary:
//   device.space      text   host | cuda                 where the component's data lives
//   kv.dtype          text   f32 | f16 | bf16 | i8 | i4  element type of stored K and V
//   kv.block_tokens   number tokens of one KV block; `context` = one block holds the whole context
//   kv.sharing        text   none | copy_on_write        whether blocks may have several readers
//   kv.rollback       text   yes | no                    whether positions can be taken back
//   kv.swap           text   yes | no                    whether blocks can move to a host pool
//   kv.trees          text   yes | no                    keeps a path that is not the leading slots
//   kv.recurrent      text   yes | no                    hands out slots of recurrent state
//   kv.snapshots      number further states that a step keeps for prefixes
//   attn.head_dim     number sizes of heads (all_of for a model with several)
//   attn.group        number query heads a KV head (all_of likewise)
//   attn.query_len    number rows of one sequence in a step
//   attn.mask.sliding text   yes | no                    attends within a window
//   attn.mask.tree    text   yes | no                    rows of a sequence may form a tree
//   attn.mask.spans   text   yes | no                    rows may see later rows
//   attn.latent       text   yes | no                    V is part of K (latent attention)
//   attn.chosen       text   yes | no                    tables may be filled between plan and run
//   attn.soft_cap     text   yes | no                    scores are capped by tanh
//   attn.sinks        text   yes | no                    a learned score of each head
//   attn.alibi        text   yes | no                    a bias that falls with distance
//   weight.format     text   f32 | f16 | bf16 | q8_0 | …
//   linear.epilogues  text   store | add | silu_mul | …  what a product can be finished with
//   sampler.verify    text   none | exact | rejection | typical
//   sampler.trees     text   none | exact | rejection    how drafts that form a tree are verified
//   sampler.stages    text   stages requests may ask for, and: bias bans mirostat watermark
//   sampler.params    text   keys of third parties that requests may set: acme.tilt …
//   sampler.logprobs  number at_most: the most alternatives that are reported for a token
//   draft.shape       text   chain | tree                what a drafter proposes
//   draft.needs       text   nothing | hidden | model | layers   (the model's own, for drafts)
//   sched.emits       text   whole_prompts | chunks | preemption
//   sched.drafts      text   yes | no                    plans rows for drafts
//   sched.whole_spans text   yes | no                    grants whole_tokens all or not at all
//   numerics.rows     text   invariant | batch           whether a row's bits depend on the batch
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon {

enum class FactOp : uint8_t {
  in = 0,           // text: one of `words`
  at_least = 1,     // number >= n
  at_most = 2,      // number <= n
  multiple_of = 3,  // number divisible by n
  equals = 4,       // number == n
  context = 5,      // number == the pipeline's context length in tokens
  all_of = 6,       // each of `words`, or where there are none `number`, must be possible
};

// `words` are separated by single spaces: "f32 f16 bf16".
struct Fact {
  std::string_view key;
  FactOp op = FactOp::in;
  int64_t number = 0;
  std::string_view words;
};

// The outcome of the negotiation, as every plugin's `create` sees it. Valid until `destroy`.
struct ResolvedFact {
  std::string_view key;
  std::string_view word;  // chosen text, with all_of each of them; else empty for numbers
  int64_t number = 0;     // chosen number; with all_of the largest
};
struct PipelineFacts {
  const ResolvedFact* facts = nullptr;
  uint32_t count = 0;

  // The resolved fact, or null when no participant mentioned `key`.
  constexpr const ResolvedFact* find(std::string_view key) const noexcept {
    for (uint32_t i = 0; i < count; ++i) {
      if (facts[i].key == key) return &facts[i];
    }
    return nullptr;
  }
};

}  // namespace tenon
