#include "core/llm/open/prompt.h"

#include "core/model/embedding_advice.h"
#include "core/pipeline/pipeline.h"

namespace tenon::llm {

void bound_answer(const Pipeline& pipeline, Request& request) {
  const bool diffuses = pipeline.model->plan.mask_token.has_value();
  if (request.max_tokens == 0 && !diffuses) request.max_tokens = kDefaultMaxTokens;
}

std::optional<Pooling> pooling_of(std::string_view name) {
  if (name == "last") return Pooling::last;
  if (name == "mean") return Pooling::mean;
  if (name == "first") return Pooling::first;
  return std::nullopt;
}

Result<EmbeddingWay> embedding_way(const std::string& model_path, std::optional<Pooling> pooling,
                                   std::optional<bool> normalise) {
  const Result<EmbeddingAdvice> read = read_embedding_advice(model_path);
  if (!read.ok() && !pooling) return copy(read.status());
  const EmbeddingAdvice advice = read.ok() ? *read : EmbeddingAdvice();
  if (!pooling) pooling = pooling_of(advice.pooling);
  if (!normalise) normalise = advice.normalise;
  return EmbeddingWay{pooling.value_or(Pooling::last), normalise.value_or(true)};
}

}  // namespace tenon::llm
