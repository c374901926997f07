// Facts: what a component can do (provides) or needs (requires), in a small closed vocabulary.
//
// Before anything is created the host intersects, key by key, what all participants of a pipeline
// said. An empty intersection refuses the pipeline with a message that lists who said what, where
// it was configured, and what to try. Keys of third parties carry a prefix: "acme.key".
//
// What one participant says about a key holds together, but several `equals` are alternatives.
// Words that are digits count as numbers beside numbers; numbers are positive. numerics.rows is not
// intersected: a pipeline is as invariant as the weakest that anyone provides.
//
// Vocabulary:
//   device.space      text   host | cuda                 where the component's data lives
//   kv.dtype          text   f32 | f16 | bf16 | i8 | i4  element type of stored K and V
//   kv.block_tokens   number tokens of one KV block; `context` = one block holds the whole context
//   kv.sharing        text   none | copy_on_write        whether blocks may have several readers
//   kv.rollback       text   yes | no                    whether positions can be taken back
//   kv.swap           text   yes | no                    whether blocks can move to a host pool
//   attn.head_dim     number size of a head
//   attn.group        number query heads a KV head
//   attn.query_len    number rows of one sequence in a step
//   attn.mask         text   causal | sliding | tree
//   weight.format     text   f32 | f16 | bf16 | q8_0 | …
//   sampler.verify    text   none | exact | rejection
//   draft.needs       text   nothing | hidden | model
//   sched.emits       text   whole_prompts | chunks | preemption
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
  std::string_view word;  // chosen text; empty for numbers
  int64_t number = 0;
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
