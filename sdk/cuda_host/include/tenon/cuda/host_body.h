// The host body of machine.h: every access is looked at, and operations of a warp or a block are
// places where its threads meet. The implementation is in emulator.h.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#define __global__ inline  // kernels stand in headers
#define __launch_bounds__(...)
#define TENON_DEVICE inline
#define TENON_UNROLL
#define TENON_UNROLL_BY(count)

namespace tenon::cuda {

// CUDA's own names, of the kernel's thread that runs on this thread of the host.
// NOLINTBEGIN(readability-identifier-naming)
constinit inline thread_local Extent threadIdx;
constinit inline thread_local Extent blockIdx;
constinit inline thread_local Extent blockDim;
constinit inline thread_local Extent gridDim;
// NOLINTEND(readability-identifier-naming)

// Where an operation stands in a source. As a default argument `At::current()` is its caller's
// line; std::source_location would say the same, but not every compiler that reads this has it.
struct Line {
  const char* file = "";
  uint32_t number = 0;

  static constexpr Line current(const char* in_file = __builtin_FILE(),
                                uint32_t in_line = __builtin_LINE()) {
    return {in_file, in_line};
  }
};
using At = Line;

// An array of device or shared memory, and what is known of its bytes.
struct Region;

namespace host {

Region* find_region(const void* at, int64_t& offset);
Region* take_shared(uint32_t& used, uint64_t bytes, Line line);

void read(Region* region, int64_t offset, void* to, uint32_t bytes, Line line);
void write(Region* region, int64_t offset, const void* from, uint32_t bytes, Line line);
// Reads and writes as one; `change` turns the old value into the new one.
void update(Region* region, int64_t offset, void* value, uint32_t bytes,
            const std::function<void(void* value)>& change, Line line);

void copy_async(Region* to, int64_t to_offset, Region* from, int64_t from_offset, uint32_t valid,
                Line line);
void commit_async();
void wait_async(uint32_t groups_left, Line line);

void store_release(Region* region, int64_t offset, uint32_t value, Line line);
void wait_acquire(Region* region, int64_t offset, uint32_t value, Line line);

void wait_for_earlier(Line line);
void block_barrier(Line line);
void warp_barrier(uint32_t mask, Line line);
// Lanes exchange `bytes` of values: `to` gets the value of `source`, which is a lane; own where
// `outside`.
void shuffle(uint32_t mask, const void* value, uint32_t source, void* to, uint32_t bytes,
             Line line);
uint32_t ballot(uint32_t mask, bool predicate, Line line);
void load_matrices(uint32_t* registers, uint32_t count, bool transposed, Region* region,
                   int64_t offset, Line line);
enum class MmaKind : uint8_t { bf16, f16, s8 };
void mma(MmaKind kind, void* d, const uint32_t* a, const uint32_t* b, Line line);

int run(const LaunchConfig& config, const void* kernel, std::function<void()> thread);

}  // namespace host

// A number that knows the line it stands in.
struct Index {
  int64_t value;
  Line line;
  template <std::integral I>
  Index(I number, At at = At::current())  // NOLINT: a subscript
      : value(static_cast<int64_t>(number)), line(at) {}
};

// What x[i] is: reading and writing it are watched.
template <typename T>
class Element {
 public:
  using Value = std::remove_const_t<T>;
  Element(Region* region, int64_t offset, Line line)
      : region_(region), offset_(offset), line_(line) {}
  operator Value() const {  // NOLINT: stands for the value
    Value value;
    host::read(region_, offset_, &value, sizeof(Value), line_);
    return value;
  }
  const Element& operator=(const Value& value) const {
    static_assert(!std::is_const_v<T>, "the array is constant");
    host::write(region_, offset_, &value, sizeof(Value), line_);
    return *this;
  }
  const Element& operator=(const Element& other) const { return *this = Value(other); }
  const Element& operator+=(const Value& value) const { return *this = Value(*this) + value; }

 private:
  Region* region_;
  int64_t offset_;
  Line line_;
};

template <typename T>
struct Watched {
  Region* region = nullptr;
  int64_t offset = 0;  // bytes

  Element<T> operator[](Index i) const {
    return {region, offset + i.value * static_cast<int64_t>(sizeof(T)), i.line};
  }
  explicit operator bool() const { return region != nullptr; }
};

template <typename T>
struct Global : Watched<T> {
  Global() = default;
  explicit Global(T* at) {
    if (at != nullptr) this->region = host::find_region(at, this->offset);
  }
  template <typename U>
  requires(std::is_same_v<const U, T>)
      Global(const Global<U>& other) {  // NOLINT: as U* becomes const U*
    this->region = other.region;
    this->offset = other.offset;
  }
  Global operator+(int64_t i) const {
    Global moved = *this;
    moved.offset += i * static_cast<int64_t>(sizeof(T));
    return moved;
  }
};

template <typename T>
struct Shared : Watched<T> {
  Shared(Region* array, int64_t from) : Watched<T>{array, from} {}
  template <typename U>
  requires(std::is_same_v<const U, T>)
      Shared(const Shared<U>& other)  // NOLINT: as U* becomes const U*
      : Watched<T>{other.region, other.offset} {}
  Shared operator+(int64_t i) const {
    return {this->region, this->offset + i * static_cast<int64_t>(sizeof(T))};
  }
};

class SharedArena {
 public:
  template <typename T>
  Shared<T> take(uint32_t count, At at = At::current()) {
    return {host::take_shared(used_, uint64_t{count} * sizeof(T), at), 0};
  }

