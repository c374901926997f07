#include "core/engine/answers/pooled_outputs.h"

#include <cmath>
#include <string>

namespace tenon {

void PooledOutputs::gather(const Step& step) {
  const uint64_t width = context_.parts.shape->hidden;
  for (const Share& share : step.shares) {
    Sequence& sequence = *share.sequence;
    if (sequence.pool == nullptr || share.hidden_rows == 0) continue;
    if (sequence.state == SequenceState::ended) continue;
    const float* states = step.output.hidden.back() + share.first_hidden * width;
    std::vector<double>& sums = sequence.pool->sums;
    sums.resize(width);
    for (uint32_t row = 0; row < share.hidden_rows; ++row, states += width) {
      for (uint64_t i = 0; i < width; ++i) sums[i] += static_cast<double>(states[i]);
    }
    sequence.pool->rows += share.hidden_rows;
  }
}

void PooledOutputs::deliver(Sequence& sequence) {
  if (sequence.computed < sequence.prompt_tokens) return context_.tell_progress(sequence, 0);
  const Request& request = sequence.request->request;
  const PooledStates& pool = *sequence.pool;
  values_.resize(pool.sums.size());
  double squares = 0.0;
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i] = static_cast<float>(pool.sums[i] / pool.rows);
    squares += static_cast<double>(values_[i]) * static_cast<double>(values_[i]);
  }
  if (!std::isfinite(squares)) {
    return context_.fail_request(
        *sequence.request,
        "a text's vector has values that are no finite numbers – the model's weights are at fault, "
        "or executor and kernels: " +
            context_.parts.executor->numerics());
  }
  if (request.normalise && squares > 0.0) {
    const double length = std::sqrt(squares);
    for (float& value : values_) value = static_cast<float>(static_cast<double>(value) / length);
  }
  if (request.sink != nullptr) request.sink->on_embedding({sequence.request->id, values_});
  context_.end_sample(sequence, FinishReason::pooled, "");
}

}  // namespace tenon
