// xLSTM's matrix memory. Each warp walks some rows of a head's matrix and, next to them, the head's
// normaliser and scale, which all warps of a head find alike; that of its first rows keeps them.
#include <cmath>

#include "core/exec/cuda/kernels/launch_recurrence.h"
#include "core/exec/cuda/kernels/state_steps.cuh"

namespace tenon::cuda {

struct ScanMlstmView {
  StateStepsView steps;
  Global<const float> qkv, gates;
  Global<float> y;
  int heads, dim, state, stride;
  float cap, eps, scale;
};

// Rows of a head's matrix: those of a warp, whose sums do not wait for each other, and of a block.
constexpr int kWarpRows = 4;
constexpr int kBlockRows = kWarpRows * kRowThreads / static_cast<int>(kWarp);

// What a lane reads of a row; of k, q and each row of the matrix it has the numbers lane, lane + 32
// …
template <int kept>
struct MlstmRow {
  float i = 0.0f, f = 0.0f;
  float v[kWarpRows], q[kept], k[kept];

  TENON_DEVICE void load(const ScanMlstmView& s, int64_t row, int head, int first, int lane) {
    const int keys = s.heads * s.state;
    const Global<const float> own = s.qkv + row * s.stride;
    i = s.gates[row * s.stride + head];
    f = s.gates[row * s.stride + s.heads + head];
    TENON_UNROLL for (int r = 0; r < kWarpRows; ++r) {
      v[r] = first + r < s.dim ? float{own[2 * keys + head * s.dim + first + r]} : 0.0f;
    }
    TENON_UNROLL for (int n = 0; n < kept; ++n) {
      const int at = lane + static_cast<int>(kWarp) * n;
      q[n] = k[n] = 0.0f;
      if (at >= s.state) continue;
      q[n] = own[head * s.state + at];
      k[n] = own[keys + head * s.state + at];
    }
  }
};

TENON_DEVICE float capped(float x, float cap) {
  return cap == 0.0f ? x : cap * tanhf(x / cap);
}

// Grid: sequences · heads · parts of kBlockRows rows of a head's matrix.
template <int kept>
__global__ void scan_mlstm_kernel(ScanMlstmView s) {
  let_next_start();
  wait_for_earlier();
  const auto parts = static_cast<uint32_t>((s.dim + kBlockRows - 1) / kBlockRows);
  const auto heads = static_cast<uint32_t>(s.heads);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int head = static_cast<int>(blockIdx.x / parts % heads);
  const int first = static_cast<int>(blockIdx.x % parts) * kBlockRows +
                    static_cast<int>(threadIdx.x / kWarp) * kWarpRows;
  const StateSequence own = s.steps.sequences[blockIdx.x / parts / heads];
  if (own.rows == 0 || first >= s.dim) return;
  const auto in_row = [&](int n) { return lane + static_cast<int>(kWarp) * n < s.state; };
  const auto place = [&](int64_t row, int n) {
    return row * s.state + lane + static_cast<int>(kWarp) * n;
  };
  const int64_t first_row = int64_t{head} * s.dim + first;
  const int64_t sums_row = int64_t{s.heads} * s.dim + head;  // the normaliser, after all matrices
  const int64_t scale_at = (int64_t{s.heads} * s.dim + s.heads) * s.state + head;
  float c[kWarpRows][kept], sums[kept], m = 0.0f;
  TENON_UNROLL for (int n = 0; n < kept; ++n) {
    TENON_UNROLL for (int r = 0; r < kWarpRows; ++r) c[r][n] = 0.0f;
    sums[n] = 0.0f;
    if (own.from == kNoSlot || !in_row(n)) continue;
    sums[n] = s.steps.slot(own.from)[place(sums_row, n)];
    TENON_UNROLL for (int r = 0; r < kWarpRows; ++r) {
      if (first + r < s.dim) c[r][n] = s.steps.slot(own.from)[place(first_row + r, n)];
    }
  }
  if (own.from != kNoSlot) m = s.steps.slot(own.from)[scale_at];
  const int64_t end = static_cast<int64_t>(own.first_row) + own.rows;
  MlstmRow<kept> next;
  next.load(s, own.first_row, head, first, lane);
  for (int64_t row = own.first_row; row < end; ++row) {
    const MlstmRow<kept> now = next;
    if (row + 1 < end) next.load(s, row + 1, head, first, lane);
    const float i = capped(now.i, s.cap);
    const float kept_log = m - softplus(-capped(now.f, s.cap));
    m = fmaxf(kept_log, i);
    const float keeps = expf(kept_log - m), writes = expf(i - m);
    float along = 0.0f;
    TENON_UNROLL for (int n = 0; n < kept; ++n) {
      sums[n] = fmaf(keeps, sums[n], writes * now.k[n]);
      along = fmaf(sums[n], now.q[n], along);
    }
    along = warp_sum(along);
    const float divisor = fmaxf(fabsf(along) * s.scale, expf(-m)) + s.eps;
    const Global<float> y = s.y + (row * s.stride + first_row);
    TENON_UNROLL for (int r = 0; r < kWarpRows; ++r) {
      const float input = writes * now.v[r];
      float sum = 0.0f;
      TENON_UNROLL for (int n = 0; n < kept; ++n) {
        c[r][n] = fmaf(keeps, c[r][n], input * now.k[n]);
        sum = fmaf(c[r][n], now.q[n], sum);
      }
      sum = warp_sum(sum);
      if (lane == r && first + r < s.dim) y[r] = sum * s.scale / divisor;
    }
    const int32_t to = s.steps.to[row];
    if (to == kNoSlot) continue;
    TENON_UNROLL for (int n = 0; n < kept; ++n) {
      if (!in_row(n)) continue;
      if (first == 0) s.steps.slot(to)[place(sums_row, n)] = sums[n];
      TENON_UNROLL for (int r = 0; r < kWarpRows; ++r) {
        if (first + r < s.dim) s.steps.slot(to)[place(first_row + r, n)] = c[r][n];
      }
    }
    if (first == 0 && lane == 0) s.steps.slot(to)[scale_at] = m;
  }
}

int launch_scan_mlstm(void* stream, const ScanMlstmCall& c) {
  ScanMlstmView view;
  view.steps = view_of(c.steps);
  view.qkv = Global<const float>(c.qkv);
  view.gates = Global<const float>(c.gates);
  view.y = Global<float>(c.y);
  view.heads = c.heads;
  view.dim = c.dim;
  view.state = c.state;
  view.stride = c.stride;
  view.cap = c.cap;
  view.eps = c.eps;
  view.scale = 1.0f / std::sqrt(static_cast<float>(c.state));
  const uint64_t blocks =
      c.steps.count * static_cast<uint64_t>(c.heads) * parts_of(c.dim, kBlockRows);
  return with_kept(
      c.state, static_cast<int>(kWarp), [&]<int kept>(std::integral_constant<int, kept>) {
        return launch(config_of("scan_mlstm", blocks, stream), scan_mlstm_kernel<kept>, view);
      });
}

}  // namespace tenon::cuda
