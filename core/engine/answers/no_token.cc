#include "core/engine/answers/no_token.h"

#include <cmath>

#include "core/base/quote.h"
#include "core/engine/answers/permitted.h"

namespace tenon {
namespace {

constexpr const char* kNoFiniteLogit =
    " – a row needs at least one finite logit that is allowed – the model's weights are at fault, "
    "or executor and kernels: ";

// How many logits of the row are finite and among `allowed`; null = all.
uint32_t finite_logits(const SampleRow& row, const uint64_t* allowed) {
  uint32_t finite = 0;
  for (uint32_t token = 0; token < row.vocabulary; ++token) {
    const bool counts = allowed == nullptr || ((allowed[token / 64] >> token % 64) & 1);
    finite += counts && std::isfinite(row.logits[token]);
  }
  return finite;
}

std::string found_no_token(const EngineContext& context, const SampleRow& row) {
  return "sampler " + in_quotes(context.parts.sampler_name) + " found no token at position " +
         std::to_string(row.key.position);
}

}  // namespace

std::string no_finite_logit(const EngineContext& context, const SampleRow& row) {
  if (finite_logits(row, row.allowed) > 0) return "";
  return found_no_token(context, row) + kNoFiniteLogit + context.parts.executor->numerics();
}

void no_token(EngineContext& context, Sequence& sequence, const SampleRow& row) {
  const Request& request = sequence.request->request;
  TokenBits left = permitted_tokens(request.lists, row.history, row.vocabulary);
  for (size_t i = 0; i < left.size() && row.allowed != nullptr; ++i) left[i] &= row.allowed[i];
  if (is_empty(left)) {
    const bool may_end = row.key.position - row.prompt_tokens >= request.min_tokens;
    return context.refuse_request(*sequence.request,
                                  nothing_left(request, may_end, row.key.position));
  }
  const uint32_t finite = finite_logits(row, left.data());
  std::string text = found_no_token(context, row);
  if (finite == 0) {
    text += kNoFiniteLogit + context.parts.executor->numerics();
  } else {
    text += ", though " + std::to_string(finite) + " logits are finite and allowed";
    if (!request.lists.logit_bias.empty() || request.sampling.repetition_penalty != 1.0f) {
      return context.refuse_request(*sequence.request,
                                    text +
                                        " – logit_bias and repetition_penalty of the request "
                                        "leave none of them finite – use smaller ones");
    }
    text += " – the sampler is at fault";
  }
  context.fail_request(*sequence.request, text);
}

}  // namespace tenon
