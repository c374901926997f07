// Mamba-2 has two phases: the convolution into the workspace, then the heads.
#include <algorithm>

#include "plugins/state/cpu/convolution.h"

namespace tenon::state_cpu {
namespace {

void read_dims(const uint32_t* dims, Layer& layer) {
  layer.heads = dims[0], layer.dim = dims[1], layer.state = dims[2], layer.groups = dims[3];
  layer.width = dims[4];
  layer.channels = layer.inner() + 2 * layer.groups * layer.state;
  layer.kept_floats = uint64_t{layer.inner()} * layer.state;
}

void read_parameters(std::span<const float* const> values, Layer& layer) {
  read_convolution(values, layer);
  layer.a.assign(values[2], values[2] + layer.heads);
  layer.dt_bias = values[3];
  layer.d = values[4];
  layer.limits = values[5];
}

uint64_t shared_floats(const Layer& layer, uint64_t rows) {
  return rows * layer.channels;
}
uint64_t own_floats(const Layer& layer, const KernelSet&) {
  return uint64_t{layer.dim} * layer.state;
}

void scan_head(const Task& task, const Part& part, uint32_t head) {
  const Layer& layer = task.layer;
  const uint64_t floats = uint64_t{layer.dim} * layer.state;
  const uint64_t at = layer.kept_rows() + head * floats;
  const uint64_t b_at = layer.inner() + uint64_t{head} * layer.groups / layer.heads * layer.state;
  HeadRow one{.d = layer.d[head], .dim = layer.dim, .state = layer.state};
  for (Walk walk(task, part, at, task.own); walk.more(); walk.advance()) {
    const uint64_t row = walk.row();
    const float* c = task.shared + row * layer.channels;
    const float step = softplus(task.input(1)[row * layer.heads + head] + layer.dt_bias[head]);
    one.delta = std::clamp(step, layer.limits[0], layer.limits[1]);
    one.decay = std::exp(one.delta * layer.a[head]);
    one.x = c + head * uint64_t{layer.dim};
    one.b = c + b_at;
    one.c = one.b + uint64_t{layer.groups} * layer.state;
    one.from = walk.from();
    one.to = walk.to();
    one.at_rest = walk.at_rest();
    one.y = static_cast<float*>(task.call.out) + row * layer.inner() + head * uint64_t{layer.dim};
    task.kernels.scan_head(one);
  }
}

void run(const Task& task, uint32_t phase, Slice slice) {
  if (phase == 0) return convolve(task, task.shared, slice);
  share_items(task, slice, task.layer.heads,
              [&](const Part& part, uint32_t head) { scan_head(task, part, head); });
}

}  // namespace

constinit const Kind kMamba2{.name = "mamba2",
                             .parameters = 6,
                             .phases = 2,
                             .read_dims = read_dims,
                             .read_parameters = read_parameters,
                             .shared_floats = shared_floats,
                             .own_floats = own_floats,
                             .run = run};

}  // namespace tenon::state_cpu
