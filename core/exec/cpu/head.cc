// What stands before the layers of a head (core/model/heads/head.h). Rows are shared out, also
// where there is one: whoever has none waits at the barriers.
#include <cstring>

#include "core/exec/cpu/worker.h"

namespace tenon {

// Tokens → embedded; the states that rows continue from → hidden.
void CpuWorker::enter_head() {
  const Head& head = *step_.head;
  if (head.kind == HeadKind::mtp) return enter_mtp();
  const TensorView& inputs = step_.batch->inputs;
  const CpuBuffers& b = step_.buffers;
  const uint64_t width = plan().hidden, features = head.features;
  const Share mine = share_of(rows_, slice_);
  keep(step_.weights.embed(step_.batch->tokens, b.embedded.floats(), slice_));
  const bool of_target = inputs.shape[1] == features;
  const uint64_t entering = of_target ? features : width;
  const uint32_t parts =
      head.feature_norm == FeatureNorm::each ? static_cast<uint32_t>(head.state_layers.size()) : 1;
  const auto part = static_cast<uint32_t>(features / parts);
  float* to = (of_target ? b.joined : b.hidden).floats();
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    const float* from = static_cast<const float*>(inputs.data) + row * inputs.stride[0];
    float* states = to + row * entering;
    std::memcpy(states, from, entering * sizeof(float));
    if (!of_target || head.feature_norm == FeatureNorm::none) continue;
    for (uint64_t at = 0; at < features; at += part) {
      norm_row(head.norm, states + at, head.features_norm.data() + at, nullptr, part, states + at);
    }
  }
  barrier();
  if (of_target) {
    const Product product{&step_.weights.front(), {}, b.hidden.floats()};
    multiply(b.joined.floats(), {&product, 1});
  }
  if (head.norm_before_residual == 1) norm_rows(head.norm, head.state_norm, b.hidden.floats());
}

// Both halves are normed and become one: tokens, states → joined → hidden.
void CpuWorker::enter_mtp() {
  const Head& head = *step_.head;
  const TensorView& inputs = step_.batch->inputs;
  const CpuBuffers& b = step_.buffers;
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  keep(step_.weights.embed(step_.batch->tokens, b.embedded.floats(), slice_));
  barrier();
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    const float* state = static_cast<const float*>(inputs.data) + row * inputs.stride[0];
    float* first = b.joined.floats() + row * 2 * width;
    float* second = first + width;
    norm_row(head.norm, b.embedded.floats() + row * width, head.token_norm.data(), nullptr, width,
             head.state_first ? second : first);
    norm_row(head.norm, state, head.state_norm.data(), nullptr, width,
             head.state_first ? first : second);
  }
  barrier();
  const Product product{&step_.weights.front(), {}, b.hidden.floats()};
  multiply(b.joined.floats(), {&product, 1});
}

// embedded, hidden → joined
void CpuWorker::join_head() {
  const Head& head = *step_.head;
  const CpuBuffers& b = step_.buffers;
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    const float* state = b.hidden.floats() + row * width;
    float* to = b.joined.floats() + row * 2 * width;
    norm_row(plan(0).attention_norm, b.embedded.floats() + row * width,
             vectors(0).attention_norm.data(), nullptr, width, to);
    if (head.norm_before_residual == 1) {
      std::memcpy(to + width, state, width * sizeof(float));
    } else {
      norm_row(head.norm, state, head.state_norm.data(), nullptr, width, to + width);
    }
  }
  barrier();
}

}  // namespace tenon
