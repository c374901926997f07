// Products of some rows in bf16: more than a warp multiplies at once, too few to give each
// multiprocessor tiles of many. A block has all pieces of K of its columns, and its lanes, of
// T::kThreads threads each, take turns at them: so narrow matrices keep enough warps that load. An
// element's sum is the sequence of mma and additions that multiply_tile makes.
#pragma once

#include "core/exec/cuda/kernels/products/multiply_many.cuh"

namespace tenon::cuda {

inline constexpr int kSomeWarps = 8;  // of a block, at most

// Whether a device for which this is compiled may have more shared memory than sm_80 has. It is
// kept from what fits nowhere else, and needs more registers there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool kMuchShared = false;
#else
inline constexpr bool kMuchShared = true;
#endif
inline constexpr int kMuchSharedBytes = 200 * 1024;

// Of a lane, whose `groups` warps side by side have so many columns each, and `warp_rows` rows.
// `step` elements of K are a stage.
template <int rows, int groups, int warp_columns = 32, int warp_rows = rows, int step = 32,
          int stages = 4>
struct SomeTile {
  static constexpr int kRows = rows;
  static constexpr int kColumns = warp_columns * groups;
  static constexpr int kWarpRows = warp_rows;
  static constexpr int kWarpColumns = warp_columns;
  static constexpr int kStep = step;
  static constexpr int kStages = stages;
  static constexpr int kPieceSteps = kPieceElements / kStep;
  static constexpr uint32_t kTogether = 16;  // as of ManyTile
  static constexpr int kRowTiles = kWarpRows / 16;
  static constexpr int kColumnTiles = kWarpColumns / 8;
  static constexpr int kColumnWarps = groups;
  static constexpr int kThreads = rows / warp_rows * groups * 32;
  static constexpr int kStage = (kRows + kColumns) * kStep;  // elements: of x, then of W
  static constexpr int kSums = kRows * kColumns;
  static constexpr int kMostLanes = kSomeWarps * 32 / kThreads;  // of a block
  static constexpr int kBlocks = rows <= 32 && groups > 1 && kMuchShared ? 2 : 1;
};

// Where a lane is on its way along K: its pieces, one behind the other, in steps. `lanes` pieces
// lie from one of its pieces to the next one.
template <typename T>
struct LaneSteps {
  int next;   // of all steps of K
  int skips;  // steps of the others' pieces

