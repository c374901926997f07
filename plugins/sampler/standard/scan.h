// Loops over blocks of logits, as one instruction set offers them: plain data, since the sources
// behind it are compiled with that set's flags.
//
// Every set computes the same bits: no fused multiply-add, sums over sixteen lanes in one fixed
// tree within a block, and blocks in order.
#pragma once

#include <tenon/host.h>

#include <cstdint>

namespace tenon::standard {

inline constexpr uint32_t kBlock = 64;  // logits a block; one word of an allowed-token mask

// Consecutive blocks of a row, and the logits in them that count: low <= x <= high.
struct Segment {
  const float* values = nullptr;     // [blocks · kBlock]
  const float* block_max = nullptr;  // [blocks]; blocks whose maximum is below `low` are skipped
  uint32_t blocks = 0;
  float low = 0.0f;
  float high = 0.0f;
  // The weight of x is exp((x - peak)·scale); peak is the highest that counts.
  float peak = 0.0f;
  float scale = 1.0f;
};

struct Moments {
  double count = 0.0;
  double sum = 0.0;      // of peak - x
  double squares = 0.0;  // of peak - x
};

struct ScanKernels {
  const char* name;
  // Copies blocks and notes their maxima. NaN becomes -inf, +inf the largest finite number,
  // subnormal numbers 0. In place is fine.
  void (*clean)(const float* from, float* values, uint32_t blocks, float* block_max);
  // The highest of `count` logits; NaN never wins.
  float (*highest)(const float* logits, uint32_t count);
  // Each block's sum of weights; 0 for those skipped.
  void (*weigh)(const Segment& segment, double* block_weight);
  // One block's weights. [kBlock]
  void (*weigh_block)(const Segment& segment, float* weights);
  // Adds Σ weight · (peak - x)·scale.
  void (*spread)(const Segment& segment, double* total);
  void (*moments)(const Segment& segment, Moments* total);
};

// The kernels for a processor.
const ScanKernels& scan_kernels(CpuFeatures isa) noexcept;

}  // namespace tenon::standard
