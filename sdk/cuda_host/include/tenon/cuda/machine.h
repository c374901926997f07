// The operations of a CUDA machine, once for kernels that nvcc compiles and once for the emulator
// that a plain C++ compiler builds. A kernel includes this header alone and is plain CUDA C++ but
// for one thing: memory is reached through Global<T> and Shared<T>, which are pointers on a device
// and watch every access in the emulator.
//
//   Global<T>, Shared<T>       x[i], x + i; reads, writes, +=
//   SharedArena                takes arrays out of the launch's shared memory, 16-aligned
//   Pack<T, n>                 n elements side by side: load_pack<n>(x + i), store_pack(x + i, p);
//                              the address must be a multiple of the pack's size
//   load_words<n>(x + i)       4n bytes, aligned to that, as numbers of 32 bits
//   load_words_once(x + i)     16 bytes of what is read once: the multiprocessor's cache keeps
//                              nothing of it, and L2, which brings the 128 bytes around, gives
//                              them up before all else
//   threadIdx blockIdx blockDim gridDim, __syncthreads, __syncwarp, __shfl_sync, __shfl_xor_sync,
//   __shfl_down_sync, __shfl_up_sync, __ballot_sync, __any_sync, __all_sync
//                              as CUDA has them. The emulator wants every lane that a mask names
//                              to come to the same operation, and none to have returned
//   atomic_add, atomic_max     on an element
//   store_release(flag, value), wait_acquire(flag, value)
//                              between devices: who waits until a flag is `value` sees what came
//                              before the store, of other threads of the block what a barrier
//                              before it shows. A value that passes unseen is waited for forever
//   copy_async_16(to, from, n) cp.async of 16 bytes to shared memory; the last 16 - n become zero.
//   copy_async_16_by_l1        the same for what many threads of a multiprocessor copy: its first
//                              cache keeps it
//   copy_async_16_once         all 16, of what is read once: L2 gives it up before all else
//   copy_async_commit(), copy_async_wait<n>()
//                              groups; after wait<n> all but the latest n have landed, for the
//                              thread that asked. Others see them after a barrier
//   load_matrix_x4(r, row), load_matrix_x2, …_transposed
//                              ldmatrix: lanes 8i … 8i + 7 point to the rows of matrix i, 8
//                              elements of 2 bytes each, 16-aligned
//   mma_bf16(d, a, b), mma_f16 d [16, 8] += a [16, 16] · b [16, 8], f32 sums
//   mma_s8(d, a, b)            d [16, 8] += a [16, 32] · b [32, 8], i32 sums
//                              (fragment_layout.h says which lane holds what)
//   to_float, to_bfloat16, pack_bfloat16, to_half …
//                              16-bit floats; rounding to nearest, ties to even
//   add_bfloat16_pairs(a, b), multiply_bfloat16_pairs(a, b)
//                              two sums or products, each rounded; denormal numbers are kept
//   and_or(x, mask, bits)      (x & mask) | bits, in one instruction
//   permute_bytes(a, b, selector)
//                              four of the eight bytes of a and b, as __byte_perm
//   float_bits, bits_float     a float's bits, and back
//   let_next_start()           the kernel after this one may have blocks on the device as soon as
//                              all blocks of this one have said so or are done (sm_90)
//   wait_for_earlier()         for all kernels in front, and what they wrote. A kernel that is
//                              launched with `overlaps` says it in all of its threads, before any
//                              of them returns: the kernel after it waits for this one alone, and
//                              through it for those in front. Until then a thread writes nothing
//                              to global memory, and reads what no kernel wrote since the host did
//   exp2_approx(x)             2 to x, by the device's own approximation, whose bits are not the
//                              emulator's; of 0 it is 1, of -inf 0, and results below the least
//                              normal number are 0
//   launch(config, kernel, arguments…)
//                              puts a kernel on a queue; returns 0, or CUDA's error number
//   shared_limit()             the most shared memory that a launch may have, in bytes, for hosts;
//                              99 KB are there everywhere
//
// PTX ISA 8.0, sections 9.7.8 (cp.async) and 9.7.14 (mma, ldmatrix). Everything here runs on sm_80
// and later.
#pragma once

#include <cstdint>

namespace tenon::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

struct BFloat16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

struct Extent {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

// What a launch is made of. `name` is for messages and must outlive the launch.
struct LaunchConfig {
  const char* name = "";
  Extent grid = {};
  Extent block = {};
  uint32_t shared_bytes = 0;  // for SharedArena
  int shared_percent = 0;     // of the memory that is both that and the first cache, for devices
                              // that overlap kernels; 0: as the device chooses
  bool overlaps = false;      // begins before kernels in front are done: wait_for_earlier()
  bool meets = false;         // runs at the same time as kernels of other devices that it waits for
  void* stream = nullptr;     // a cudaStream_t; the emulator has one queue, which is never late
};

}  // namespace tenon::cuda

#ifdef __CUDACC__
#include <tenon/cuda/device_body.h>
#else
#include <tenon/cuda/host_body.h>
#endif
