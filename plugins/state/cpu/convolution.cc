#include "plugins/state/cpu/convolution.h"

#include <algorithm>

namespace tenon::state_cpu {
namespace {

// The row of x that stands `back` rows before row `done` of its sequence.
const float* row_before(const Task& task, const float* x, const Part& part, uint32_t done,
                        uint32_t back) {
  const uint64_t channels = task.layer.channels;
  if (back <= done) return x + (part.first_row + done - back) * channels;
  if (part.from == kNoBlock) return task.zeros;
  const uint32_t from_end = back - done;  // 1: the last one that is kept
  return task.slot(part.from) + (task.layer.width - 1 - from_end) * channels;
}

}  // namespace

std::vector<float> transposed(const float* from, uint64_t rows, uint64_t columns) {
  std::vector<float> to(rows * columns);
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      to[column * rows + row] = from[row * columns + column];
    }
  }
  return to;
}

void read_convolution(std::span<const float* const> values, Layer& layer) {
  layer.conv = transposed(values[0], layer.channels, layer.width);
  layer.conv_bias = values[1];
}

void convolve_block(const Task& task, const float* x, Sum sum, const Part& part, uint32_t first,
                    uint32_t last, float* out) {
  const Layer& layer = task.layer;
  const uint64_t channels = layer.channels;
  const float* taps[kMaxWidth];
  Convolution row{taps, layer.conv.data(), layer.conv_bias, nullptr, layer.width, layer.channels};
  for (uint32_t done = 0; done < part.rows; ++done) {
    for (uint32_t j = 0; j < layer.width; ++j) {
      taps[j] = row_before(task, x, part, done, layer.width - 1 - j);
    }
    row.out = out + (part.first_row + done) * channels;
    sum(row, first, last);
  }
  for (const End& end : task.plan.ends_of(part)) {
    float* to = task.slot(end.block);
    for (uint32_t back = layer.width - 1; back > 0; --back, to += channels) {
      const float* from = row_before(task, x, part, end.rows, back);
      std::copy(from + first, from + last, to + first);
    }
  }
}

void convolve_block(const Task& task, const Part& part, uint32_t first, uint32_t last, float* out) {
  convolve_block(task, task.input(0), task.kernels.convolve, part, first, last, out);
}

void convolve(const Task& task, float* out, Slice slice) {
  share_blocks(task, slice, task.layer.channels, kBlockChannels,
               [&](const Part& part, uint32_t first, uint32_t last) {
                 convolve_block(task, part, first, last, out);
               });
}

}  // namespace tenon::state_cpu
