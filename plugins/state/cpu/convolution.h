// The convolution of channels that several kinds begin with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "plugins/state/cpu/kernels.h"
#include "plugins/state/cpu/kind.h"

namespace tenon::state_cpu {

inline constexpr uint32_t kBlockChannels = 64;  // that a worker takes at a time: whole cache lines

// The first two parameters of such kinds.
void read_convolution(std::span<const float* const> values, Layer& layer);
// rows × columns → columns × rows
std::vector<float> transposed(const float* from, uint64_t rows, uint64_t columns);

using Sum = void (*)(const Convolution& row, uint32_t first, uint32_t last);

// Channels [first, last) of x [rows, channels] → out, of all rows of a sequence, and what they
// leave in slots.
void convolve_block(const Task& task, const float* x, Sum sum, const Part& part, uint32_t first,
                    uint32_t last, float* out);
// Of the first input, with silu.
void convolve_block(const Task& task, const Part& part, uint32_t first, uint32_t last, float* out);
// All channels, in blocks that are shared out.
void convolve(const Task& task, float* out, Slice slice);

// Calls run(part, first, last) for blocks of `channels`.
template <typename Run>
void share_blocks(const Task& task, Slice slice, uint32_t channels, uint32_t block, Run run) {
  share_items(task, slice, (channels + block - 1) / block, [&](const Part& part, uint32_t item) {
    run(part, item * block, std::min((item + 1) * block, channels));
  });
}

}  // namespace tenon::state_cpu
