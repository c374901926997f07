// The micro-kernel: R rows of x times one panel, a block of k at a time.
//
// An output element is one lane of one register. A group's sum is exact in 32 bits; the groups are
// added in f32 in rising k with the same two instructions, whatever R is, and a sum that pauses in
// memory is f32 there as well: so its bits do not depend on what is computed beside it.
#pragma once

#include <type_traits>
#include <utility>

#include "plugins/linear/int8/dot.h"

namespace tenon::int8 {
namespace {

inline constexpr uint32_t kPanelVectors = 2;  // two: four values of x are loaded once for two dots
inline constexpr uint32_t kPanelColumns = kPanelVectors * simd::kLanes;
inline constexpr uint32_t kVectorBytes = simd::kLanes * 4;

#if defined(TENON_NEON)
// R = 8: 16 sums of bytes, 8 vectors of x and 2 of weights make 26 of 32 registers; sums of f32 are
// needed once in 32 k. Without dot products, sums and products take four times R.
inline constexpr uint32_t kTileRows = DotQ8::kTileRows;
inline constexpr uint32_t kKeptRows = kTileRows / 2;
inline constexpr uint32_t kMostPackedRows = kTileRows;
#else
// R = 7: 14 sums of bytes, 14 of f32, 2 vectors of weights and 1 of x make 31 of 32 registers. Of
// 16, 8 are sums of bytes and those of f32 stay in memory.
inline constexpr uint32_t kTileRows = simd::kRegisters == 32 ? 7 : 4;
inline constexpr uint32_t kKeptRows = simd::kRegisters == 32 ? 7 : 2;
// Eight rows are faster in one tile, with half of the sums of f32 in memory, than in two that
// unpack weights twice; widened weights gain nothing by it.
inline constexpr uint32_t kMostPackedRows = simd::kRegisters == 32 ? 8 : kTileRows;
#endif
template <class L>
inline constexpr uint32_t kMostRows = L::kPacked ? kMostPackedRows : kTileRows;

// How a group of a panel is read. `part(word, h)` are the bytes of step kSteps·j + h.
struct PackedQ8 {
  using Product = DotQ8;
  static constexpr bool kPacked = true;
  static constexpr Format kFormat = Format::q8_0;
  static constexpr uint32_t kSteps = 1;  // of four k in a loaded word
  static constexpr uint64_t kScaleBytes = kPanelColumns * 2;
  [[gnu::always_inline]] static F32 scale(const std::byte* group, uint32_t v) {
    return simd::load_f16(group + v * simd::kLanes * 2);
  }
  [[gnu::always_inline]] static Bytes part(Bytes word, uint32_t) { return word; }
};
struct PackedQ4 : PackedQ8 {
  using Product = DotQ4;
  static constexpr Format kFormat = Format::q4_0;
  static constexpr uint32_t kSteps = 2;
  [[gnu::always_inline]] static Bytes part(Bytes word, uint32_t h) {
    return h == 0 ? low_nibbles(word) : high_nibbles(word);
  }
};
// Nibbles as bytes and scales as f32, made once a block when many rows read it. Signed bytes may be
// split: then what sums start with stands after the scales, and signs after magnitudes.
template <class Packed>
struct Widened : Packed {
  static constexpr bool kSplit = kSplitsSigns && Packed::kFormat == Format::q8_0;
  using Product = std::conditional_t<kSplit, DotSplit, typename Packed::Product>;
  static constexpr bool kPacked = false;
  static constexpr uint32_t kSteps = 1;
  static constexpr uint64_t kStartsAt = kPanelColumns * 4;
  static constexpr uint64_t kScaleBytes = (kSplit ? 2 : 1) * kPanelColumns * 4;
  [[gnu::always_inline]] static F32 scale(const std::byte* group, uint32_t v) {
    return simd::load(group + v * simd::kLanes * 4);
  }
  [[gnu::always_inline]] static Bytes part(Bytes word, uint32_t) { return word; }
};
// Whether bytes are split by signs.
template <class L>
constexpr bool is_split() {
  if constexpr (requires { L::kSplit; }) {
    return L::kSplit;
  } else {
    return false;
  }
}
template <class L>
inline constexpr uint64_t kGroupBytes = L::kScaleBytes + uint64_t{kPanelColumns} * 32 /
                                                             L::kSteps*(is_split<L>() ? 2 : 1);
// How far signs stand after their magnitudes.
inline constexpr uint64_t kSignsAfter = uint64_t{kPanelColumns} * 32;
// The same for every way to read panels; with its part of what a block has in front, at most.
template <class L>
constexpr uint64_t bytes_of_group() {
  if constexpr (requires { L::kHeaderBytes; }) {
    return L::kGroupBytes + L::kHeaderBytes / L::kGroups;
  } else {
    return kGroupBytes<L>;
  }
}

// The bytes of a group. bytes(v, s): those of step s of vector v.
template <class At>
[[gnu::always_inline]] inline void store_group(std::byte* to, const At& bytes) {
#pragma GCC unroll 2
  for (uint32_t v = 0; v < kPanelVectors; ++v) {
#pragma GCC unroll 8
    for (uint32_t s = 0; s < 8; ++s) {
      store_bytes(bytes(v, s), to + (s * kPanelVectors + v) * kVectorBytes);
    }
  }
}
// The same, split, where the set has that. D: DotSplit.
template <class D, class At>
[[gnu::always_inline]] inline void split_group(std::byte* starts, std::byte* to, const At& bytes) {
#pragma GCC unroll 2
  for (uint32_t v = 0; v < kPanelVectors; ++v) {
    auto start = D::start(0);
#pragma GCC unroll 8
    for (uint32_t s = 0; s < 8; ++s) {
      const auto w = split_bytes(bytes(v, s), start);
      std::byte* at = to + (s * kPanelVectors + v) * kVectorBytes;
      store_bytes(w.magnitude, at);
      store_bytes(w.negative, at + kSignsAfter);
    }
    store_bytes(start, starts + v * kVectorBytes);
  }
}

struct TileTask {
  const std::byte* panel = nullptr;  // the block's first group
  const std::byte* x = nullptr;      // the first row's first group; rows kRowBlockBytes apart
  uint32_t groups = 0;
  uint32_t block_groups = 1;  // that share a header
  float* sums = nullptr;      // [R][kPanelColumns]
  bool resume = false;        // continue the sums found there
  // Asked for while this block is multiplied: `ahead_lines` cache lines for each group.
  const std::byte* ahead = nullptr;
  uint64_t ahead_stride = 0;
  uint32_t ahead_lines = 0;
  // Bit s: of each group, step s asks for its eighth of them; 0: they are asked for all at once.
  uint32_t ahead_steps = 0;
  // One row, where the processor fetches by itself: scattered groups' lines are asked for in turn.
  bool in_turn = false;
};

// The lines of the next block that are asked for with a group: one by one between its steps, where
// they are known. All at once they take what the processor has for lines under way, and the group's
// own words, which come from the second cache, wait behind them.
template <class L, uint32_t R>
class Ahead {
 public:
  explicit Ahead(const TileTask& task)
      : at_(task.ahead),
        stride_(task.ahead_stride),
        lines_(task.ahead_lines),
        steps_(kSpread ? task.ahead_steps : 0) {}
  [[gnu::always_inline]] void begin_group() {
    now_ = at_;
    at_ += stride_;
    if (steps_ != 0) return;
    for (uint32_t i = 0; i < lines_; ++i) __builtin_prefetch(now_ + 64 * i, 0, 2);
  }
  // s: 0 … 7
  [[gnu::always_inline]] void step(uint32_t s) const {
    if (!kSpread || (steps_ >> s & 1) == 0) return;
    for (uint32_t i = s * kLines / 8; i < (s + 1) * kLines / 8; ++i) {
      __builtin_prefetch(now_ + 64 * i, 0, 2);
    }
  }

