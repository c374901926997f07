// Recurrent layers: the convolution in front of a scan, and the scans. A sequence's state stays in
// registers while its rows are walked; what the next row needs is on its way before a row is
// computed.
#pragma once

#include "core/exec/cuda/kernels/state_steps.cuh"

namespace tenon::cuda {

// The sum of a convolution that ends at a row, and what the row leaves in its slot, where it has
// one. `x_of` has the convolved numbers of the step's rows.
template <typename XOf>
TENON_DEVICE float convolved(const StateStepsView& steps, Global<const float> weights,
                             Global<const float> bias, int channels, int width, int64_t row,
                             int channel, XOf x_of) {
  const StateSequence own = steps.sequences[uint32_t{steps.row_sequence[row]}];
  const int32_t to = steps.to[row];
  const int64_t done = row - static_cast<int64_t>(own.first_row);
  float sum = 0.0f;
  if (bias) sum = bias[channel];
  for (int j = 0; j < width; ++j) {
    const int64_t back = width - 1 - j;
    float x = 0.0f;
    if (back <= done) {
      x = x_of(row - back);
    } else if (own.from != kNoSlot) {
      x = steps.slot(own.from)[(j + done) * channels + channel];
    }
    sum = fmaf(weights[int64_t{channel} * width + j], x, sum);
    if (j > 0 && to != kNoSlot) steps.slot(to)[int64_t{j - 1} * channels + channel] = x;
  }
  return sum;
}

struct ConvolveView {
  StateStepsView steps;
  Global<const float> x, weights, bias;
  Global<float> out;
  int channels, width, x_stride;
};

// Grid: rows · parts of kRowThreads channels. Rows that end in a slot leave what they saw there.
__global__ void convolve_kernel(ConvolveView v) {
  let_next_start();
  wait_for_earlier();
  const auto parts = static_cast<uint32_t>((v.channels + kRowThreads - 1) / kRowThreads);
  const int64_t row = blockIdx.x / parts;
  const int channel = static_cast<int>(blockIdx.x % parts * kRowThreads + threadIdx.x);
  if (channel >= v.channels) return;
  const float sum = convolved(v.steps, v.weights, v.bias, v.channels, v.width, row, channel,
                              [&](int64_t at) { return float{v.x[at * v.x_stride + channel]}; });
  v.out[row * v.channels + channel] = activate(ActivationKind::silu, sum);
}

struct ShortConvView {
  StateStepsView steps;
  Global<const float> bcx, weights, bias;
  Global<float> out;
  int channels, width;
};

// The same grid.
__global__ void short_conv_kernel(ShortConvView v) {
  let_next_start();
  wait_for_earlier();
  const auto parts = static_cast<uint32_t>((v.channels + kRowThreads - 1) / kRowThreads);
  const int64_t row = blockIdx.x / parts;
  const int channel = static_cast<int>(blockIdx.x % parts * kRowThreads + threadIdx.x);
  if (channel >= v.channels) return;
  const auto part = [&](int64_t at, int which) {
    return float{v.bcx[(3 * at + which) * v.channels + channel]};
  };
  const float sum = convolved(v.steps, v.weights, v.bias, v.channels, v.width, row, channel,
                              [&](int64_t at) { return part(at, 0) * part(at, 2); });
  v.out[row * v.channels + channel] = part(row, 1) * sum;
}

struct ScanChannelsView {
  StateStepsView steps;
  Global<const float> c, step, bc, a, step_bias, d;
  Global<float> y;
  int64_t first_float;
  int channels, state, bc_stride, y_stride;
};

// So many lanes share a channel: 8 channels of a warp are 32 bytes side by side, which is what
// memory moves.
inline constexpr int kChannelLanes = 4;
inline constexpr int kScanChannels = kRowThreads / kChannelLanes;  // of a block

// What a lane reads of a row; `kept` numbers of a channel's state are its own, those from
// threadIdx.x % kChannelLanes on in steps of kChannelLanes.
template <int kept>
struct ChannelRow {
  float x = 0.0f, step = 0.0f;
  float b[kept], c[kept];

