// Which experts a row takes, which rows an expert has, and the sum of a row's experts. Scores and
// factors are f32; no order of the arithmetic depends on other rows.
#pragma once

#include "core/exec/cuda/kernels/row_functions.cuh"

namespace tenon::cuda {

struct RouteView {
  Global<const float> x, router, bias, correction, shared_router;
  Global<uint32_t> experts;
  Global<float> factors;
  RouteShape shape;
};

// Scores of all experts, and behind them the shared expert's: a warp a score, lanes over the row.
TENON_DEVICE void score_experts(const RouteView& r, Shared<float> scores) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * r.shape.x_stride;
  const int count = r.shape.count + (r.shared_router ? 1 : 0);
  for (int expert = warp; expert < count; expert += kRowThreads / 32) {
    const bool shared = expert == r.shape.count;
    const Global<const float> w =
        shared ? r.shared_router : r.router + static_cast<int64_t>(expert) * r.shape.router_stride;
    float sum = 0.0f;
    for (int k = lane; k < r.shape.width; k += 32) sum = fmaf(r.x[row + k], w[k], sum);
    sum = warp_sum(sum);
    if (lane != 0) continue;
    if (r.bias && !shared) sum += r.bias[expert];
    scores[expert] = sum;
  }
  __syncthreads();
}

TENON_DEVICE float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

// Scores become what factors are made of.
TENON_DEVICE void make_values(const RouteShape& shape, Shared<float> scores, Shared<float> sums) {
  if (shape.scoring == RouteScoring::softmax_of_chosen) return;
  float largest = -INFINITY;
  for (int i = 0; i < shape.count; ++i) largest = fmaxf(largest, scores[i]);
  __syncthreads();  // all have read them
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < shape.count; i += kRowThreads) {
    const bool softmax = shape.scoring == RouteScoring::softmax;
    const float value = softmax ? expf(scores[i] - largest) : sigmoid(scores[i]);
    sum += value;
    scores[i] = value;
  }
  if (shape.scoring == RouteScoring::softmax) {
    sum = block_sum(sum, sums);
    for (int i = static_cast<int>(threadIdx.x); i < shape.count; i += kRowThreads) {
      scores[i] = scores[i] / sum;
    }
  }
  __syncthreads();
}

// How many of `values` come before number i: larger ones, and of equal ones the first.
TENON_DEVICE int rank_of(Shared<float> values, int count, int i) {
  const float own = values[i];
  int rank = 0;
  for (int other = 0; other < count; ++other) {
    const float value = values[other];
    rank += value > own || (value == own && other < i) ? 1 : 0;
  }
  return rank;
}

// Experts of groups that are not among the best are worth -inf. A group is judged by its best
// expert or its two best.
TENON_DEVICE void leave_out_groups(const RouteShape& shape, Shared<float> worth,
                                   Shared<float> groups) {
  const int each = shape.count / shape.groups;
  const int first = static_cast<int>(threadIdx.x);
  for (int group = first; group < shape.groups; group += kRowThreads) {
    float best = -INFINITY, second = -INFINITY;
    for (int i = 0; i < each; ++i) {
      const float value = worth[group * each + i];
      second = fmaxf(second, fminf(best, value));
      best = fmaxf(best, value);
    }
    groups[group] = shape.best_two ? best + second : best;
  }
  __syncthreads();
  for (int group = first; group < shape.groups; group += kRowThreads) {
    if (rank_of(groups, shape.groups, group) < shape.groups_chosen) continue;
    for (int i = 0; i < each; ++i) worth[group * each + i] = -INFINITY;
  }
  __syncthreads();
}

// By one thread: few numbers, in the order of the choice.
TENON_DEVICE void put_factors(const RouteView& r, Shared<float> scores, Shared<float> chosen) {
  const RouteShape& shape = r.shape;
  const int64_t to = static_cast<int64_t>(blockIdx.x) * (shape.chosen + 1);
  if (shape.scoring == RouteScoring::softmax_of_chosen) {
    const float largest = chosen[0];
    float sum = 0.0f;
    for (int i = 0; i < shape.chosen; ++i) {
      chosen[i] = expf(chosen[i] - largest);
      sum += chosen[i];
    }
    for (int i = 0; i < shape.chosen; ++i) chosen[i] = chosen[i] / sum;
  }
  float sum = 1e-20f;
  for (int i = 0; i < shape.chosen; ++i) sum += chosen[i];
  for (int i = 0; i < shape.chosen; ++i) {
    const float factor = shape.normalised ? chosen[i] / sum : chosen[i];
    r.factors[to + i] = factor * shape.scale;
  }
  r.factors[to + shape.chosen] = r.shared_router ? sigmoid(scores[shape.count]) : 1.0f;
}

