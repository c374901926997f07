// Mamba's layers are called twice, since the executor multiplies in between: the first call
// convolves, the second scans channels.
#include <algorithm>

#include "plugins/state/cpu/convolution.h"

namespace tenon::state_cpu {
namespace {

void read_dims(const uint32_t* dims, Layer& layer) {
  layer.heads = dims[0], layer.state = dims[1], layer.width = dims[2];
  layer.channels = layer.heads;
  layer.kept_floats = uint64_t{layer.heads} * layer.state;
}

void read_parameters(std::span<const float* const> values, Layer& layer) {
  read_convolution(values, layer);
  layer.a = transposed(values[2], layer.inner(), layer.state);
  layer.dt_bias = values[3];
  layer.d = values[4];
}

// The steps of a row, and after them room for the block of a state.
uint64_t own_floats(const Layer& layer, const KernelSet&) {
  return uint64_t{kBlockChannels} * (layer.state + 1);
}

void scan_block(const Task& task, const Part& part, uint32_t first, uint32_t count) {
  const Layer& layer = task.layer;
  const uint64_t channels = layer.inner(), at = layer.kept_rows() + first;
  float* steps = task.own;
  ChannelRow one{.a = layer.a.data() + first,
                 .delta = steps,
                 .d = layer.d + first,
                 .stride = channels,
                 .count = count,
                 .state = layer.state};
  for (Walk walk(task, part, at, task.own + kBlockChannels); walk.more(); walk.advance()) {
    const uint64_t row = walk.row(), of_row = row * channels + first;
    for (uint32_t i = 0; i < count; ++i) {
      steps[i] = softplus(task.input(1)[of_row + i] + layer.dt_bias[first + i]);
    }
    one.x = task.input(0) + of_row;
    one.y = static_cast<float*>(task.call.out) + of_row;
    one.b = task.input(2) + row * 2 * layer.state;
    one.c = one.b + layer.state;
    one.from = walk.from();
    one.from_stride = walk.from_beside() ? kBlockChannels : channels;
    one.to = walk.to();
    one.to_stride = walk.to_beside() ? kBlockChannels : channels;
    task.kernels.scan_channels(one);
  }
}

void run(const Task& task, uint32_t, Slice slice) {
  if (task.call.inputs.size() == 1) {
    return convolve(task, static_cast<float*>(task.call.out), slice);
  }
  share_blocks(task, slice, task.layer.inner(), kBlockChannels,
               [&](const Part& part, uint32_t first, uint32_t last) {
                 scan_block(task, part, first, last - first);
               });
}

}  // namespace

constinit const Kind kMamba{.name = "mamba",
                            .parameters = 5,
                            .read_dims = read_dims,
                            .read_parameters = read_parameters,
                            .own_floats = own_floats,
                            .run = run};

}  // namespace tenon::state_cpu
