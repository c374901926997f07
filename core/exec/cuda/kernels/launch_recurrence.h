// What lies between the projections of a recurrent layer (docs/futures.md, "State kinds"), as
// functions that put it on a stream: launches.h says how such functions are.
//
// A sequence's rows are walked one after the other, and its state is as exact in memory as in
// registers, so bits do not depend on where steps end. Sums over a state are taken by lanes, each
// in order, then in a butterfly.
#pragma once

#include <cstdint>

namespace tenon::cuda {

inline constexpr int32_t kNoSlot = -1;

struct StateSequence {
  uint32_t first_row;
  uint32_t rows;
  int32_t from;  // the slot of its state before the rows, which is only read; kNoSlot: all zero
};

// A step's rows in one layer's states. No two rows' states go to the same slot, and none to one
// that a sequence begins with.
struct StateSteps {
  const StateSequence* sequences;  // [count]
  const uint32_t* row_sequence;    // [rows] which of them
  const int32_t* to;               // [rows] the slot of the state after the row; kNoSlot: none
  float* states;                   // the layer's part of slot 0
  int64_t slot_floats;             // from slot to slot
  uint32_t rows;
  uint32_t count;
};

// out = silu(bias + Σⱼ weights[·, j] · x[t - width + 1 + j]), and the first part of states: the
// last width - 1 rows of x, [width - 1, channels].
struct ConvolveCall {
  StateSteps steps;
  const float* x;        // [rows, x_stride]
  const float* weights;  // [channels, width]
  const float* bias;     // [channels] or null
  float* out;            // [rows, channels]
  int channels;
  int width;
  int x_stride;
};
int launch_convolve(void* stream, const ConvolveCall& call);

// A short convolution: bcx is B, C and x side by side, out = C·(bias + Σⱼ weights[·, j] ·
// (B·x)[t - width + 1 + j]), and states are the last width - 1 rows of B·x, [width - 1, channels].
struct ShortConvCall {
  StateSteps steps;
  const float* bcx;      // [rows, 3·channels]
  const float* weights;  // [channels, width]
  const float* bias;     // [channels] or null
  float* out;            // [rows, channels]
  int channels;
  int width;
};
int launch_short_conv(void* stream, const ShortConvCall& call);

// Mamba: Δ = softplus(step + step_bias), h ← exp(Δ·a)·h + Δ·B·c, y = C·h + d·c for each channel.
// h is [state, channels], `first_float` floats into the layer's part of a slot.
struct ScanChannelsCall {
  StateSteps steps;
  const float* c;          // [rows, channels]
  const float* step;       // [rows, channels]
  const float* bc;         // [rows, bc_stride]: B, then C
  const float* a;          // [channels, state]
  const float* step_bias;  // [channels]
  const float* d;          // [channels]
  float* y;                // [rows, y_stride]
  int64_t first_float;
  int channels;
  int state;
  int bc_stride;
  int y_stride;
};
inline constexpr int kMaxChannelState = 32;
int launch_scan_channels(void* stream, const ScanChannelsCall& call);

// Mamba-2: Δ = softplus(step + step_bias) between the limits, h ← exp(Δ·a)·h + Δ·x⊗B, y = h·C + d·x
// for each head; head i reads B and C of group ⌊i·groups/heads⌋. h is [heads, dim, state].
struct ScanHeadsCall {
  StateSteps steps;
  const float* c;          // [rows, heads·dim + 2·groups·state]: x, B, C
  const float* step;       // [rows, step_stride]
  const float* a;          // [heads]
  const float* step_bias;  // [heads]
  const float* d;          // [heads]
  float* y;                // [rows, y_stride]
  int64_t first_float;
  int heads;
  int dim;
  int state;
  int groups;
  int step_stride;
  int y_stride;
  float least_step;
  float most_step;
};
inline constexpr int kMaxHeadState = 256;
int launch_scan_heads(void* stream, const ScanHeadsCall& call);

// Gated delta rule: S ← e^g·S, S ← S + k⊗σ(beta)·(v - Sᵀk), y = Sᵀq for each head; head i reads q
// and k of group ⌊i·groups/heads⌋, whose norms are made already. With x = step + step_bias, of the
// head or of each element of its keys, g = a·softplus(x), or with a strongest decay
// strongest·σ(-a·x). S is [heads, state, dim].
struct ScanDeltaCall {
  StateSteps steps;
  const float* c;          // [rows, 2·groups·state + heads·dim]: q, k, v
  const float* step;       // [rows, step_stride]: heads, decays
  const float* beta;       // [rows, step_stride]
  const float* a;          // [heads]
  const float* step_bias;  // [heads, decays]
  float* y;                // [rows, y_stride]
  int64_t first_float;
  int heads;
  int dim;
  int state;
  int groups;
  int decays;  // 1 or `state`
  int step_stride;
  int y_stride;
  float strongest_decay;  // 0: none
};
inline constexpr int kMaxDeltaState = 128;
int launch_scan_delta(void* stream, const ScanDeltaCall& call);

// xLSTM's matrix memory: with i and f held within ±cap by tanh, log f' = -softplus(-f) and
// m' = max(log f' + m, i), C ← e^(log f' + m - m')·C + e^(i - m')·v⊗k, n likewise with k, and
// y = C·q/√state / (max(|n·q|/√state, e^-m') + eps) for each head. A state is C [heads, dim,
// state], n [heads, state] and m [heads].
struct ScanMlstmCall {
  StateSteps steps;
  const float* qkv;    // [rows, stride]: q and k [heads, state], v [heads, dim]
  const float* gates;  // [rows, stride]: i [heads], f [heads]
  float* y;            // [rows, stride]
  int heads;
  int dim;
  int state;
  int stride;
  float cap;  // 0: none
  float eps;
};
inline constexpr int kMaxMlstmState = 256;
int launch_scan_mlstm(void* stream, const ScanMlstmCall& call);

}  // namespace tenon::cuda