  TENON_DEVICE void load(const ScanChannelsView& v, int64_t row, int channel, int part) {
    if (channel < v.channels) {
      x = v.c[row * v.channels + channel];
      step = v.step[row * v.channels + channel];
    }
    const Global<const float> both = v.bc + row * v.bc_stride;
    TENON_UNROLL for (int i = 0; i < kept; ++i) {
      const int n = part + kChannelLanes * i;
      b[i] = c[i] = 0.0f;
      if (n >= v.state) continue;
      b[i] = both[n];
      c[i] = both[v.state + n];
    }
  }
};

// Grid: sequences · parts of kScanChannels channels.
template <int kept>
__global__ void scan_channels_kernel(ScanChannelsView v) {
  let_next_start();
  wait_for_earlier();
  const auto parts = static_cast<uint32_t>((v.channels + kScanChannels - 1) / kScanChannels);
  const StateSequence own = v.steps.sequences[blockIdx.x / parts];
  const int part = static_cast<int>(threadIdx.x) % kChannelLanes;
  const int channel = static_cast<int>(blockIdx.x % parts) * kScanChannels +
                      static_cast<int>(threadIdx.x) / kChannelLanes;
  if (own.rows == 0) return;
  const bool there = channel < v.channels;
  const auto is_kept = [&](int i) { return there && part + kChannelLanes * i < v.state; };
  const auto place = [&](int i) {
    return v.first_float + int64_t{part + kChannelLanes * i} * v.channels + channel;
  };
  float h[kept], a[kept];
  TENON_UNROLL for (int i = 0; i < kept; ++i) {
    h[i] = a[i] = 0.0f;
    if (!is_kept(i)) continue;
    a[i] = v.a[int64_t{channel} * v.state + part + kChannelLanes * i];
    if (own.from != kNoSlot) h[i] = v.steps.slot(own.from)[place(i)];
  }
  const float bias = there ? float{v.step_bias[channel]} : 0.0f;
  const float d = there ? float{v.d[channel]} : 0.0f;
  const int64_t end = static_cast<int64_t>(own.first_row) + own.rows;
  ChannelRow<kept> next;
  next.load(v, own.first_row, channel, part);
  for (int64_t row = own.first_row; row < end; ++row) {
    const ChannelRow<kept> now = next;
    if (row + 1 < end) next.load(v, row + 1, channel, part);
    const float delta = softplus(now.step + bias);
    const float input = delta * now.x;
    float sum = 0.0f;
    TENON_UNROLL for (int i = 0; i < kept; ++i) {
      h[i] = fmaf(expf(delta * a[i]), h[i], input * now.b[i]);
      sum = fmaf(h[i], now.c[i], sum);
    }
    TENON_UNROLL for (int with = 1; with < kChannelLanes; with *= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, with);
    }
    if (there && part == 0) v.y[row * v.y_stride + channel] = fmaf(d, now.x, sum);
    const int32_t to = v.steps.to[row];
    if (to == kNoSlot) continue;
    TENON_UNROLL for (int i = 0; i < kept; ++i) {
      if (is_kept(i)) v.steps.slot(to)[place(i)] = h[i];
    }
  }
}

struct ScanHeadsView {
  StateStepsView steps;
  Global<const float> c, step, a, step_bias, d;
  Global<float> y;
  int64_t first_float;
  int heads, dim, state, groups, step_stride, y_stride;
  float least_step, most_step;
};

// Rows of a head's state: those of a warp, whose sums do not wait for each other, and of a block.
inline constexpr int kWarpDims = 4;
inline constexpr int kBlockDims = kWarpDims * kRowThreads / static_cast<int>(kWarp);

// What a lane reads of a row; of each row of a head's state it has the numbers lane, lane + 32 …
template <int kept>
struct HeadRow {
  float step = 0.0f;
  float x[kWarpDims], b[kept], c[kept];

  TENON_DEVICE void load(const ScanHeadsView& v, int64_t row, int head, int first_dim, int lane) {
    const int inner = v.heads * v.dim;
    const int group = head * v.groups / v.heads;
    const Global<const float> own = v.c + row * (inner + 2 * v.groups * v.state);
    const Global<const float> own_b = own + (inner + group * v.state);
    const Global<const float> own_c = own_b + v.groups * v.state;
    step = v.step[row * v.step_stride + head];
    TENON_UNROLL for (int r = 0; r < kWarpDims; ++r) {
      x[r] = 0.0f;
      if (first_dim + r < v.dim) x[r] = own[head * v.dim + first_dim + r];
    }
    TENON_UNROLL for (int i = 0; i < kept; ++i) {
      const int n = lane + static_cast<int>(kWarp) * i;
      b[i] = c[i] = 0.0f;
      if (n >= v.state) continue;
      b[i] = own_b[n];
      c[i] = own_c[n];
    }
  }
};

