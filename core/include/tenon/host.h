// What the host offers to plugins. This is the only way back: a plugin links nothing of the core,
// opens no files, starts no threads and reads no clock or random device of its own.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <string_view>

namespace tenon {

enum class LogLevel : uint8_t { debug = 0, info = 1, warning = 2, error = 3 };

// Instruction sets of the host processor, in rising order; each includes those before it.
// `--isa` lowers what the host reports, so a plugin never asks the processor itself.
enum class CpuIsa : uint8_t {
  portable = 0,     // baseline x86-64 (SSE2), or any other architecture
  avx2 = 1,         // AVX2, FMA, F16C
  avx512 = 2,       // AVX-512 F, BW, DQ, VL
  avx512_vnni = 3,  // … and VNNI
  avx512_bf16 = 4,  // … and BF16
};

// Facts about the machine, the same for all plugins of a process.
struct HostFacts {
  CpuIsa cpu_isa = CpuIsa::portable;
  // Where bf16 dot products exist but run slower than fp32 FMA on the same data (true on some
  // processors), kernels that may choose should choose FMA.
  bool slow_bf16_dot = false;
  uint32_t workers = 1;          // slices a kernel call is cut into at most
  uint64_t l2_bytes = 1u << 20;  // cache of one core
  int32_t cuda_devices = 0;
};

// All functions may be called from any thread. `context` is the first argument of each. The struct
// does not grow: a later host offers what is new by `extension`.
struct HostServices {
  void* context = nullptr;
  const HostFacts* facts = nullptr;

  // One line of text, without a line end.
  void (*log)(void* context, LogLevel level, std::string_view text) noexcept = nullptr;
  // Adds to a named counter of this plugin instance; shown in `run --json`.
  void (*count)(void* context, std::string_view counter, uint64_t amount) noexcept = nullptr;
  // Memory in a space, aligned to `alignment` (a power of two, at most 4096). Null when none.
  void* (*allocate)(void* context, Space space, uint64_t bytes,
                    uint64_t alignment) noexcept = nullptr;
  void (*free)(void* context, Space space, void* memory) noexcept = nullptr;
  // Nanoseconds of the pipeline's clock: wall time, or virtual time in a simulation.
  int64_t (*now_ns)(void* context) noexcept = nullptr;
  // Further services by id ("model_runner/1"); null when the host has none of that id.
  const void* (*extension)(void* context, std::string_view id) noexcept = nullptr;
};

}  // namespace tenon
