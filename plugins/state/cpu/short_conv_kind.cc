// A short convolution, gated before and after, in plain loops: next to the products around it, it
// takes no time that can be measured.
#include <algorithm>

#include "plugins/state/cpu/convolution.h"

namespace tenon::state_cpu {
namespace {

void read_dims(const uint32_t* dims, Layer& layer) {
  layer.heads = dims[0], layer.width = dims[1];
  layer.channels = layer.heads;
}

uint64_t shared_floats(const Layer& layer, uint64_t rows) {
  return rows * layer.channels;
}

// Channels [first, last) of bias + Σⱼ weights[j] · taps[j].
void add_taps(const Convolution& row, uint32_t first, uint32_t last) {
  std::copy(row.bias + first, row.bias + last, row.out + first);
  for (uint32_t j = 0; j < row.width; ++j) {
    const float *weights = row.weights + uint64_t{j} * row.channels, *tap = row.taps[j];
    for (uint32_t i = first; i < last; ++i) row.out[i] += weights[i] * tap[i];
  }
}

// The input's rows are B, C and x. What slices share gets B · x.
void run(const Task& task, uint32_t, Slice slice) {
  const uint64_t channels = task.layer.channels;
  float* const made = task.shared;
  auto* const out = static_cast<float*>(task.call.out);
  const auto run_block = [&](const Part& part, uint32_t first, uint32_t last) {
    const auto each_row = [&](auto function) {
      for (uint64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
        function(task.input(0) + 3 * row * channels, row * channels);
      }
    };
    each_row([&](const float* bcx, uint64_t at) {
      for (uint32_t i = first; i < last; ++i) made[at + i] = bcx[i] * bcx[2 * channels + i];
    });
    convolve_block(task, made, add_taps, part, first, last, out);
    each_row([&](const float* bcx, uint64_t at) {
      for (uint32_t i = first; i < last; ++i) out[at + i] *= bcx[channels + i];
    });
  };
  share_blocks(task, slice, task.layer.channels, kBlockChannels, run_block);
}

}  // namespace

constinit const Kind kShortConv{.name = "short_conv",
                                .parameters = 2,
                                .keeps_state = false,
                                .read_dims = read_dims,
                                .read_parameters = read_convolution,
                                .shared_floats = shared_floats,
                                .run = run};

}  // namespace tenon::state_cpu
