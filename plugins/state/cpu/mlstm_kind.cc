// xLSTM's matrix memory has two phases. The first makes, head by head, the factors of each row:
// what its state is kept and written with, and what its output is multiplied by, for which the
// normaliser is advanced. The second scans rows of the heads' matrices, which is Mamba-2's scan
// with v, k and q for x, B and C.
#include <algorithm>

#include "plugins/state/cpu/kernels.h"
#include "plugins/state/cpu/kind.h"

namespace tenon::state_cpu {
namespace {

constexpr uint32_t kBlockRows = 16;  // of a head's matrix, that a worker takes at a time
constexpr uint32_t kFactors = 3;     // of a row and a head: keeps, writes, output

void read_dims(const uint32_t* dims, Layer& layer) {
  layer.heads = dims[0], layer.dim = dims[1], layer.state = dims[2];
  layer.groups = layer.heads;
  layer.kept_floats =
      uint64_t{layer.inner()} * layer.state + uint64_t{layer.heads} * (layer.state + 1);
}

void read_parameters(std::span<const float* const> values, Layer& layer) {
  layer.limits = values[0];
}

uint64_t shared_floats(const Layer& layer, uint64_t rows) {
  return rows * layer.heads * kFactors;
}
uint64_t own_floats(const Layer& layer, const KernelSet&) {
  return uint64_t{kBlockRows} * layer.state;
}

float* factors_of(const Task& task, uint64_t row, uint32_t head) {
  return task.shared + (row * task.layer.heads + head) * kFactors;
}

// q of the head. Its k is as many numbers later as all heads have of q.
const float* q_of(const Task& task, uint64_t row, uint32_t head) {
  const Layer& layer = task.layer;
  const uint64_t keys = uint64_t{layer.heads} * layer.state;
  return task.input(0) + row * (2 * keys + layer.inner()) + uint64_t{head} * layer.state;
}

float capped(float x, float cap) {
  return cap == 0 ? x : cap * std::tanh(x / cap);
}

void find_factors(const Task& task, const Part& part, uint32_t head) {
  const Layer& layer = task.layer;
  const uint64_t keys = uint64_t{layer.heads} * layer.state;
  const uint64_t normalisers = uint64_t{layer.inner()} * layer.state;
  const float scale = 1.0f / std::sqrt(static_cast<float>(layer.state)), one = 1.0f;
  const float cap = layer.limits[0];  // on what gates are made of; 0: none
  float beside = 0;                   // where no slot keeps the scale
  Walk scales(task, part, normalisers + keys + head, &beside);
  Walk walk(task, part, normalisers + uint64_t{head} * layer.state, task.own);
  for (; walk.more(); walk.advance(), scales.advance()) {
    const uint64_t row = walk.row(), gates = row * layer.heads + head;
    const float* q = q_of(task, row, head);
    const float i = capped(task.input(1)[gates], cap);
    const float before = scales.from() == nullptr ? 0.0f : *scales.from();
    const float kept = before - softplus(-capped(task.input(2)[gates], cap));
    const float now = std::max(kept, i);
    *scales.to() = now;
    float* factors = factors_of(task, row, head);
    factors[0] = std::exp(kept - now);
    factors[1] = std::exp(i - now);
    float along = 0;
    task.kernels.scan_head({.decay = factors[0],
                            .delta = factors[1],
                            .x = &one,
                            .b = q + keys,
                            .c = q,
                            .from = walk.from(),
                            .to = walk.to(),
                            .y = &along,
                            .dim = 1,
                            .state = layer.state});
    const float divisor = std::max(std::abs(along) * scale, std::exp(-now)) + layer.limits[1];
    factors[2] = scale / divisor;
  }
}

void scan_rows(const Task& task, const Part& part, uint32_t head, uint32_t first, uint32_t count) {
  const Layer& layer = task.layer;
  const uint64_t keys = uint64_t{layer.heads} * layer.state;
  const uint64_t first_row = uint64_t{head} * layer.dim + first;
  HeadRow one{.dim = count, .state = layer.state};
  for (Walk walk(task, part, first_row * layer.state, task.own); walk.more(); walk.advance()) {
    const uint64_t row = walk.row();
    const float* factors = factors_of(task, row, head);
    one.decay = factors[0];
    one.delta = factors[1];
    one.c = q_of(task, row, head);
    one.b = one.c + keys;
    one.x = q_of(task, row, 0) + 2 * keys + first_row;
    one.from = walk.from();
    one.to = walk.to();
    one.at_rest = walk.at_rest();
    one.y = static_cast<float*>(task.call.out) + row * layer.inner() + first_row;
    task.kernels.scan_head(one);
    for (uint32_t p = 0; p < count; ++p) one.y[p] *= factors[2];
  }
}

void run(const Task& task, uint32_t phase, Slice slice) {
  const Layer& layer = task.layer;
  if (phase == 0) {
    return share_items(task, slice, layer.heads,
                       [&](const Part& part, uint32_t head) { find_factors(task, part, head); });
  }
  const uint32_t blocks = (layer.dim + kBlockRows - 1) / kBlockRows;
  share_items(task, slice, layer.heads * blocks, [&](const Part& part, uint32_t item) {
    const uint32_t first = item % blocks * kBlockRows;
    scan_rows(task, part, item / blocks, first, std::min(kBlockRows, layer.dim - first));
  });
}

}  // namespace

constinit const Kind kMlstm{.name = "mlstm",
                            .parameters = 1,
                            .phases = 2,
                            .read_dims = read_dims,
                            .read_parameters = read_parameters,
                            .shared_floats = shared_floats,
                            .own_floats = own_floats,
                            .run = run};

}  // namespace tenon::state_cpu
