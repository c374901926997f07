// Scalars and small plain structs that every interface shares.
//
// Naming rule of the whole boundary: a `…View` is borrowed and read-only, valid until the call that
// received it returns; a `…Out` is storage of the caller that the callee fills. Nothing is kept
// across calls and nothing is freed across modules, unless a declaration says otherwise.
//
// Threads. A tag at each method, or in a header's first lines, says who calls it:
//   [control]  the thread that builds and destroys a pipeline. No step runs meanwhile.
//   [step]     the thread that runs the engine's steps. One call at a time.
//   [worker]   the executor's workers, inside a step: several at once, each with a share of the
//              work that the arguments name. No worker starts threads of its own.
//   [any]      any thread, at any time, also several at once.
// A pipeline has one step thread; [control] and [step] calls of one instance never overlap.
#pragma once

#if __cplusplus < 202002L
#error "Tenon's headers need C++20: compile with -std=c++20, or link the CMake target tenon::sdk"
#endif

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

using SeqId = uint32_t;    // one sequence (a request has one per sample or beam)
using TokenId = int32_t;   // index into the vocabulary
using BlockId = int32_t;   // index of a KV block inside its group and space
using LayerId = uint32_t;  // index of a decoder layer
using GroupId = uint32_t;  // index of a KV group
// A device's queue of work (a cudaStream_t on CUDA devices, of the calling thread's current
// device). An error of queued work shows when the step is collected. Null on the host, where the
// work is done when a call returns.
using DeviceQueue = void*;

inline constexpr SeqId kNoSeq = 0xffffffffu;
inline constexpr TokenId kNoToken = -1;
inline constexpr BlockId kNoBlock = -1;
inline constexpr GroupId kNoGroup = 0xffffffffu;

// Element types of tensors in memory. Values are never reordered.
enum class DType : uint8_t { f32 = 0, f16, bf16, i8, i4, i32, i64, u8, f8_e4m3, f8_e5m2 };

// Bits of one element; whole bytes except i4, of which two share a byte (low nibble first).
constexpr uint32_t dtype_bits(DType type) noexcept {
  constexpr uint32_t kBits[] = {32, 16, 16, 8, 4, 32, 64, 8, 8, 8};
  return static_cast<size_t>(type) < 10 ? kBits[static_cast<size_t>(type)] : 0;
}
constexpr std::string_view dtype_name(DType type) noexcept {
  constexpr std::string_view kNames[] = {"f32", "f16", "bf16", "i8",      "i4",
                                         "i32", "i64", "u8",   "f8_e4m3", "f8_e5m2"};
  return static_cast<size_t>(type) < 10 ? kNames[static_cast<size_t>(type)] : "?";
}

// Where bytes live. `index` counts devices of a kind; for host memory it is the NUMA node, for
// remote ones the peer. Kernels see host and device memory only; moves reach the others.
enum class SpaceKind : uint8_t { host = 0, cuda = 1, disk = 2, remote = 3 };
struct Space {
  SpaceKind kind = SpaceKind::host;
  uint8_t index = 0;
  friend constexpr bool operator==(Space, Space) = default;
};

// One worker's share of a kernel call. All workers call with the same arguments but `index`; the
// union of their work is the whole, and no worker uses threads of its own.
struct Slice {
  uint32_t index = 0;
  uint32_t count = 1;
};

// A borrowed row-major tensor. Strides count elements; unused dimensions have extent 1.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Space space;
  uint8_t rank = 0;
  uint64_t shape[4] = {1, 1, 1, 1};
  uint64_t stride[4] = {1, 1, 1, 1};
};

}  // namespace tenon
