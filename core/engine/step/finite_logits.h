// Rows from which nothing can be drawn: a model's weights, or what computes with them, is at fault.
#pragma once

#include <tenon/sampler.h>

#include <string>

#include "core/engine/step/context.h"

namespace tenon {

// How many logits of a row are finite and allowed.
uint32_t finite_logits(const SampleRow& row);
// Why the row gives no token, where that is its logits; empty: it has a finite one that is allowed.
std::string no_finite_logit(const EngineContext& context, const SampleRow& row);

}  // namespace tenon
