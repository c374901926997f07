// What stands before the layers of a head (core/model/heads/head.h). Rows are shared out, also
// where there is one: whoever has none waits at the barriers.
#include <algorithm>
#include <cstring>

#include "core/exec/cpu/step/worker.h"
#include "core/exec/kv_row.h"

namespace tenon {

// Tokens → embedded; the states that rows continue from → hidden.
void CpuWorker::enter_head() {
  const Head& head = *step_.head;
  if (head.joins_halves()) return enter_mtp();
  if (head.kind == HeadKind::dflash) return enter_context();
  const TensorView& inputs = step_.batch->inputs;
  const CpuBuffers& b = step_.buffers;
  keep(step_.weights.embed(step_.batch->tokens, b.embedded.floats(), slice_));
  if (inputs.shape[1] == head.features) {
    enter_states(b.hidden.floats());
  } else {
    const uint64_t width = plan().hidden;
    const Share mine = share_of(rows_, slice_);
    for (uint64_t row = mine.first; row < mine.last; ++row) {
      const float* from = static_cast<const float*>(inputs.data) + row * inputs.stride[0];
      std::memcpy(b.hidden.floats() + row * width, from, width * sizeof(float));
    }
    barrier();
  }
  if (head.norm_before_residual == 1) norm_rows(head.norm, head.state_norm, b.hidden.floats());
}

// The target's states → joined, normed → hidden. Ends with a barrier.
void CpuWorker::enter_states(float* hidden) {
  const Head& head = *step_.head;
  const TensorView& inputs = step_.batch->inputs;
  const uint64_t features = head.features;
  const Share mine = share_of(rows_, slice_);
  const uint32_t parts =
      head.feature_norm == FeatureNorm::each ? static_cast<uint32_t>(head.state_layers.size()) : 1;
  const auto part = static_cast<uint32_t>(features / parts);
  float* joined = step_.buffers.joined.floats();
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    const float* from = static_cast<const float*>(inputs.data) + row * inputs.stride[0];
    float* states = joined + row * features;
    std::memcpy(states, from, features * sizeof(float));
    if (head.feature_norm == FeatureNorm::none) continue;
    for (uint64_t at = 0; at < features; at += part) {
      norm_row(head.norm, states + at, head.features_norm.data() + at, nullptr, part, states + at);
    }
  }
  barrier();
  const Product product{&step_.weights.front(), {}, hidden};
  multiply(joined, {&product, 1});
}

// Rows of the target's states → normed, which all layers read as it is; rows of a block are tokens
// → hidden.
void CpuWorker::enter_context() {
  const Head& head = *step_.head;
  if (!head.is_context(step_.batch->inputs.data != nullptr)) return embed_tokens();
  enter_states(step_.buffers.hidden.floats());
  norm(head.norm, head.state_norm, {});
}

// K and V of all rows, which kernels store only where something attends. Ends with a barrier.
void CpuWorker::store_context(uint32_t layer) {
  const LayerShape& shape = step_.shape->layers[layer];
  const KvGroup& group = step_.shape->groups[shape.group];
  const KvGroupStorage& storage = step_.kv[shape.group];
  const KvLayerStorage& planes = storage.layers[shape.index_in_group];
  const BatchGroup& entries = step_.batch->groups[shape.group];
  const auto write = [&](const KvPlane& plane, uint32_t entry, uint32_t head, BlockId block,
                         std::span<const float> row) {
    std::byte* to = plane.base + static_cast<uint64_t>(block) * plane.block_bytes +
                    head * plane.head_bytes + (entry % storage.block_tokens) * plane.token_bytes;
    write_kv_row(storage.dtype, row, to);
  };
  const Share mine = share_of(rows_, slice_);
  for (size_t s = 0; s < step_.batch->sequences.size(); ++s) {
    const BatchSequence& sequence = step_.batch->sequences[s];
    const uint64_t first = std::max<uint64_t>(mine.first, sequence.first_row);
    const uint64_t last =
        std::min<uint64_t>(mine.last, uint64_t{sequence.first_row} + sequence.rows);
    for (uint64_t row = first; row < last; ++row) {
      const uint32_t entry = entries.slots[row];
      const BlockId block = entries.tables[s].blocks[entry / storage.block_tokens];
      for (uint32_t head = 0; head < group.kv_heads; ++head) {
        const uint64_t item = row * group.kv_heads + head;
        write(planes.k, entry, head, block, {k() + item * group.k_dim, group.k_dim});
        write(planes.v, entry, head, block, {v() + item * group.v_dim, group.v_dim});
      }
    }
  }
  barrier();
}

// Both halves are normed, if the head has norms, and become one: tokens, states → joined → hidden.
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
    if (head.kind == HeadKind::eagle) {
      std::memcpy(first, b.embedded.floats() + row * width, width * sizeof(float));
      std::memcpy(second, state, width * sizeof(float));
      continue;
    }
    norm_row(head.norm, b.embedded.floats() + row * width, head.token_norm.data(), nullptr, width,
             head.state_first ? second : first);
    norm_row(head.norm, state, head.state_norm.data(), nullptr, width,
             head.state_first ? first : second);
  }
  barrier();
  const Product product{&step_.weights.front(), head.fc_bias, b.hidden.floats()};
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