  TENON_DEVICE LaneSteps(int lane, int lanes)
      : next(lane * T::kPieceSteps), skips((lanes - 1) * T::kPieceSteps) {}
  // How many steps lie from this one to the next one.
  TENON_DEVICE int advance() {
    ++next;
    const int further = next % T::kPieceSteps == 0 ? skips : 0;
    next += further;
    return further + 1;
  }
};

// Waits for a lane's other threads; for those of all lanes where they are several warps.
template <typename T>
TENON_DEVICE void wait_for_lane() {
  if constexpr (T::kThreads == 32) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// What the lanes of a block made in a round of pieces enters the first one's totals, in the order
// of K. A thread's own sums stand four side by side: [lanes, of a warp, threads of a lane].
template <typename T>
struct RoundTotals {
  Shared<float> all;
  int lane, lanes;

  TENON_DEVICE RoundTotals(SharedArena& arena, int own, int count)
      : all(arena.take<float>(count * T::kSums)), lane(own), lanes(count) {}
  // Behind the round that began with piece `first` of so many: whether it was the last one. Then
  // the first lane has totals in place of sums; else sums begin anew.
  TENON_DEVICE bool end_round(WarpSums<T>& sums, int first, int pieces) const {
    const bool last = first + lanes >= pieces;
    add(sums, pieces - first, first == 0, last);
    if (last) return true;
    each_sum<T>(sums, [](float(&sum)[4], int, int) {
      for (float& x : sum) x = 0.0f;
    });
    return false;
  }

 private:
  // Of the round `pieces` are left, itself among them.
  TENON_DEVICE void add(WarpSums<T>& sums, int pieces, bool first, bool last) const {
    const int there = pieces < lanes ? pieces : lanes;
    if (lane > 0 && lane < there) each<true>(sums, lane, [](float&, float) {});
    if (lanes > 1) __syncthreads();
    if (lane == 0) {
      if (!first) each<false>(sums, 0, [](float& sum, float total) { sum = total + sum; });
      for (int other = 1; other < there; ++other) {
        each<false>(sums, other, [](float& sum, float more) { sum += more; });
      }
      if (!last) each<true>(sums, 0, [](float&, float) {});
    }
    if (lanes > 1 && !last) __syncthreads();  // what others made was read
  }

  template <bool stores, typename Function>
  TENON_DEVICE void each(WarpSums<T>& sums, int of, const Function& function) const {
    const int thread = static_cast<int>(threadIdx.x) % T::kThreads;
    const Shared<float> own = all + (of * T::kSums + thread * 4);
    each_sum<T>(sums, [&](float(&sum)[4], int m, int n) {
      const Shared<float> at = own + (m * T::kColumnTiles + n) * T::kThreads * 4;
      if constexpr (stores) {
        store_pack(at, Pack<float, 4>{{sum[0], sum[1], sum[2], sum[3]}});
      } else {
        const Pack<float, 4> there = load_pack<4>(at);
        TENON_UNROLL
        for (int i = 0; i < 4; ++i) function(sum[i], there[i]);
      }
    });
  }
};

// Grid: tiles of rows × columns. A block has `lanes` · T::kThreads threads.
template <typename T>
__global__ void __launch_bounds__(T::kMostLanes* T::kThreads, T::kBlocks)
    multiply_some(Factors<BFloat16> f, int lanes, bool pairs) {
  const int thread = static_cast<int>(threadIdx.x) % T::kThreads;
  const int lane = static_cast<int>(threadIdx.x) / T::kThreads;
  SharedArena arena;
  const Shared<BFloat16> stages =
      arena.take<BFloat16>(lanes * T::kStages * T::kStage) + lane * (T::kStages * T::kStage);
  const RoundTotals<T> totals(arena, lane, lanes);
  const TilePlace<T> place(f.rows, f.n_out);
  Chunks<T, T::kRows> x_chunks(thread, f.x, place.row, f.rows, f.k_in * 2, f.x_stride);
  Chunks<T, T::kColumns> w_chunks(thread, f.w, place.column, f.n_out, f.w_stride * 2, f.w_stride);
  LaneSteps<T> x_steps(lane, lanes);
  LaneSteps<T> w_steps(lane, lanes);
  x_chunks.skip(x_steps.next);
  w_chunks.skip(w_steps.next);
  // `at`: where a stage begins. Behind the last step it is filled with zeros.
  const auto fill_x = [&](int at) {
    x_chunks.template copy<false>(stages + at, x_steps.next);
    x_chunks.skip(x_steps.advance() - 1);
    copy_async_commit();
  };
  const auto fill_w = [&](int at) {
    w_chunks.template copy<false>(stages + (at + T::kRows * T::kStep), w_steps.next);
    w_chunks.skip(w_steps.advance() - 1);
  };
  let_next_start();
  for (int stage = 0; stage < T::kStages; ++stage) fill_w(stage * T::kStage);
  wait_for_earlier();  // so far nothing was read that kernels write
  for (int stage = 0; stage < T::kStages; ++stage) fill_x(stage * T::kStage);
  copy_async_wait<T::kStages - 1>();
  wait_for_lane<T>();
  const WarpPart<T> part(thread);
  Fragments<T> fragments[2];
  part.load(fragments[0], stages, 0);
  int at = 0;
  WarpSums<T> sums = {};
  const int steps = (f.k_in + T::kStep - 1) / T::kStep;
  const int pieces = (steps + T::kPieceSteps - 1) / T::kPieceSteps;
  for (int first = 0; first < pieces; first += lanes) {
    const int left = steps - first * T::kPieceSteps;
    const int round_steps = left < T::kPieceSteps ? left : T::kPieceSteps;
    for (int step = 0; step < round_steps; ++step) {
      part.load(fragments[1], stages + at, 1);
      multiply_fragments<T>(sums, fragments[0]);
      copy_async_wait<T::kStages - 2>();
      wait_for_lane<T>();  // the next stage is there, and this one was read
      const int used = at;
      at = at + T::kStage < T::kStages * T::kStage ? at + T::kStage : 0;
      part.load(fragments[0], stages + at, 0);
      fill_w(used);
      fill_x(used);
      multiply_fragments<T>(sums, fragments[1]);
    }
    if (totals.end_round(sums, first, pieces)) break;
  }
  copy_async_wait<0>();
  if (lane > 0) return;
  put_sums<T>(f, sums, place.row + part.row, place.column + part.column, pairs);
}

}  // namespace tenon::cuda
