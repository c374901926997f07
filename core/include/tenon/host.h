// The host's services for plugins. They are the only way back: a plugin links nothing of the core,
// opens no files, starts no threads and reads no clock or random device of its own.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tenon {

enum class LogLevel : uint8_t { debug = 0, info = 1, warning = 2, error = 3 };

// What a processor can do beyond the baseline of its architecture. Values are never reused.
enum class CpuFeature : uint8_t {
  avx2 = 0,    // with FMA and F16C
  avx512 = 1,  // F, BW, DQ and VL
  avx512_vnni = 2,
  avx512_bf16 = 3,
  avx512_fp16 = 4,
  avx_vnni = 5,  // 256 bits wide, without AVX-512
  amx_tile = 8,
  amx_int8 = 9,
  amx_bf16 = 10,
  neon = 16,  // 128 bits, fused multiply-add: every AArch64
  dotprod = 17,
  i8mm = 18,
  bf16 = 19,
  sve = 20,
  sve2 = 21,
};

struct CpuFeatures {
  uint64_t bits = 0;

  constexpr CpuFeatures() noexcept = default;
  constexpr CpuFeatures(std::initializer_list<CpuFeature> features) noexcept {
    for (CpuFeature feature : features) bits |= uint64_t{1} << static_cast<int>(feature);
  }
  constexpr bool has(CpuFeature feature) const noexcept {
    return (bits >> static_cast<int>(feature) & 1) != 0;
  }
  constexpr bool has_all(CpuFeatures others) const noexcept { return (others.bits & ~bits) == 0; }
  friend constexpr bool operator==(CpuFeatures, CpuFeatures) = default;
};

// Sets that have a name, in `--isa` and as sources of plugins that are compiled several times.
inline constexpr CpuFeatures kCpuPortable = {};
inline constexpr CpuFeatures kCpuAvx2 = {CpuFeature::avx2};
inline constexpr CpuFeatures kCpuAvx512 = {CpuFeature::avx2, CpuFeature::avx512};
inline constexpr CpuFeatures kCpuAvx512Vnni = {CpuFeature::avx2, CpuFeature::avx512,
                                               CpuFeature::avx512_vnni};
inline constexpr CpuFeatures kCpuAvx512Bf16 = {CpuFeature::avx2, CpuFeature::avx512,
                                               CpuFeature::avx512_vnni, CpuFeature::avx512_bf16};

// Facts about the machine, the same for all plugins of a process.
struct HostFacts {
  CpuFeatures cpu;  // a plugin never asks the processor itself, since `--isa` may lower these
  // If bf16 dot products exist but run slower than fp32 FMA on the same data (true on some
  // processors), kernels that may choose should choose FMA.
  bool slow_bf16_dot = false;
  uint32_t workers = 1;          // slices a kernel call is cut into at most
  uint64_t l2_bytes = 1u << 20;  // cache of one core
  int32_t cuda_devices = 0;
};

// All functions may be called from any thread. `context` is the first argument of each. The struct
// does not grow: a later host offers new services by `extension`.
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
  // Further services by id ("model_runner/2"); null when the host has none of that id.
  const void* (*extension)(void* context, std::string_view id) noexcept = nullptr;
};

}  // namespace tenon