 private:
  uint32_t used_ = 0;
};

template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T v[n];
  T& operator[](int i) { return v[i]; }
  const T& operator[](int i) const { return v[i]; }
};

template <int n, typename T>
Pack<std::remove_const_t<T>, n> load_pack(const Watched<T>& from, At at = At::current()) {
  Pack<std::remove_const_t<T>, n> pack;
  host::read(from.region, from.offset, &pack, sizeof(pack), at);
  return pack;
}
template <int n, typename T>
Pack<uint32_t, n> load_words(const Watched<T>& from, At at = At::current()) {
  Pack<uint32_t, n> words;
  host::read(from.region, from.offset, &words, sizeof(words), at);
  return words;
}
template <typename T>
Pack<uint32_t, 4> load_words_once(const Watched<T>& from, At at = At::current()) {
  return load_words<4>(from, at);
}
template <typename T, int n>
void store_pack(const Watched<T>& to, const Pack<T, n>& pack, At at = At::current()) {
  host::write(to.region, to.offset, &pack, sizeof(pack), at);
}

template <typename T>
T atomic_add(const Watched<T>& to, std::type_identity_t<T> value, At at = At::current()) {
  T old;
  host::update(
      to.region, to.offset, &old, sizeof(T),
      [&](void* now) {
        T sum;
        std::memcpy(&sum, now, sizeof(T));
        sum += value;
        std::memcpy(now, &sum, sizeof(T));
      },
      at);
  return old;
}
template <typename T>
T atomic_max(const Watched<T>& to, std::type_identity_t<T> value, At at = At::current()) {
  T old;
  host::update(
      to.region, to.offset, &old, sizeof(T),
      [&](void* now) {
        T most;
        std::memcpy(&most, now, sizeof(T));
        most = most < value ? value : most;
        std::memcpy(now, &most, sizeof(T));
      },
      at);
  return old;
}

inline void store_release(const Global<uint32_t>& to, uint32_t value, At at = At::current()) {
  host::store_release(to.region, to.offset, value, at);
}
inline void wait_acquire(const Global<const uint32_t>& flag, uint32_t value,
                         At at = At::current()) {
  host::wait_acquire(flag.region, flag.offset, value, at);
}

template <typename T, typename U>
void copy_async_16(const Shared<T>& to, const Global<U>& from, uint32_t valid_bytes = 16,
                   At at = At::current()) {
  host::copy_async(to.region, to.offset, from.region, from.offset, valid_bytes, at);
}
template <typename T, typename U>
void copy_async_16_once(const Shared<T>& to, const Global<U>& from, At at = At::current()) {
  host::copy_async(to.region, to.offset, from.region, from.offset, 16, at);
}
template <typename T, typename U>
void copy_async_16_by_l1(const Shared<T>& to, const Global<U>& from, uint32_t valid_bytes = 16,
                         At at = At::current()) {
  host::copy_async(to.region, to.offset, from.region, from.offset, valid_bytes, at);
}
inline void copy_async_commit() {
  host::commit_async();
}
template <int n>
void copy_async_wait(At at = At::current()) {
  host::wait_async(n, at);
}

// NOLINTBEGIN(readability-identifier-naming)
inline void __syncthreads(At at = At::current()) {
  host::block_barrier(at);
}
inline void __syncwarp(uint32_t mask = kAllLanes, At at = At::current()) {
  host::warp_barrier(mask, at);
}
inline uint32_t lane_index() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % kWarp;
}
template <typename T>
T __shfl_sync(uint32_t mask, T value, int lane, int width = 32, At at = At::current()) {
  const uint32_t own = lane_index();
  const auto w = static_cast<uint32_t>(width);
  const uint32_t source = own / w * w + static_cast<uint32_t>(lane) % w;
  T result;
  host::shuffle(mask, &value, source, &result, sizeof(T), at);
  return result;
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int with, int width = 32, At at = At::current()) {
  const uint32_t own = lane_index();
  const uint32_t source = own ^ static_cast<uint32_t>(with);
  const auto w = static_cast<uint32_t>(width);
  T result;
  host::shuffle(mask, &value, source / w <= own / w ? source : own, &result, sizeof(T), at);
  return result;
}
template <typename T>
T __shfl_down_sync(uint32_t mask, T value, uint32_t by, int width = 32, At at = At::current()) {
  const uint32_t own = lane_index();
  const auto w = static_cast<uint32_t>(width);
  T result;
  host::shuffle(mask, &value, own % w + by < w ? own + by : own, &result, sizeof(T), at);
  return result;
}
template <typename T>
T __shfl_up_sync(uint32_t mask, T value, uint32_t by, int width = 32, At at = At::current()) {
  const uint32_t own = lane_index();
  const auto w = static_cast<uint32_t>(width);
  T result;
  host::shuffle(mask, &value, own % w >= by ? own - by : own, &result, sizeof(T), at);
  return result;
}
inline uint32_t __ballot_sync(uint32_t mask, bool predicate, At at = At::current()) {
  return host::ballot(mask, predicate, at);
}
inline bool __any_sync(uint32_t mask, bool predicate, At at = At::current()) {
  return host::ballot(mask, predicate, at) != 0;
}
inline bool __all_sync(uint32_t mask, bool predicate, At at = At::current()) {
  return host::ballot(mask, predicate, at) == mask;
}
// NOLINTEND(readability-identifier-naming)

