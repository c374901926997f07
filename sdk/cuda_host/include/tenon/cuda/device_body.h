// The device body of machine.h: pointers, and one instruction an operation. For nvcc alone.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <tenon/cuda/last_kernel.h>

#define TENON_DEVICE __device__ __forceinline__
#define TENON_UNROLL _Pragma("unroll")
#define TENON_PRAGMA(text) _Pragma(#text)
#define TENON_UNROLL_BY(count) TENON_PRAGMA(unroll count)

namespace tenon::cuda {

template <typename T>
struct Global {
  T* at;
  __host__ __device__ Global() : at(nullptr) {}
  __host__ __device__ explicit Global(T* pointer) : at(pointer) {}
  template <typename U>
  __host__ __device__ Global(Global<U> other) : at(other.at) {}
  TENON_DEVICE T& operator[](int64_t i) const { return at[i]; }
  TENON_DEVICE Global operator+(int64_t i) const { return Global(at + i); }
  __host__ __device__ explicit operator bool() const { return at != nullptr; }
};

template <typename T>
struct Shared {
  T* at;
  TENON_DEVICE explicit Shared(T* pointer) : at(pointer) {}
  template <typename U>
  TENON_DEVICE Shared(Shared<U> other) : at(other.at) {}
  TENON_DEVICE T& operator[](int i) const { return at[i]; }
  TENON_DEVICE Shared operator+(int i) const { return Shared(at + i); }
};

extern __shared__ __align__(128) unsigned char launch_shared[];

class SharedArena {
 public:
  template <typename T>
  TENON_DEVICE Shared<T> take(uint32_t count) {
    T* at = reinterpret_cast<T*>(launch_shared + used_);
    used_ += (count * sizeof(T) + 15) / 16 * 16;
    return Shared<T>(at);
  }

 private:
  uint32_t used_ = 0;
};

template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T v[n];
  TENON_DEVICE T& operator[](int i) { return v[i]; }
  TENON_DEVICE const T& operator[](int i) const { return v[i]; }
};

template <int n, template <typename> class View, typename T>
TENON_DEVICE Pack<T, n> load_pack(View<const T> from) {
  return *reinterpret_cast<const Pack<T, n>*>(from.at);
}
template <int n, template <typename> class View, typename T>
TENON_DEVICE Pack<T, n> load_pack(View<T> from) {
  return *reinterpret_cast<const Pack<T, n>*>(from.at);
}
template <int n, template <typename> class View, typename T>
TENON_DEVICE Pack<uint32_t, n> load_words(View<T> from) {
  return *reinterpret_cast<const Pack<uint32_t, n>*>(from.at);
}
// How L2 treats what is read once: it goes first when there is no room.
TENON_DEVICE uint64_t once_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
template <typename T>
TENON_DEVICE Pack<uint32_t, 4> load_words_once(Global<const T> from) {
  Pack<uint32_t, 4> words;
  asm volatile(
      "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
      : "l"(from.at), "l"(once_policy()));
  return words;
}
template <int n, template <typename> class View, typename T>
TENON_DEVICE void store_pack(View<T> to, const Pack<T, n>& pack) {
  *reinterpret_cast<Pack<T, n>*>(to.at) = pack;
}

template <template <typename> class View, typename T>
TENON_DEVICE T atomic_add(View<T> to, T value) {
  return atomicAdd(to.at, value);
}
template <template <typename> class View, typename T>
TENON_DEVICE T atomic_max(View<T> to, T value) {
  return atomicMax(to.at, value);
}

TENON_DEVICE void store_release(Global<uint32_t> to, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to.at), "r"(value) : "memory");
}
TENON_DEVICE void wait_acquire(Global<const uint32_t> flag, uint32_t value) {
  uint32_t now;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(now) : "l"(flag.at) : "memory");
  } while (now != value);
}

TENON_DEVICE uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

