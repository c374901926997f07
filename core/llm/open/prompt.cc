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

Result<EmbeddingWay> embedding_way(const std::string& model_path) {
  TENON_ASSIGN_OR_RETURN(const EmbeddingAdvice advice, read_embedding_advice(model_path));
  return EmbeddingWay{pooling_of(advice.pooling).value_or(Pooling::last),
                      advice.normalise.value_or(true)};
}

}  // namespace tenon::llm
