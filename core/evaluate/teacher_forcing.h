// The logits of given tokens, without sampling: what perplexity, goldens and comparisons with
// other implementations are made from. One sequence, in chunks, over the same executor, KV manager
// and kernels that generation uses.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/engine/engine_parts.h"

namespace tenon {

// `logits` [vocabulary] are those after tokens[position], of a diffusion model those for its own
// place; borrowed for the call.
using LogitsSink = std::function<Status(uint32_t position, std::span<const float> logits)>;

// `hidden` [hidden] is the stream after `layer` at tokens[position], that of layer_count after
// the final norm; borrowed for the call, which comes before that of the position's logits.
using HiddenSink =
    std::function<Status(uint32_t position, LayerId layer, std::span<const float> hidden)>;

// Sequences one after the other, each computed from its first token on: none takes K and V over
// from an earlier one. No engine may run on `parts` at the same time.
class TeacherForcing {
 public:
  // `adapter` as in BatchSequence; 0 = the base model.
  explicit TeacherForcing(const EngineParts& parts, uint64_t adapter = 0)
      : parts_(parts), adapter_(adapter) {}

  // Hidden states after these layers (rising, 0 … layer_count) go to `sink` from now on.
  void watch(std::vector<LayerId> layers, HiddenSink sink) {
    layers_ = std::move(layers);
    hidden_sink_ = std::move(sink);
  }

  // Computes `tokens` in chunks of the given sizes in turn, the last size repeating (empty = as
  // large as the pipeline's batch allows). Diffusion models take all in one. Errors: more tokens
  // than the context, an id outside the vocabulary, and whatever a plugin reports.
  Status run(std::span<const TokenId> tokens, std::span<const uint32_t> chunks,
             const LogitsSink& sink);

 private:
  const EngineParts parts_;
  const uint64_t adapter_;
  std::vector<LayerId> layers_;
  HiddenSink hidden_sink_;
  uint64_t step_id_ = 0;
  uint64_t sequences_ = 0;
};

// One sequence alone.
inline Status force_tokens(const EngineParts& parts, std::span<const TokenId> tokens,
                           std::span<const uint32_t> chunks, const LogitsSink& sink,
                           uint64_t adapter = 0) {
  return TeacherForcing(parts, adapter).run(tokens, chunks, sink);
}

}  // namespace tenon