 private:
  // A single row waits for memory alone. Widened weights have other lines ahead than their own.
  static constexpr bool kSpread = R > 1 && L::kPacked;
  static constexpr uint32_t kLines = (bytes_of_group<L>() + 63) / 64;
  const std::byte *at_, *now_ = nullptr;
  const uint64_t stride_;
  const uint32_t lines_, steps_;
};

// The f32 sums of a tile: in registers as far as there are enough, else in memory.
template <uint32_t R>
struct TileSums {
  // Vectors of a row's sums that stay in registers. On Zen 5 a store takes the time of two
  // products.
  static constexpr uint32_t kKept = R <= kKeptRows ? kPanelVectors : (R > kTileRows ? 1 : 0);
  float* memory;
  F32 kept[R][kKept > 0 ? kKept : 1];

  [[gnu::always_inline]] float* at(uint32_t r, uint32_t v) const {
    return memory + r * kPanelColumns + v * simd::kLanes;
  }
  [[gnu::always_inline]] F32 get(uint32_t r, uint32_t v) const {
    return v < kKept ? kept[r][v] : simd::load(at(r, v));
  }
  [[gnu::always_inline]] void set(uint32_t r, uint32_t v, F32 sum) {
    if (v < kKept) {
      kept[r][v] = sum;
    } else {
      simd::store(at(r, v), sum);
    }
  }
  [[gnu::always_inline]] void begin(bool resume) {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        set(r, v, resume ? simd::load(at(r, v)) : simd::zero());
      }
    }
  }
  // Behind it sums in memory are read again: a compiler would rather keep them, and what it has no
  // registers for on the stack.
  [[gnu::always_inline]] static void forget() {
    if constexpr (kKept < kPanelVectors) asm volatile("" ::: "memory");
  }
  [[gnu::always_inline]] void end() {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kKept; ++v) simd::store(at(r, v), kept[r][v]);
    }
  }
};

