// Rows from which nothing can be drawn: a request bans all there is, or a model's weights, or what
// computes with them, are at fault.
#pragma once

#include <tenon/sampler.h>

#include <string>

#include "core/engine/step/context.h"

namespace tenon {

// Why the row gives no token, where that is its logits; empty: it has a finite one that is allowed.
std::string no_finite_logit(const EngineContext& context, const SampleRow& row);
// Fails the request of a sequence whose row gave no token, and says whose fault that is.
void no_token(EngineContext& context, Sequence& sequence, const SampleRow& row);

}  // namespace tenon
