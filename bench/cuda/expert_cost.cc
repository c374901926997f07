// The part of kernel_cost.h that layers with experts launch.
#include <algorithm>

#include "bench/cuda/kernel_cost.h"
#include "bench/cuda/product_cost.h"

namespace tenon::cuda::bench {
namespace {

// A thread an element, without tensor cores.
Cost plain_experts(const MultiplyCall& call, uint64_t places, uint64_t x_rows,
                   uint64_t used_experts) {
  const uint64_t n = number(call.n_out);
  const uint64_t k = number(call.k_in);
  const uint64_t products = places * n * k;
  Cost cost = reads(places * kWord, places * n * kWord);
  cost += reads(x_rows * k * kWord, products * kWord);
  cost += reads(used_experts * n * k * kWord, products * kWord);
  return cost;
}

// Every block asks how many rows its expert has; those that stay ask again, for the list.
Cost lists_of_tiles(uint64_t blocks, uint64_t staying_tiles, uint64_t columns, uint64_t experts,
                    uint64_t places) {
  Cost cost = reads(experts * kWord, (blocks + staying_tiles * columns) * kMultiplyThreads * kWord);
  cost += reads(places * kWord, columns * places * kWord);
  return cost;
}

}  // namespace

Cost route_cost(uint32_t rows, const RouteShape& shape, const RouteCall& call) {
  const uint64_t width = number(shape.width) * kWord;
  const uint64_t experts = number(shape.count);
  const uint64_t scores = experts + (call.shared_router != nullptr ? 1 : 0);
  const uint64_t chosen = number(shape.chosen);
  Cost cost = once(0, rows * (2 * chosen + 1) * kWord);
  cost += reads(rows * width, rows * scores * width);
  cost += reads(scores * width, rows * scores * width);
  for (const float* of_expert : {call.bias, call.correction}) {
    if (of_expert != nullptr) cost += reads(experts * kWord, rows * experts * kWord);
  }
  return cost;
}

Cost collect_places_cost(const ExpertRows& rows) {
  const uint64_t places = uint64_t{rows.rows} * rows.chosen;
  Cost cost = once(0, (places + rows.count) * kWord);
  cost += reads(places * kWord, rows.count * places * kWord);
  return cost;
}

Cost multiply_experts_cost(Input type, const MultiplyCall& call, const QuantScales& quant,
                           const ExpertRows& rows, uint32_t each,
                           std::span<const uint32_t> places_of) {
  const uint64_t places = uint64_t{rows.rows} * rows.chosen;
  const uint64_t n = number(call.n_out);
  const uint64_t k = number(call.k_in);
  const uint64_t x_rows = places / each;
  const auto unused = static_cast<uint64_t>(std::ranges::count(places_of, 0u));
  const uint64_t used = places_of.size() - unused;
  Cost cost = once(0, places * n * kWord);
  if (call.bias != nullptr) cost += reads(used * n * kWord, places * n * kWord);
  if (type == Input::f32) {
    cost += plain_experts(call, places, x_rows, used);
    return cost;
  }
  const uint64_t columns = ceiling(n, kColumns);
  const uint64_t tile = places <= rows.count * kFewRows ? kFewRows : kManyRows;
  const uint64_t blocks = columns * ceiling(rows.rows, tile) * rows.count;
  uint64_t tiles = 0;
  for (const uint32_t own : places_of) {
    if (own == 0) continue;
    tiles += ceiling(own, tile);
    cost += tiles_of_rows(call, quant, own, tile);
  }
  cost += lists_of_tiles(blocks, tiles, columns, rows.count, places);
  cost += reads(x_rows * k * 2, columns * places * k * 2);
  return cost;
}

Cost add_experts_cost(const AddExpertsCall& call) {
  const uint64_t elements = call.rows * number(call.width);
  const uint64_t chosen = number(call.chosen);
  const uint64_t factors = chosen + (call.shared != nullptr ? 1 : 0);
  Cost cost = once(call.add ? elements * kWord : 0, elements * kWord);
  cost += reads(call.rows * factors * kWord, elements * factors * kWord);
  cost += once(elements * factors * kWord, 0);
  return cost;
}

}  // namespace tenon::cuda::bench