template <typename T>
void load_matrix_x4(uint32_t (&r)[4], const Shared<T>& row, At at = At::current()) {
  host::load_matrices(r, 4, false, row.region, row.offset, at);
}
template <typename T>
void load_matrix_x2(uint32_t (&r)[2], const Shared<T>& row, At at = At::current()) {
  host::load_matrices(r, 2, false, row.region, row.offset, at);
}
template <typename T>
void load_matrix_x4_transposed(uint32_t (&r)[4], const Shared<T>& row, At at = At::current()) {
  host::load_matrices(r, 4, true, row.region, row.offset, at);
}
template <typename T>
void load_matrix_x2_transposed(uint32_t (&r)[2], const Shared<T>& row, At at = At::current()) {
  host::load_matrices(r, 2, true, row.region, row.offset, at);
}

inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                     At at = At::current()) {
  host::mma(host::MmaKind::bf16, d, a, b, at);
}
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                    At at = At::current()) {
  host::mma(host::MmaKind::f16, d, a, b, at);
}
inline void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                   At at = At::current()) {
  host::mma(host::MmaKind::s8, d, a, b, at);
}

inline void let_next_start() {}
inline void wait_for_earlier(At at = At::current()) {
  host::wait_for_earlier(at);
}

inline float exp2_approx(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
}
inline uint32_t float_bits(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline float bits_float(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
inline float to_float(Half x) {
  const uint32_t exponent = x.bits >> 10 & 31;
  const uint32_t fraction = x.bits & 1023;
  const float size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                     : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                     : std::ldexp(static_cast<float>(fraction + 1024),
                                                  static_cast<int>(exponent) - 25);
  return (x.bits & 0x8000) != 0 ? -size : size;
}
inline float to_float(float x) {
  return x;
}
inline BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline Half to_half(float x) {
  if (std::isnan(x)) return {0x7fff};
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const float size = std::fabs(x);
  if (size >= 65520.0f) return {static_cast<uint16_t>(sign | 0x7c00)};
  const int exponent = size < 0x1p-14f ? -14 : std::ilogb(size);
  const auto fraction = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // A fraction of 2048 carries into the exponent, one below 1024 is of a subnormal.
  const uint32_t bits = fraction + (static_cast<uint32_t>(exponent + 14) << 10);
  return {static_cast<uint16_t>(sign | bits)};
}
inline uint32_t pack_bfloat16(float low, float high) {
  return to_bfloat16(low).bits | static_cast<uint32_t>(to_bfloat16(high).bits) << 16;
}
inline uint32_t add_bfloat16_pairs(uint32_t a, uint32_t b) {
  const auto low = [](uint32_t pair) { return to_float(BFloat16{static_cast<uint16_t>(pair)}); };
  return pack_bfloat16(low(a) + low(b), low(a >> 16) + low(b >> 16));
}
inline uint32_t multiply_bfloat16_pairs(uint32_t a, uint32_t b) {
  const auto low = [](uint32_t pair) { return to_float(BFloat16{static_cast<uint16_t>(pair)}); };
  return pack_bfloat16(low(a) * low(b), low(a >> 16) * low(b >> 16));
}
inline uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits) {
  return (x & mask) | bits;
}
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = a | static_cast<uint64_t>(b) << 32;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    result |= static_cast<uint32_t>(both >> (selector >> (4 * i) & 7) * 8 & 255) << (8 * i);
  }
  return result;
}

// That of sm_90.
constexpr int shared_limit() {
  return 227 * 1024;
}

// Kernels are called through this from the plain function pointer that CUDA would launch.
template <typename... P, typename... A>
int launch(const LaunchConfig& config, void (*kernel)(P...), A... arguments) {
  return host::run(config, reinterpret_cast<const void*>(kernel), [=] { kernel(P(arguments)...); });
}

}  // namespace tenon::cuda
