#include "core/exec/cuda/step/step_turn.h"

#include <string>

namespace tenon::cuda {

Status StepTurn::begin(const BatchView& batch, uint32_t hidden, uint64_t vocabulary) {
  TENON_RETURN_IF_ERROR(wait());
  used_ = 0;
  const auto rows = static_cast<uint32_t>(batch.logits_rows.size());
  TENON_RETURN_IF_ERROR(logits_.reserve(rows * vocabulary * sizeof(float), "a step's logits"));
  const uint64_t floats = HiddenRows::floats_of(batch, hidden);
  TENON_RETURN_IF_ERROR(hidden_.reserve(floats * sizeof(float), "a step's hidden states"));
  hidden_rows_.begin_in(batch, hidden, reinterpret_cast<float*>(hidden_.data()));
  output_ = {};
  output_.step_id = batch.step_id;
  output_.logits = logits();
  output_.logits_rows = rows;
  output_.vocabulary = vocabulary;
  output_.hidden = hidden_rows_.arrays();
  output_.hidden_rows = static_cast<uint32_t>(batch.hidden_rows.size());
  return {};
}

Status StepTurn::send_bytes(void* to, std::span<const std::byte> from) {
  if (from.empty()) return {};
  if (used_ + from.size() > inputs_.bytes()) {
    return internal("a step's arrays have " + std::to_string(used_ + from.size()) +
                    " bytes; expected at most " + std::to_string(inputs_.bytes()));
  }
  std::byte* const at = inputs_.data() + used_;
  used_ += from.size();
  std::memcpy(at, from.data(), from.size());
  return driver_.send(to, at, from.size());
}

Status StepTurn::mark() {
  TENON_ASSIGN_OR_RETURN(ticket_, driver_.mark());
  return {};
}

}  // namespace tenon::cuda
