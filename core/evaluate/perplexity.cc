#include "core/evaluate/perplexity.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/evaluate/teacher_forcing.h"

namespace tenon {
namespace {

Status check(const EngineParts& parts, std::span<const TokenId> tokens,
             const PerplexityWindows& windows) {
  if (parts.mask_token != kNoToken) {
    return unsupported(
        "the model generates by diffusion: each token sees those after it, so that a text has no "
        "next tokens to predict; use a model that generates token by token");
  }
  if (tokens.size() < 2) {
    return invalid_argument("the text has " + std::to_string(tokens.size()) +
                            " tokens; a prediction needs at least 2");
  }
  if (windows.context_tokens < 2 || windows.context_tokens > parts.limits.context_tokens) {
    return invalid_argument("windows of " + std::to_string(windows.context_tokens) +
                            " tokens; expected 2 to the pipeline's context of " +
                            std::to_string(parts.limits.context_tokens));
  }
  if (windows.stride_tokens < 1 || windows.stride_tokens > windows.context_tokens) {
    return invalid_argument("a stride of " + std::to_string(windows.stride_tokens) +
                            " tokens; expected 1 to the windows' " +
                            std::to_string(windows.context_tokens) +
                            ", so that no token is left out");
  }
  return {};
}

// -ln of the softmax of `logits` at `token`.
double surprise(std::span<const float> logits, TokenId token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits[static_cast<size_t>(token)];
}

Status nothing_predicted(size_t index) {
  return failed("nothing predicts token " + std::to_string(index + 1) +
                " of the text: a logit is no finite number – look at the model");
}

}  // namespace

double Perplexity::value() const {
  return std::exp(nats_per_token());
}

Result<Perplexity> measure_perplexity(const EngineParts& parts, std::span<const TokenId> tokens,
                                      const PerplexityWindows& windows, const PredictedSink& sink,
                                      uint64_t adapter) {
  TENON_RETURN_IF_ERROR(check(parts, tokens, windows));
  TeacherForcing forcing(parts, adapter);
  Perplexity total;
  bool enough = false;
  size_t done = 0;  // tokens before this one have been predicted, or never will be
  for (size_t begin = 0; !enough && done < tokens.size(); begin += windows.stride_tokens) {
    const size_t end = std::min(begin + windows.context_tokens, tokens.size());
    const size_t first = std::max(begin + 1, done);
    done = end;
    if (first >= end) continue;
    ++total.windows;
    // The last token is predicted, not read.
    Status status = forcing.run(tokens.subspan(begin, end - 1 - begin), {},
                                [&](uint32_t position, std::span<const float> logits) -> Status {
                                  const size_t index = begin + position + 1;
                                  if (index < first) return {};
                                  const double nats = surprise(logits, tokens[index]);
                                  if (!std::isfinite(nats)) return nothing_predicted(index);
                                  ++total.predicted;
                                  total.nats += nats;
                                  enough = !sink(index, total);
                                  return enough ? failed("enough was measured") : Status();
                                });
    if (!status.ok() && !enough) return status;
  }
  return total;
}

}  // namespace tenon
