// How well a pipeline predicts a text: exp of the mean of -ln p(token | tokens before it), natural
// logarithms in double precision over the logits that teacher forcing gives.
//
// The text is cut into windows of `context_tokens` that start every `stride_tokens`. A window
// predicts the tokens that no window before it predicted, each from all of the window's tokens in
// front of it; a window's first token is never predicted by that window. With a stride as large as
// the context, windows do not overlap and one token each goes unpredicted; smaller strides give
// every token a longer context and cost more.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/engine/engine_parts.h"

namespace tenon {

struct PerplexityWindows {
  uint32_t context_tokens = 0;  // 2 … the pipeline's context
  uint32_t stride_tokens = 0;   // 1 … context_tokens
};

struct Perplexity {
  uint64_t windows = 0;
  uint64_t predicted = 0;  // tokens
  double nats = 0;         // the sum of -ln p over them

  double nats_per_token() const { return nats / static_cast<double>(predicted); }
  double value() const;
};

// Told of every predicted token: its index in the text, and the measure with it. False: enough.
using PredictedSink = std::function<bool(size_t index, const Perplexity& so_far)>;

// `adapter` as in BatchSequence. All of the text, or what the sink let pass. Errors:
// invalid_argument (windows that do not fit, fewer than two tokens), failed (a logit that is no
// finite number, so that nothing is predicted), and those of TeacherForcing.
Result<Perplexity> measure_perplexity(const EngineParts& parts, std::span<const TokenId> tokens,
                                      const PerplexityWindows& windows, const PredictedSink& sink,
                                      uint64_t adapter = 0);

}  // namespace tenon