template <typename T, typename U>
TENON_DEVICE void copy_async_16(Shared<T> to, Global<U> from, uint32_t valid_bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to.at)),
               "l"(from.at), "r"(valid_bytes)
               : "memory");
}
template <typename T, typename U>
TENON_DEVICE void copy_async_16_once(Shared<T> to, Global<U> from) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared_address(to.at)),
      "l"(from.at), "l"(once_policy())
      : "memory");
}
template <typename T, typename U>
TENON_DEVICE void copy_async_16_by_l1(Shared<T> to, Global<U> from, uint32_t valid_bytes = 16) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to.at)),
               "l"(from.at), "r"(valid_bytes)
               : "memory");
}
TENON_DEVICE void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int n>
TENON_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

template <typename T>
TENON_DEVICE void load_matrix_x4(uint32_t (&r)[4], Shared<T> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row.at))
               : "memory");
}
template <typename T>
TENON_DEVICE void load_matrix_x2(uint32_t (&r)[2], Shared<T> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row.at))
               : "memory");
}
template <typename T>
TENON_DEVICE void load_matrix_x4_transposed(uint32_t (&r)[4], Shared<T> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row.at))
               : "memory");
}
template <typename T>
TENON_DEVICE void load_matrix_x2_transposed(uint32_t (&r)[2], Shared<T> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row.at))
               : "memory");
}

TENON_DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
TENON_DEVICE void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
TENON_DEVICE void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

TENON_DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
TENON_DEVICE void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

TENON_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TENON_DEVICE uint32_t float_bits(float x) {
  return __float_as_uint(x);
}
TENON_DEVICE float bits_float(uint32_t bits) {
  return __uint_as_float(bits);
}
TENON_DEVICE float to_float(BFloat16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
TENON_DEVICE float to_float(Half x) {
  return __half2float(__ushort_as_half(x.bits));
}
TENON_DEVICE float to_float(float x) {
  return x;
}
// `low` in the lower half.
TENON_DEVICE uint32_t pack_bfloat16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
TENON_DEVICE BFloat16 to_bfloat16(float x) {
  return {static_cast<uint16_t>(pack_bfloat16(x, 0.0f))};
}
// As a fused product with 1, which sm_80 has too.
TENON_DEVICE uint32_t add_bfloat16_pairs(uint32_t a, uint32_t b) {
  uint32_t sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80u), "r"(b));
  return sum;
}
// With -0 added, which changes no product.
TENON_DEVICE uint32_t multiply_bfloat16_pairs(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
  return product;
}
TENON_DEVICE uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(x), "r"(mask), "r"(bits));
  return result;
}
TENON_DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  return __byte_perm(a, b, selector);
}
TENON_DEVICE Half to_half(float x) {
  return {__half_as_ushort(__float2half_rn(x))};
}

// Whether the device that is current overlaps kernels: sm_90 and later. A thread asks anew once it
// has turned to another device.
inline bool device_overlaps_kernels() {
  thread_local int known_device = -1;
  thread_local bool overlaps = false;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  if (device != known_device) {
    int major = 0;
    overlaps =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        major >= 9;
    known_device = device;
  }
  return overlaps;
}

// Of the device that is current.
inline int shared_limit() {
  int device = 0;
  int bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes;
}

template <typename... P, typename... A>
int launch(const LaunchConfig& config, void (*kernel)(P...), A... arguments) {
  last_kernel() = config.name;
  if (config.shared_bytes > 48 * 1024) {
    const cudaError_t set = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(config.shared_bytes));
    if (set != cudaSuccess) return static_cast<int>(set);
  }
  if (config.shared_percent > 0 && device_overlaps_kernels()) {
    const cudaError_t set =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributePreferredSharedMemoryCarveout, config.shared_percent);
    if (set != cudaSuccess) return static_cast<int>(set);
  }
  cudaLaunchAttribute overlaps;
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t own = {};
  own.gridDim = dim3(config.grid.x, config.grid.y, config.grid.z);
  own.blockDim = dim3(config.block.x, config.block.y, config.block.z);
  own.dynamicSmemBytes = config.shared_bytes;
  own.stream = static_cast<cudaStream_t>(config.stream);
  own.attrs = &overlaps;
  own.numAttrs = config.overlaps && device_overlaps_kernels() ? 1 : 0;
  const cudaError_t launched = cudaLaunchKernelEx(&own, kernel, P(arguments)...);
  (void)cudaGetLastError();
  return static_cast<int>(launched);
}

}  // namespace tenon::cuda
