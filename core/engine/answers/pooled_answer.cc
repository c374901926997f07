#include "core/engine/answers/pooled_answer.h"

#include <cmath>
#include <string>

namespace tenon {

// Most pooling takes the hidden states of all of the prompt's tokens.
PooledAnswer::PooledAnswer(EngineContext& context, Sequence& sequence)
    : AnswerKind(context, sequence,
                 {.sampled = false,
                  .has_text = false,
                  .drafted = false,
                  .device_draw = false,
                  .own_kv = sequence.request->request.pooling != Pooling::last}) {}

bool PooledAnswer::ends_in_flight() const {
  return sequence_.computed_ahead() >= sequence_.prompt_tokens;
}

// A prompt that was preempted is computed again, and what was added up is not wanted twice.
RowUse PooledAnswer::use_of(uint32_t position) const {
  const auto wanted = [&] {
    switch (sequence_.request->request.pooling) {
      case Pooling::none:
        break;
      case Pooling::last:
        return position + 1 == sequence_.prompt_tokens;
      case Pooling::mean:
        return position >= rows_;
      case Pooling::first:
        return position == 0 && rows_ == 0;
    }
    return false;
  };
  return wanted() ? RowUse::pooled : RowUse::none;
}

// In the order of positions, so that chunks change no bit.
void PooledAnswer::gather(const Step& step, const Share& share) {
  if (share.hidden_rows == 0) return;
  const uint64_t width = context_.parts.shape->hidden;
  const float* states = step.output.hidden.back() + share.first_hidden * width;
  sums_.resize(width);
  for (uint32_t row = 0; row < share.hidden_rows; ++row, states += width) {
    for (uint64_t i = 0; i < width; ++i) sums_[i] += static_cast<double>(states[i]);
  }
  rows_ += share.hidden_rows;
}

void PooledAnswer::deliver(Step&, const Share&) {
  if (sequence_.computed < sequence_.prompt_tokens) return context_.tell_progress(sequence_, 0);
  const Request& request = sequence_.request->request;
  std::vector<float> values(sums_.size());
  double squares = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(sums_[i] / rows_);
    squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  if (!std::isfinite(squares)) {
    return context_.fail_request(
        *sequence_.request,
        "a text's vector has values that are no finite numbers – the model's weights are at fault, "
        "or executor and kernels: " +
            context_.parts.executor->numerics());
  }
  if (request.normalise && squares > 0.0) {
    const double length = std::sqrt(squares);
    for (float& value : values) value = static_cast<float>(static_cast<double>(value) / length);
  }
  if (request.sink != nullptr) request.sink->on_embedding({sequence_.request->id, values});
  context_.end_sample(sequence_, FinishReason::pooled, "");
}

}  // namespace tenon
