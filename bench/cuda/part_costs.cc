#include "bench/cuda/part_costs.h"

#include <utility>

namespace tenon::cuda::bench {
namespace {

constexpr uint32_t kEntries = 1024;
constexpr int kBlockTokens = 16;

AttentionShape one_row(const CacheShape& cache, int heads, int v_dim) {
  AttentionShape shape = {};
  shape.cache = cache;
  shape.v_dim = shape.out_head_stride = v_dim;
  shape.out_type = Input::bf16;
  shape.out_stride = heads * v_dim;
  shape.heads = heads;
  shape.rows = 1;
  shape.split_rows = 1;
  const auto per_head = static_cast<uint32_t>(heads / cache.kv_heads);
  shape.tiles = (per_head + kTileItems - 1) / kTileItems;
  shape.splits = attention_splits(kEntries);
  return shape;
}

Cost attention(const AttentionShape& shape, bool has_slopes) {
  const SequenceRows sequence = {kEntries, 1};
  return attention_cost(shape, {&sequence, 1}, false, has_slopes).all();
}

CacheShape cache_8b(CacheType type) {
  return {type, 8, 128, kBlockTokens};
}

HeadsCall heads_8b(const CacheShape& cache) {
  static float some = 0.0f;
  HeadsCall call = {};
  call.q = &some;
  call.k = call.v = call.angles = &some;
  call.cache = cache;
  call.rows = 1;
  call.q_heads = 32;
  call.half = 64;
  return call;
}

Cost embed_8b(int bits) {
  EmbedCall call = {};
  call.weights = Input::bf16;
  call.rows = 1;
  call.width = 4096;
  call.stride = static_cast<int>(quant_stride(call.width, bits));
  call.quant.bits = bits;
  call.quant.group = 32;
  call.quant.groups = 4096 / 32;
  return embed_cost(call, 1);
}

MultiplyCall product(int n_out, int k_in) {
  MultiplyCall call = {};
  call.rows = 1;
  call.n_out = call.y_stride = n_out;
  call.k_in = call.x_stride = call.w_stride = k_in;
  call.factor = 1.0f;
  return call;
}

// Mixtral 8x7B.
void add_experts(std::vector<PartCost>& parts) {
  constexpr int kHidden = 4096, kMlp = 14336;
  RouteShape route = {};
  route.width = route.x_stride = route.router_stride = kHidden;
  route.count = 8;
  route.chosen = 2;
  route.groups = route.groups_chosen = 1;
  ExpertRows rows = {};
  rows.rows = rows.room = 1;
  rows.chosen = 2;
  rows.count = 8;
  const uint32_t places_of[8] = {1, 1};
  const auto experts = [&](const MultiplyCall& call, uint32_t each) {
    return multiply_experts_cost(Input::bf16, call, {}, rows, each, places_of);
  };
  AddExpertsCall sum = {};
  sum.rows = 1;
  sum.chosen = 2;
  sum.width = kHidden;
  sum.add = true;
  parts.push_back({"8x7b.route", route_cost(1, route, {})});
  parts.push_back({"8x7b.places", collect_places_cost(rows)});
  parts.push_back({"8x7b.experts.gate_up", experts(product(kMlp, kHidden), 2)});
  parts.push_back({"8x7b.experts.down", experts(product(kHidden, kMlp), 1)});
  parts.push_back({"8x7b.experts.sum", add_experts_cost(sum)});
}

// DeepSeek-V3.
void add_latent(std::vector<PartCost>& parts) {
  constexpr uint32_t kHeads = 128;
  constexpr int kRank = 512, kRow = 576, kHead = 128;
  const AttentionShape shape =
      one_row({CacheType::bf16, 1, kRow, kBlockTokens}, static_cast<int>(kHeads), kRank);
  parts.push_back(
      {"v3.heads.absorb", multiply_heads_cost(Input::bf16, product(kRank, kHead), kHeads)});
  parts.push_back({"v3.attention", attention(shape, false)});
  parts.push_back(
      {"v3.heads.expand", multiply_heads_cost(Input::bf16, product(kHead, kRank), kHeads)});
}

}  // namespace

std::vector<PartCost> part_costs() {
  std::vector<PartCost> parts;
  for (const auto& [word, type] :
       {std::pair{"i8", CacheType::i8}, std::pair{"i4", CacheType::i4}}) {
    const CacheShape cache = cache_8b(type);
    parts.push_back({std::string("8b.heads.") + word, place_heads_cost(heads_8b(cache))});
    parts.push_back(
        {std::string("8b.attention.") + word, attention(one_row(cache, 32, 128), false)});
  }
  parts.push_back(
      {"8b.attention.slopes", attention(one_row(cache_8b(CacheType::bf16), 32, 128), true)});
  parts.push_back({"8b.embed.w8", embed_8b(8)});
  parts.push_back({"8b.embed.w4", embed_8b(4)});
  add_experts(parts);
  add_latent(parts);
  return parts;
}

}  // namespace tenon::cuda::bench