// Policies that add several steps at once.
template <class D>
inline constexpr bool kAddsSteps = requires {
  D::kTileRows;
};

// What the sums of a group start at: stored before its columns where signs are split, else
// what `start(r)` says of row r.
template <class L, class Sum, uint32_t R, class Start>
[[gnu::always_inline]] inline void begin_sums(Sum (&sum)[R][kPanelVectors], const std::byte* group,
                                              const Start& start) {
#pragma GCC unroll 12
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      if constexpr (is_split<L>()) {
        sum[r][v] = load_bytes(group + L::kStartsAt + v * kVectorBytes);
      } else {
        sum[r][v] = L::Product::start(start(r));
      }
    }
  }
}

template <class L, uint32_t R>
[[gnu::noinline]] void tile(const TileTask& task) {
  using D = typename L::Product;
  TileSums<R> sums{};
  sums.memory = task.sums;
  sums.begin(task.resume);
  const std::byte* group = task.panel;
  const std::byte* x = task.x;
  Ahead<L, R> ahead(task);
  for (uint32_t left = task.groups; left > 0; --left) {
    ahead.begin_group();
    const auto row = [x](uint32_t r) {
      return reinterpret_cast<const RowGroup*>(x + r * kRowBlockBytes);
    };
    const auto start = [&](uint32_t r) { return row(r)->start[static_cast<uint32_t>(L::kFormat)]; };
    typename D::Sum sum[R][kPanelVectors];
    begin_sums<L>(sum, group, start);
    const std::byte* words = group + L::kScaleBytes;
    if constexpr (kAddsSteps<D>) {
      D::template add_steps<8>(sum, x, 0, ahead, [words](uint32_t v, uint32_t s) {
        const uint32_t j = s / L::kSteps;
        const Bytes word = load_bytes(words + (j * kPanelVectors + v) * kVectorBytes);
        return L::part(word, s % L::kSteps);
      });
    } else {
#pragma GCC unroll 8
      for (uint32_t j = 0; j < 8 / L::kSteps; ++j) {
        Bytes word[kPanelVectors];
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kPanelVectors; ++v) {
          word[v] = load_bytes(words + (j * kPanelVectors + v) * kVectorBytes);
        }
#pragma GCC unroll 2
        for (uint32_t h = 0; h < L::kSteps; ++h) {
          ahead.step(j * L::kSteps + h);
          typename D::Weights w[kPanelVectors];
#pragma GCC unroll 2
          for (uint32_t v = 0; v < kPanelVectors; ++v) {
            if constexpr (is_split<L>()) {
              const std::byte* signs = words + kSignsAfter + (j * kPanelVectors + v) * kVectorBytes;
              w[v] = {word[v], load_bytes(signs)};
            } else {
              w[v] = D::weights(L::part(word[v], h));
            }
          }
#pragma GCC unroll 12
          for (uint32_t r = 0; r < R; ++r) {
            const auto four = D::broadcast(x + r * kRowBlockBytes + (j * L::kSteps + h) * 4);
#pragma GCC unroll 2
            for (uint32_t v = 0; v < kPanelVectors; ++v) sum[r][v] = D::add(sum[r][v], w[v], four);
          }
        }
      }
    }
    TileSums<R>::forget();
    typename D::Scale scale[kPanelVectors];
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) scale[v] = D::scale(L::scale(group, v));
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
      const F32 x_scale = simd::set1(row(r)->scale);
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const F32 value = D::value(sum[r][v], start(r), scale[v]);
        sums.set(r, v, simd::fma(value, x_scale, sums.get(r, v)));
      }
    }
    group += kGroupBytes<L>;
    x += sizeof(RowGroup);
  }
  sums.end();
}

using TileFunction = void (*)(const TileTask& task);

template <class L, uint32_t... rows>
constexpr TileFunction pick_tile(uint32_t count, std::integer_sequence<uint32_t, rows...>) {
  constexpr TileFunction kTiles[] = {&tile<L, rows + 1>...};
  return kTiles[count - 1];
}
// The tile for 1 … kMostRows rows.
template <class L>
TileFunction tile_for(uint32_t rows) {
  return pick_tile<L>(rows, std::make_integer_sequence<uint32_t, kMostRows<L>>());
}

}  // namespace
}  // namespace tenon::int8
