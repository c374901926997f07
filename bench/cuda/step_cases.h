// What a step of a decoder launches, as cases that can be costed, emulated and timed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/cuda/case_arrays.h"
#include "bench/cuda/kernel_cost.h"

namespace tenon::cuda::bench {

struct DecoderShape {
  int hidden, heads, kv_heads, head_dim, mlp, vocabulary, layers;
};
// The bundled model `tale`, and what most call 8B (Llama 3.1 8B).
inline constexpr DecoderShape kTale = {256, 4, 2, 64, 768, 4096, 6};
inline constexpr DecoderShape k8B = {4096, 32, 8, 128, 14336, 128256, 32};

// One step of some sequences that are alike.
struct Workload {
  const char* name;
  DecoderShape model;
  uint32_t rows;           // of all sequences
  uint32_t entries;        // of each, with its rows
  int weight_bits;         // 16: bf16; 8 or 4: codes in groups of 128, with zeros for 4
  bool floats = false;     // E4M3, of 8 bits
  uint32_t sequences = 1;  // each has as many of the rows
  ProductTiles tiles = ProductTiles::by_shape;
};

struct KernelCase {
  // Puts it on the stream, once for each call; returns what launch_… does.
  using Launch = std::function<int(void* stream)>;
  // In place of launch_multiply.
  using Multiply = std::function<int(void* stream, const MultiplyCall& call)>;

  std::string name;    // one word
  uint32_t calls = 0;  // in a step
  Cost cost;           // of one
  // For each case arrays of its own.
  std::function<Launch(CaseArrays& arrays)> prepare;
  // Of a product in bf16, for somebody else's; else empty.
  std::function<Launch(CaseArrays& arrays, const Multiply& multiply)> prepare_for = {};
};

// The head's product is bf16, whatever the weights are.
std::vector<KernelCase> step_cases(const Workload& workload);
// Which of them a step launches, in its order, each as often as it is called.
std::vector<size_t> step_order(const Workload& workload, const std::vector<KernelCase>& cases);

// What is emulated, and small enough for that; what is extrapolated to.
inline constexpr Workload kEmulated[] = {
    {"tale-decode", kTale, 1, 100, 16},
    {"tale-prefill", kTale, 20, 20, 16},
    {"tale-decode-w8", kTale, 1, 100, 8},
    {"tale-decode-f8", kTale, 1, 100, 8, true},
    {"tale-decode-w4", kTale, 1, 100, 4},
    {"tale-batch", kTale, 20, 70, 16, false, 20},
    {"tale-batch-w4", kTale, 20, 70, 4, false, 20},
    {"tale-prefill-w4", kTale, 80, 80, 4},
};
inline constexpr Workload kFull[] = {
    {"8b-decode", k8B, 1, 1024, 16},
    {"8b-decode-w8", k8B, 1, 1024, 8},
    {"8b-decode-f8", k8B, 1, 1024, 8, true},
    {"8b-decode-w4", k8B, 1, 1024, 4},
    {"8b-long", k8B, 1, 32768, 16},
    {"8b-batch8", k8B, 8, 1024, 16, false, 8},
    {"8b-batch8-w4", k8B, 8, 1024, 4, false, 8},
    {"8b-batch32", k8B, 32, 1024, 16, false, 32},
    {"8b-batch32-w8", k8B, 32, 1024, 8, false, 32},
    {"8b-batch32-w4", k8B, 32, 1024, 4, false, 32},
    {"8b-prefill", k8B, 4096, 4096, 16},
    {"8b-prefill-w8", k8B, 4096, 4096, 8},
    {"8b-prefill-w4", k8B, 4096, 4096, 4},
};

}  // namespace tenon::cuda::bench