// Grid: sequences · heads · parts of kBlockDims rows of a head's state.
template <int kept>
__global__ void scan_heads_kernel(ScanHeadsView v) {
  let_next_start();
  wait_for_earlier();
  const auto parts = static_cast<uint32_t>((v.dim + kBlockDims - 1) / kBlockDims);
  const auto heads = static_cast<uint32_t>(v.heads);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int head = static_cast<int>(blockIdx.x / parts % heads);
  const int first_dim = static_cast<int>(blockIdx.x % parts) * kBlockDims +
                        static_cast<int>(threadIdx.x / kWarp) * kWarpDims;
  const StateSequence own = v.steps.sequences[blockIdx.x / parts / heads];
  if (own.rows == 0 || first_dim >= v.dim) return;
  const auto is_kept = [&](int r, int i) {
    return first_dim + r < v.dim && lane + static_cast<int>(kWarp) * i < v.state;
  };
  const auto place = [&](int r, int i) {
    return v.first_float + (int64_t{head} * v.dim + first_dim + r) * v.state + lane +
           static_cast<int>(kWarp) * i;
  };
  float h[kWarpDims][kept];
  TENON_UNROLL for (int r = 0; r < kWarpDims; ++r) {
    TENON_UNROLL for (int i = 0; i < kept; ++i) {
      h[r][i] = 0.0f;
      if (own.from != kNoSlot && is_kept(r, i)) h[r][i] = v.steps.slot(own.from)[place(r, i)];
    }
  }
  const float a = v.a[head], bias = v.step_bias[head], d = v.d[head];
  const int64_t end = static_cast<int64_t>(own.first_row) + own.rows;
  HeadRow<kept> next;
  next.load(v, own.first_row, head, first_dim, lane);
  for (int64_t row = own.first_row; row < end; ++row) {
    const HeadRow<kept> now = next;
    if (row + 1 < end) next.load(v, row + 1, head, first_dim, lane);
    const float delta = fminf(fmaxf(softplus(now.step + bias), v.least_step), v.most_step);
    const float decay = expf(delta * a);
    const Global<float> y = v.y + (row * v.y_stride + int64_t{head} * v.dim + first_dim);
    TENON_UNROLL for (int r = 0; r < kWarpDims; ++r) {
      const float input = delta * now.x[r];
      float sum = 0.0f;
      TENON_UNROLL for (int i = 0; i < kept; ++i) {
        h[r][i] = fmaf(decay, h[r][i], input * now.b[i]);
        sum = fmaf(h[r][i], now.c[i], sum);
      }
      sum = warp_sum(sum);
      if (lane == r && first_dim + r < v.dim) y[r] = fmaf(d, now.x[r], sum);
    }
    const int32_t to = v.steps.to[row];
    if (to == kNoSlot) continue;
    TENON_UNROLL for (int r = 0; r < kWarpDims; ++r) {
      TENON_UNROLL for (int i = 0; i < kept; ++i) {
        if (is_kept(r, i)) v.steps.slot(to)[place(r, i)] = h[r][i];
      }
    }
  }
}

struct ScanDeltaView {
  StateStepsView steps;
  Global<const float> c, step, beta, a, step_bias;
  Global<float> y;
  int64_t first_float;
  int heads, dim, state, groups, decays, step_stride, y_stride;
  float strongest_decay;
};

// So many lanes share a column of a head's state, which a key reads and a value is written to; the
// others of a warp have neighbouring columns.
inline constexpr int kColumnLanes = 8;
inline constexpr int kWarpColumns = static_cast<int>(kWarp) / kColumnLanes;
inline constexpr int kBlockColumns = kRowThreads / kColumnLanes;

// The sum over a column's lanes, in a butterfly.
TENON_DEVICE float column_sum(float x) {
  TENON_UNROLL for (int with = kWarpColumns; with < static_cast<int>(kWarp); with *= 2) {
    x += __shfl_xor_sync(kAllLanes, x, with);
  }
  return x;
}

// What a lane reads of a row; of each key and query it has the numbers part, part + kColumnLanes …
template <int kept>
struct DeltaRow {
  float beta = 0.0f, step = 0.0f, v = 0.0f;
  float q[kept], k[kept];

