// A block that layers share (SharedBlockPlan). Rows are shared out, also where there is one:
// whoever has none waits at the barriers.
#include <array>
#include <cstring>

#include "core/exec/cpu/step/worker.h"

namespace tenon {

// What the first layer reads. The next operation reads a row as the worker that wrote it.
void CpuWorker::keep_embedded() {
  const uint64_t width = plan().hidden;
  const Share mine = share_of(uint64_t{rows_} * width, slice_);
  std::memcpy(step_.buffers.embedded.floats() + mine.first,
              step_.buffers.hidden.floats() + mine.first, (mine.last - mine.first) * sizeof(float));
  barrier();
}

// Of this worker's rows; clear_stream follows, with a barrier.
void CpuWorker::enter_block(uint32_t layer) {
  const CpuBuffers& b = step_.buffers;
  const uint32_t width = plan().hidden;
  const std::vector<float>& scale = vectors(block_of(layer)).block_norm;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    const float* hidden = b.hidden.floats() + row * width;
    float* joined = b.joined.floats() + row * 2 * width;
    std::memcpy(b.beside.floats() + row * width, hidden, width * sizeof(float));
    std::memcpy(joined, hidden, width * sizeof(float));
    std::memcpy(joined + width, b.embedded.floats() + row * width, width * sizeof(float));
    norm_row(plan(layer).shared.norm, joined, scale.data(), nullptr, 2 * width, joined);
  }
}

void CpuWorker::clear_stream() {
  const uint64_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  std::memset(step_.buffers.hidden.floats() + mine.first * width, 0,
              (mine.last - mine.first) * width * sizeof(float));
  barrier();
}

void CpuWorker::add_low_qkv(uint32_t layer, const float* x) {
  const PackedLayer& w = step_.weights.layer(layer);
  const CpuBuffers& b = step_.buffers;
  const uint64_t each = uint64_t{rows_} * plan(layer).shared.qkv_rank;
  float* low = b.low.floats();
  const std::array<Product, 3> lows = {{{&w[&LayerWeights::own_q_low], {}, low},
                                        {&w[&LayerWeights::own_k_low], {}, low + each},
                                        {&w[&LayerWeights::own_v_low], {}, low + 2 * each}}};
  const std::array<Product, 3> highs = {
      {{&w[&LayerWeights::own_q_high], {}, b.q.floats(), Epilogue::add},
       {&w[&LayerWeights::own_k_high], {}, b.k.floats(), Epilogue::add},
       {&w[&LayerWeights::own_v_high], {}, b.v.floats(), Epilogue::add}}};
  multiply(x, lows);
  for (size_t i = 0; i < highs.size(); ++i) multiply(low + i * each, {&highs[i], 1});
}

void CpuWorker::add_low_mlp(uint32_t layer, const float* x, float* gate, float* up) {
  const PackedLayer& w = step_.weights.layer(layer);
  float* low = step_.buffers.low.floats();
  const Product of_x{&w[&LayerWeights::own_mlp_low], {}, low};
  multiply(x, {&of_x, 1});
  // One at a time: a kernel that does not add has one buffer for what is added.
  const Product to_gate{&w[&LayerWeights::own_gate_high], {}, gate, Epilogue::add};
  multiply(low, {&to_gate, 1});
  const Product to_up{&w[&LayerWeights::own_up_high], {}, up, Epilogue::add};
  multiply(low, {&to_up, 1});
}

void CpuWorker::leave_block(uint32_t layer) {
  const CpuBuffers& b = step_.buffers;
  const Product link{
      &step_.weights.layer(layer)[&LayerWeights::block_link], {}, b.product.floats()};
  multiply(b.hidden.floats(), {&link, 1});
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t at = mine.first * width; at < mine.last * width; at += width) {
    std::memcpy(b.hidden.floats() + at, b.beside.floats() + at, width * sizeof(float));
    step_.ops->add(b.hidden.floats() + at, b.product.floats() + at, width);
  }
  barrier();
}

void CpuWorker::leave_kept(uint32_t) {
  if (rows_ == 0) return;
  const uint64_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  std::memcpy(step_.buffers.hidden.floats() + mine.first * width,
              step_.buffers.beside.floats() + mine.first * width,
              (mine.last - mine.first) * width * sizeof(float));
  barrier();
}

}  // namespace tenon
