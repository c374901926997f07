#include "core/engine/step/finite_logits.h"

#include <cmath>

#include "core/base/quote.h"

namespace tenon {

uint32_t finite_logits(const SampleRow& row) {
  uint32_t finite = 0;
  for (uint32_t token = 0; token < row.vocabulary; ++token) {
    const bool allowed = row.allowed == nullptr || ((row.allowed[token / 64] >> token % 64) & 1);
    finite += allowed && std::isfinite(row.logits[token]);
  }
  return finite;
}

std::string no_finite_logit(const EngineContext& context, const SampleRow& row) {
  if (finite_logits(row) > 0) return "";
  return "sampler " + in_quotes(context.parts.sampler_name) + " found no token at position " +
         std::to_string(row.key.position) +
         " – a row needs at least one finite logit that is allowed – the model's weights are at "
         "fault, or executor and kernels: " +
         context.parts.executor->numerics();
}

}  // namespace tenon