  TENON_DEVICE void load(const ScanDeltaView& s, int64_t row, int head, int column, int part) {
    const int keys = s.groups * s.state;
    const Global<const float> own = s.c + row * (2 * keys + s.heads * s.dim);
    const Global<const float> own_q = own + head * s.groups / s.heads * s.state;
    const Global<const float> own_k = own_q + keys;
    beta = s.beta[row * s.step_stride + head];
    if (s.decays == 1) step = s.step[row * s.step_stride + head];
    if (column < s.dim) v = own[2 * keys + head * s.dim + column];
    TENON_UNROLL for (int i = 0; i < kept; ++i) {
      const int n = part + kColumnLanes * i;
      q[i] = k[i] = 0.0f;
      if (n >= s.state) continue;
      q[i] = own_q[n];
      k[i] = own_k[n];
    }
  }
};

// What a number of state is multiplied by: of a step that has its bias.
TENON_DEVICE float delta_decay(float step, float a, float strongest) {
  const float log = strongest == 0.0f ? a * softplus(step) : strongest / (1.0f + expf(a * step));
  return expf(log);
}

// The gated delta rule. Grid: sequences · heads · parts of kBlockColumns columns of a head's state.
template <int kept>
__global__ void scan_delta_kernel(ScanDeltaView s) {
  let_next_start();
  wait_for_earlier();
  const auto parts = static_cast<uint32_t>((s.dim + kBlockColumns - 1) / kBlockColumns);
  const auto heads = static_cast<uint32_t>(s.heads);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int part = lane / kWarpColumns;
  const int head = static_cast<int>(blockIdx.x / parts % heads);
  const int column = static_cast<int>(blockIdx.x % parts) * kBlockColumns +
                     static_cast<int>(threadIdx.x / kWarp) * kWarpColumns + lane % kWarpColumns;
  const StateSequence own = s.steps.sequences[blockIdx.x / parts / heads];
  if (own.rows == 0) return;
  const bool there = column < s.dim;
  const auto is_kept = [&](int i) { return there && part + kColumnLanes * i < s.state; };
  const auto place = [&](int i) {
    return s.first_float + (int64_t{head} * s.state + part + kColumnLanes * i) * s.dim + column;
  };
  float h[kept];
  TENON_UNROLL for (int i = 0; i < kept; ++i) {
    h[i] = 0.0f;
    if (own.from != kNoSlot && is_kept(i)) h[i] = s.steps.slot(own.from)[place(i)];
  }
  const float a = s.a[head];
  const Global<const float> biases = s.step_bias + int64_t{head} * s.decays;
  const float bias = s.decays == 1 ? float{biases[0]} : 0.0f;
  const int64_t end = static_cast<int64_t>(own.first_row) + own.rows;
  DeltaRow<kept> next;
  next.load(s, own.first_row, head, column, part);
  for (int64_t row = own.first_row; row < end; ++row) {
    const DeltaRow<kept> now = next;
    if (row + 1 < end) next.load(s, row + 1, head, column, part);
    if (s.decays == 1) {
      const float decay = delta_decay(now.step + bias, a, s.strongest_decay);
      TENON_UNROLL for (int i = 0; i < kept; ++i) h[i] *= decay;
    } else {
      const Global<const float> steps = s.step + (row * s.step_stride + int64_t{head} * s.decays);
      TENON_UNROLL for (int i = 0; i < kept; ++i) {
        const int n = part + kColumnLanes * i;
        if (n < s.state) h[i] *= delta_decay(steps[n] + biases[n], a, s.strongest_decay);
      }
    }
    float read = 0.0f;
    TENON_UNROLL for (int i = 0; i < kept; ++i) read = fmaf(h[i], now.k[i], read);
    read = column_sum(read);
    const float change = (now.v - read) / (1.0f + expf(-now.beta));
    float sum = 0.0f;
    TENON_UNROLL for (int i = 0; i < kept; ++i) {
      h[i] = fmaf(now.k[i], change, h[i]);
      sum = fmaf(h[i], now.q[i], sum);
    }
    sum = column_sum(sum);
    if (there && part == 0) s.y[row * s.y_stride + int64_t{head} * s.dim + column] = sum;
    const int32_t to = s.steps.to[row];
    if (to == kNoSlot) continue;
    TENON_UNROLL for (int i = 0; i < kept; ++i) {
      if (is_kept(i)) s.steps.slot(to)[place(i)] = h[i];
    }
  }
}

}  // namespace tenon::cuda
