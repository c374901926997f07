// What one instruction set offers to the cpu state plugin, as plain data: the sources behind it are
// compiled with that set's flags and share no code with the rest. Each call is one row of one
// sequence, so that the bits of a row do not depend on where steps were cut.
#pragma once

#include <cstdint>

namespace tenon::state_cpu {

// Channels [first, last) of out = silu(bias + Σⱼ weights[j] · taps[j]).
struct Convolution {
  const float* const* taps = nullptr;  // [width] rows of channels, the oldest first
  const float* weights = nullptr;      // [width, channels]
  const float* bias = nullptr;         // [channels]
  float* out = nullptr;                // [channels]
  uint32_t width = 0;
  uint32_t channels = 0;
};

// A head of Mamba-2: to = decay · from + delta · x⊗b, y = to·c + d · x. `to` may be `from`; without
// a `from` that is zero.
struct HeadRow {
  float decay = 0, delta = 0, d = 0;
  const float* x = nullptr;     // [dim]
  const float* b = nullptr;     // [state]
  const float* c = nullptr;     // [state]
  const float* from = nullptr;  // [dim, state]
  float* to = nullptr;          // [dim, state]
  float* y = nullptr;           // [dim]
  uint32_t dim = 0;
  uint32_t state = 0;
  bool at_rest = false;  // no row of this step reads `to`
};

// Channels of Mamba: to = exp(delta · a) · from + delta · x · b, y = Σ to·c + d · x.
struct ChannelRow {
  const float* a = nullptr;      // [state, stride]
  const float* delta = nullptr;  // [count], as the next four
  const float* x = nullptr;
  const float* d = nullptr;
  float* y = nullptr;
  const float* b = nullptr;     // [state]
  const float* c = nullptr;     // [state]
  const float* from = nullptr;  // [state, stride]
  float* to = nullptr;          // [state, to_stride]
  uint64_t stride = 0;
  uint64_t to_stride = 0;
  uint64_t from_stride = 0;
  uint32_t count = 0;
  uint32_t state = 0;
};

// Columns of a head of the gated delta rule: to = decay · from + k⊗u, where u = beta · (v - (decay
// · from)ᵀk), and y = toᵀq. `to` may be `from`; without a `from` that is zero.
struct DeltaRow {
  const float* q = nullptr;       // [keys]
  const float* k = nullptr;       // [keys]
  const float* v = nullptr;       // [count]
  const float* decays = nullptr;  // that of element i of keys: decays[i · decay_step]
  uint32_t decay_step = 0;        // 0 or 1
  float beta = 0;
  const float* from = nullptr;  // [keys, from_stride]
  float* to = nullptr;          // [keys, to_stride]
  float* y = nullptr;           // [count]
  uint64_t from_stride = 0;
  uint64_t to_stride = 0;
  uint32_t keys = 0;
  uint32_t count = 0;
  bool at_rest = false;  // no row of this step reads `to`
};

struct KernelSet {
  const char* name = nullptr;
  void (*convolve)(const Convolution& row, uint32_t first, uint32_t last) = nullptr;
  void (*scan_head)(const HeadRow& row) = nullptr;
  void (*scan_channels)(const ChannelRow& row) = nullptr;
  // x [count] · length / √(Σx² + 10⁻⁶)
  void (*set_length)(float* x, uint32_t count, float length) = nullptr;
  void (*scan_delta)(const DeltaRow& row) = nullptr;
  uint32_t delta_columns = 0;  // that scan_delta works on side by side
  // States at rest are written past the caches. To be called before others may read them.
  void (*end_streams)() = nullptr;
};

extern const KernelSet kPortableKernels;
#if defined(__x86_64__)
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;
#elif defined(__aarch64__)
extern const KernelSet kNeonKernels;
#endif

}  // namespace tenon::state_cpu
