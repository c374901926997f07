// What formulas say that attention moves and computes is what the emulator counts, to the byte.
#include "core/exec/cuda/step/attention_plan.h"
#include "tests/cuda/rig/counted.h"

namespace tenon::cuda::test {
namespace {

using bench::AttentionCost;
using bench::SequenceRows;

struct AttentionCase {
  CacheType cache;
  int head_dim, heads, kv_heads;
  uint32_t window;
  std::vector<SequenceRows> sequences;
  int v_dim = 0;  // 0: head_dim
  bool slopes = false;

  int values() const { return v_dim == 0 ? head_dim : v_dim; }
};

void expect_attention(const AttentionCase& c) {
  constexpr uint32_t kTokens = 16;
  std::vector<uint32_t> slots, kv_tokens;
  std::vector<std::vector<BlockId>> tables;
  std::vector<KvTableView> views;
  std::vector<BatchSequence> sequences;
  BlockId blocks = 0;
  for (const SequenceRows& s : c.sequences) {
    BatchSequence& added = sequences.emplace_back();
    added.first_row = static_cast<uint32_t>(slots.size());
    added.rows = s.rows;
    kv_tokens.push_back(s.entries);
    for (uint32_t i = s.entries - s.rows; i < s.entries; ++i) slots.push_back(i);
    std::vector<BlockId>& table = tables.emplace_back();
    for (uint32_t i = 0; i <= (s.entries - 1) / kTokens; ++i) table.push_back(blocks++);
  }
  for (const auto& table : tables) views.emplace_back().blocks = table;
  const BatchGroup group{slots, kv_tokens, views};
  BatchView batch;
  batch.rows = static_cast<uint32_t>(slots.size());
  batch.sequences = sequences;
  batch.groups = {&group, 1};
  KvGroup kv;
  kv.kv_heads = static_cast<uint32_t>(c.kv_heads);
  kv.window_tokens = c.window;
  kv.kind = c.v_dim == 0 ? KvKind::attention : KvKind::latent;
  kv.k_dim = static_cast<uint32_t>(c.head_dim);
  kv.v_dim = static_cast<uint32_t>(c.values());
  const AttentionPlanArrays plan = plan_attention(batch, 0, kv, kTokens, c.heads);
  Counted device;
  const uint64_t width = uint64_t{batch.rows} * c.heads * c.head_dim;
  const uint64_t rows_of_plane = uint64_t(blocks) * kTokens * c.kv_heads;
  const auto plane = [&]() -> const void* {
    if (is_quantised(c.cache)) {
      const uint64_t bytes = rows_of_plane * cache_row_bytes(c.cache, c.head_dim);
      return device.upload(std::vector<uint8_t>(bytes, 0), "plane");
    }
    const Input type = c.cache == CacheType::f32 ? Input::f32 : Input::bf16;
    return device.values(type, rows_of_plane * c.head_dim);
  };
  AttentionArrays arrays = {};
  arrays.q = device.floats(width);
  arrays.k = plane();
  arrays.v = c.v_dim == 0 ? plane() : arrays.k;
  arrays.sequences = device.upload(plan.sequences, "sequences");
  arrays.tiles = device.upload(plan.tiles, "tiles");
  arrays.slots = device.upload(plan.slots, "slots");
  arrays.row_sequence = device.upload(plan.row_sequence, "row_sequence");
  arrays.tables = device.upload(plan.tables, "tables");
  arrays.sinks = c.window > 0 ? device.floats(c.heads) : nullptr;
  arrays.slopes = c.slopes ? device.floats(c.heads) : nullptr;
  arrays.first_ranges = device.upload(plan.first_ranges, "first_ranges");
  if (plan.ranges > 0) {
    arrays.split_rows = device.upload(plan.split_rows, "split_rows");
    const int stride = attention_value_stride(c.values());
    arrays.partial = device.make<float>(plan.ranges * c.heads * stride, "partial");
    arrays.sums = device.make<float>(2 * plan.ranges * c.heads, "sums");
  }
  arrays.out = device.make<float>(width, "out");
  AttentionShape shape = {};
  shape.cache = {c.cache, c.kv_heads, c.head_dim, kTokens};
  shape.v_dim = shape.out_head_stride = c.values();
  shape.out_stride = c.heads * c.values();
  shape.heads = c.heads;
  plan.describe(shape);
  shape.window = c.window;
  shape.scale = 0.1f;
  EXPECT_EQ(launch_attention(nullptr, arrays, shape), 0);
  const AttentionCost cost = bench::attention_cost(shape, c.sequences, c.window > 0, c.slopes);
  size_t launch = 0;
  for (const Cost& each : {cost.wide, cost.few, cost.join}) {
    if (each != Cost()) expect_cost(device.of(launch++), each);
  }
}

TEST(CudaCost, of_attention_is_what_is_counted) {
  for (const CacheType cache : kCacheTypes) {
    SCOPED_TRACE("cache " + std::to_string(static_cast<int>(cache)));
    for (const int head_dim : {64, 80, 256}) {
      SCOPED_TRACE(head_dim);
      expect_attention({cache, head_dim, 4, 2, 0, {{37, 1}, {5, 5}}});
    }
    expect_attention({cache, 72, 3, 3, 0, {{20, 3}}});
    expect_attention({cache, 64, 16, 1, 9, {{45, 6}, {3, 2}}});
    expect_attention({cache, 64, 2, 1, 0, {{kSplitEntries + 40, 2}, {9, 1}}});
    expect_attention({cache, 64, 1, 1, 50, {{2 * kSplitEntries + 20, 1}}});
    expect_attention({cache, 64, 6, 2, 0, {{45, 30}, {3, 1}}, 0, true});
    expect_attention({cache, 72, 4, 2, 0, {{20, 3}}, 0, true});
    for (const int head_dim : {80, 256}) {
      expect_attention({cache, head_dim, 8, 2, 0, {{100, 45}, {9, 1}, {80, 80}}});
      expect_attention({cache, head_dim, 8, 1, 70, {{190, 40}, {300, 1}}, 0, true});
    }
    expect_attention({cache, 64, 4, 1, 0, {{50, 2}, {10, 1}}});
  }
}

TEST(CudaCost, of_latent_attention_is_what_is_counted) {
  for (const CacheType cache : kCacheTypes) {
    SCOPED_TRACE("cache " + std::to_string(static_cast<int>(cache)));
    expect_attention({cache, 576, 5, 1, 0, {{37, 1}, {9, 7}}, 512});
    expect_attention({cache, 576, 20, 1, 40, {{kSplitEntries + 33, 1}}, 512});
    expect_attention({cache, 28, 3, 1, 0, {{21, 3}}, 20});
  }
}

}  // namespace
}  // namespace tenon::cuda::test
