// The gated delta rule has two phases: the first convolves, gives q and k their length, and makes
// decays and β; the second scans columns of heads.
#include <algorithm>

#include "plugins/state/cpu/convolution.h"

namespace tenon::state_cpu {
namespace {

void read_dims(const uint32_t* dims, Layer& layer) {
  layer.groups = dims[0], layer.heads = dims[1], layer.state = dims[2], layer.dim = dims[3];
  layer.width = dims[4], layer.decays = dims[5];
  layer.channels = layer.inner() + 2 * layer.groups * layer.state;
  layer.kept_floats = uint64_t{layer.inner()} * layer.state;
}

std::string fault(const Layer& layer) {
  if (layer.decays == 1 || layer.decays == layer.state) return {};
  return std::to_string(layer.decays) + " decays a head; expected 1, or one for each of the " +
         std::to_string(layer.state) + " elements of a key";
}

void read_parameters(std::span<const float* const> values, Layer& layer) {
  read_convolution(values, layer);
  layer.a.assign(values[2], values[2] + layer.heads);
  layer.dt_bias = values[3];
  layer.limits = values[4];
}

// q, k and v [rows, channels], q and k of their length; then [rows, factors] the decays of all
// heads, and their β.
uint64_t shared_floats(const Layer& layer, uint64_t rows) {
  return rows * (uint64_t{layer.channels} + layer.factors());
}
float* factors_of(const Task& task, uint64_t row) {
  const Layer& layer = task.layer;
  return task.shared + task.most_rows * layer.channels + row * layer.factors();
}
uint64_t own_floats(const Layer& layer, const KernelSet& kernels) {
  return uint64_t{kernels.delta_columns} * layer.state;
}

void find_factors(const Task& task, uint64_t row, uint32_t head) {
  const Layer& layer = task.layer;
  float* line = factors_of(task, row);
  const float strongest = layer.limits[0], scale = layer.limits[1];
  const uint64_t steps = layer.steps(), first = uint64_t{head} * layer.decays;
  for (uint64_t i = first; i < first + layer.decays; ++i) {
    const float x = task.input(1)[row * steps + i] + layer.dt_bias[i];
    const float a = layer.a[head];
    line[i] = std::exp(strongest == 0 ? a * softplus(x) : strongest * sigmoid(-a * x));
  }
  line[steps + head] = scale * sigmoid(task.input(2)[row * layer.heads + head]);
}

void enter_keys(const Task& task, const Part& part, uint32_t head) {
  const Layer& layer = task.layer;
  const uint32_t first = head * layer.state;
  convolve_block(task, part, first, first + layer.state, task.shared);
  const float length =
      head < layer.groups ? 1.0f / std::sqrt(static_cast<float>(layer.state)) : 1.0f;
  for (uint64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
    task.kernels.set_length(task.shared + row * layer.channels + first, layer.state, length);
  }
}

void enter_values(const Task& task, const Part& part, uint32_t head) {
  const Layer& layer = task.layer;
  const uint32_t first = 2 * layer.groups * layer.state + head * layer.dim;
  convolve_block(task, part, first, first + layer.dim, task.shared);
  for (uint64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
    find_factors(task, row, head);
  }
}

void scan_columns(const Task& task, const Part& part, uint32_t head, uint32_t first,
                  uint32_t count) {
  const Layer& layer = task.layer;
  const uint32_t columns = task.kernels.delta_columns;
  const uint64_t keys = uint64_t{layer.groups} * layer.state;
  const uint64_t at = layer.kept_rows() + uint64_t{head} * layer.state * layer.dim + first;
  const uint64_t k_at = uint64_t{head} * layer.groups / layer.heads * layer.state;
  const uint64_t column = uint64_t{head} * layer.dim + first;
  DeltaRow one{.decay_step = layer.decays == 1 ? 0u : 1u, .keys = layer.state, .count = count};
  for (Walk walk(task, part, at, task.own); walk.more(); walk.advance()) {
    const uint64_t row = walk.row();
    const float* c = task.shared + row * layer.channels;
    const float* line = factors_of(task, row);
    one.q = c + k_at;
    one.k = one.q + keys;
    one.v = c + 2 * keys + column;
    one.decays = line + uint64_t{head} * layer.decays;
    one.beta = line[layer.steps() + head];
    one.from = walk.from();
    one.from_stride = walk.from_beside() ? columns : layer.dim;
    one.to = walk.to();
    one.to_stride = walk.to_beside() ? columns : layer.dim;
    one.at_rest = walk.at_rest();
    one.y = static_cast<float*>(task.call.out) + row * layer.inner() + column;
    task.kernels.scan_delta(one);
  }
}

// First heads of q and k are shared out, then those of v. Columns of a head's state do not meet
// each other: blocks of them are shared out, and each stays in the nearest cache while all rows of
// a sequence pass over it.
void run(const Task& task, uint32_t phase, Slice slice) {
  const Layer& layer = task.layer;
  if (phase == 0) {
    const uint32_t keys = 2 * layer.groups;
    return share_items(task, slice, keys + layer.heads, [&](const Part& part, uint32_t head) {
      head < keys ? enter_keys(task, part, head) : enter_values(task, part, head - keys);
    });
  }
  const uint32_t columns = task.kernels.delta_columns;
  const uint32_t blocks = (layer.dim + columns - 1) / columns;
  share_items(task, slice, layer.heads * blocks, [&](const Part& part, uint32_t item) {
    const uint32_t first = item % blocks * columns;
    scan_columns(task, part, item / blocks, first, std::min(columns, layer.dim - first));
  });
}

}  // namespace

constinit const Kind kGatedDelta{.name = "gated_delta",
                                 .parameters = 5,
                                 .phases = 2,
                                 .read_dims = read_dims,
                                 .fault = fault,
                                 .read_parameters = read_parameters,
                                 .shared_floats = shared_floats,
                                 .own_floats = own_floats,
                                 .run = run};

}  // namespace tenon::state_cpu