// Grid: rows.
__global__ void route_kernel(RouteView r) {
  let_next_start();
  wait_for_earlier();
  const RouteShape& shape = r.shape;
  SharedArena arena;
  Shared<float> sums = arena.take<float>(kRowThreads / 32);
  Shared<float> scores = arena.take<float>(static_cast<uint32_t>(shape.count) + 1);
  Shared<float> worth = arena.take<float>(static_cast<uint32_t>(shape.count));
  Shared<float> groups = arena.take<float>(static_cast<uint32_t>(shape.groups));
  Shared<float> chosen = arena.take<float>(static_cast<uint32_t>(shape.chosen));
  score_experts(r, scores);
  make_values(shape, scores, sums);
  const int first = static_cast<int>(threadIdx.x);
  for (int i = first; i < shape.count; i += kRowThreads) {
    float value = scores[i];
    if (r.correction) value += r.correction[i];
    // What is no number is worth nothing: a broken row must still end with experts that there are.
    worth[i] = value == value ? value : -INFINITY;
  }
  __syncthreads();
  if (shape.groups > 1) leave_out_groups(shape, worth, groups);
  for (int i = first; i < shape.count; i += kRowThreads) {
    const int rank = rank_of(worth, shape.count, i);
    if (rank >= shape.chosen) continue;
    chosen[rank] = scores[i];
    r.experts[static_cast<int64_t>(blockIdx.x) * shape.chosen + rank] = static_cast<uint32_t>(i);
  }
  __syncthreads();
  if (first == 0) put_factors(r, scores, chosen);
}

TENON_DEVICE uint32_t count_bits(uint32_t x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

// The places whose row chose the block's expert, rising. Grid: experts.
__global__ void collect_places(Global<const uint32_t> experts, Global<uint32_t> lists,
                               Global<uint32_t> counts, uint32_t places, uint32_t room) {
  let_next_start();
  wait_for_earlier();
  SharedArena arena;
  Shared<uint32_t> votes_of = arena.take<uint32_t>(kRowThreads / 32);
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t before_lane = (1u << threadIdx.x % 32) - 1;
  const int64_t list = static_cast<int64_t>(blockIdx.x) * room;
  uint32_t found = 0;
  for (uint32_t first = 0; first < places; first += kRowThreads) {
    const uint32_t place = first + threadIdx.x;
    const bool own = place < places && uint32_t{experts[place]} == blockIdx.x;
    const uint32_t votes = __ballot_sync(kAllLanes, own);
    __syncthreads();  // the last ones were read
    if (threadIdx.x % 32 == 0) votes_of[static_cast<int>(warp)] = count_bits(votes);
    __syncthreads();
    uint32_t at = found + count_bits(votes & before_lane);
    for (uint32_t i = 0; i < kRowThreads / 32; ++i) {
      const uint32_t others = votes_of[static_cast<int>(i)];
      if (i < warp) at += others;
      found += others;
    }
    if (own) lists[list + at] = place;
  }
  if (threadIdx.x == 0) counts[blockIdx.x] = found;
}

// out [rows, width] = Σ factor · of[row · chosen + i], in the order of the choice, and the shared
// expert's; or out += scale · that. Grid: rows.
__global__ void add_experts_kernel(Global<const float> of, Global<const float> factors,
                                   Global<const float> shared, Global<float> out, int chosen,
                                   int width, int out_stride, bool add, float scale) {
  let_next_start();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kRowThreads) {
    float sum = 0.0f;
    for (int n = 0; n < chosen; ++n) {
      sum = fmaf(factors[row * (chosen + 1) + n], of[(row * chosen + n) * width + i], sum);
    }
    if (shared) sum = fmaf(factors[row * (chosen + 1) + chosen], shared[row * width + i], sum);
    const int64_t at = row * out_stride + i;
    out[at] = add ? fmaf(scale, sum, out[at]) : sum;
  }
}

}  // namespace tenon::cuda
