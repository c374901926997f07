#include <gtest/gtest.h>
#include <tenon/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "core/exec/cuda/step/attention_plan.h"
#include "core/exec/kv_row.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {
namespace {

struct Model {
  CacheType cache = CacheType::bf16;
  int head_dim = 64;
  int v_dim = 0;  // 0 = head_dim; else V is the beginning of K's rows
  int heads = 4;
  int kv_heads = 2;
  uint32_t window = 0;
  float cap = 0.0f;
  bool sinks = false;
  bool slopes = false;

  int values() const { return v_dim == 0 ? head_dim : v_dim; }
};

// The last `rows` of `entries` entries are computed in a step; their numbers follow from the
// sequence's seed and their place.
struct Sequence {
  uint32_t entries;
  uint32_t rows;
  uint64_t seed = 1;
  std::vector<uint32_t> places = {};  // [rows] in their stead, where rows are those of a path
  std::vector<int32_t> parents = {};  // [rows] of a tree: which of the rows, or -1

  uint32_t place(uint32_t entry) const {
    const uint32_t before = entries - rows;
    return entry < before || places.empty() ? entry : places[entry - before];
  }
};

float number(uint64_t seed, uint32_t what, uint32_t entry, int head, int i) {
  Numbers numbers(seed * 1000003 + what * 101 + entry * 7919 + static_cast<uint32_t>(head) * 37 +
                  static_cast<uint32_t>(i) * 104729);
  numbers.next();
  return to_float(to_bfloat16(2.0f * numbers.next()));
}
enum What : uint32_t { kQ, kK, kV };

// A row of K or V as the cache gives it back.
std::vector<float> kept(const Model& model, uint64_t seed, What what, uint32_t entry, int head) {
  std::vector<float> row;
  for (int i = 0; i < model.head_dim; ++i) row.push_back(number(seed, what, entry, head, i));
  if (!is_quantised(model.cache)) return row;
  const DType dtype = model.cache == CacheType::i8 ? DType::i8 : DType::i4;
  std::vector<std::byte> bytes(kv_row_bytes(dtype, static_cast<uint32_t>(model.head_dim)));
  write_kv_row(dtype, row, bytes.data());
  read_kv_row(dtype, bytes.data(), row);
  return row;
}

float slope(int head) {
  return 0.02f * static_cast<float>(head + 1);
}

float sink(int head) {
  return 0.3f * static_cast<float>(head) - 0.5f;
}

struct How {
  uint32_t block_tokens = 16;
  uint64_t seed = 1;
  AttentionWays ways = {};
};

// Output rows of all sequences, [rows][heads · head_dim].
using Rows = std::vector<std::vector<float>>;

// The cache and the batch of a step. After what sequences store there is NaN.
class Step {
 public:
  Step(const Model& model, const std::vector<Sequence>& sequences, const How& how)
      : model_(model), how_(how), device_(how.seed) {
    uint32_t blocks = 0;
    for (const Sequence& s : sequences) blocks += s.entries / how.block_tokens + 1;
    const uint64_t plane = uint64_t{blocks} * how.block_tokens * model.kv_heads * model.head_dim;
    k_.assign(plane, NAN);
    v_.assign(plane, NAN);
    uint32_t next = 0;
    for (const Sequence& s : sequences) {
      std::vector<BlockId>& table = tables_.emplace_back();
      for (uint32_t i = 0; i <= (s.entries - 1) / how.block_tokens; ++i) {
        table.push_back(static_cast<BlockId>(blocks - 1 - next++));
      }
      add(s, table);
    }
    for (const auto& table : tables_) views_.emplace_back().blocks = table;
  }

  Rows run() {
    BatchView batch;
    const BatchGroup group{slots_, kv_tokens_, views_};
    batch.rows = static_cast<uint32_t>(slots_.size());
    batch.sequences = sequences_;
    batch.groups = {&group, 1};
    batch.tree_parents = parents_;
    const AttentionPlanArrays plan =
        plan_attention(batch, 0, group_of(model_), how_.block_tokens, model_.heads, how_.ways);
    return launch_plan(plan, batch.rows);
  }

 private:
  static KvGroup group_of(const Model& model) {
    KvGroup group;
    group.kind = model.v_dim == 0 ? KvKind::attention : KvKind::latent;
    group.kv_heads = static_cast<uint32_t>(model.kv_heads);
    group.window_tokens = model.window;
    return group;
  }

  void add(const Sequence& s, const std::vector<BlockId>& table) {
    BatchSequence& added = sequences_.emplace_back();
    added.first_row = static_cast<uint32_t>(slots_.size());
    added.rows = s.rows;
    kv_tokens_.push_back(s.entries);
    // What no row sees is not there: its block may be gone.
    const uint32_t seen = first_visible(s.entries - s.rows, model_.window);
    for (uint32_t entry = seen; entry < s.entries; ++entry) {
      for (int head = 0; head < model_.kv_heads; ++head) {
        for (int i = 0; i < model_.head_dim; ++i) {
          const uint64_t block = static_cast<uint64_t>(table[entry / how_.block_tokens]);
          const uint64_t at =
              ((block * model_.kv_heads + head) * how_.block_tokens + entry % how_.block_tokens) *
                  model_.head_dim +
              i;
          k_[at] = number(s.seed, kK, s.place(entry), head, i);
          v_[at] = number(s.seed, kV, s.place(entry), head, i);
        }
      }
    }
    for (uint32_t entry = s.entries - s.rows; entry < s.entries; ++entry) {
      slots_.push_back(entry);
      const uint32_t place = s.place(entry);
      for (int head = 0; head < model_.heads; ++head) {
        for (int i = 0; i < model_.head_dim; ++i) q_.push_back(number(s.seed, kQ, place, head, i));
      }
    }
    for (uint32_t row = 0; row < s.rows; ++row) {
      const int32_t before = static_cast<int32_t>(row) - 1;
      const int32_t parent = s.parents.empty() ? before : s.parents[row];
      parents_.push_back(parent < 0 ? -1 : parent + static_cast<int32_t>(added.first_row));
    }
  }

  const void* upload_plane(const std::vector<float>& plane, const char* name) {
    if (model_.cache == CacheType::f32) return device_.upload(plane, name);
    if (model_.cache == CacheType::bf16) return device_.upload(rounded(plane), name);
    const DType dtype = model_.cache == CacheType::i8 ? DType::i8 : DType::i4;
    const auto dim = static_cast<size_t>(model_.head_dim);
    const uint64_t row_bytes = kv_row_bytes(dtype, static_cast<uint32_t>(dim));
    std::vector<std::byte> rows(plane.size() / dim * row_bytes);
    for (size_t row = 0; row < plane.size() / dim; ++row) {
      write_kv_row(dtype, {&plane[row * dim], dim}, &rows[row * row_bytes]);
    }
    return device_.upload(rows, name);
  }

  Rows launch_plan(const AttentionPlanArrays& plan, uint32_t rows) {
    const uint64_t width = static_cast<uint64_t>(model_.heads) * model_.values();
    std::vector<float> sinks, slopes;
    for (int head = 0; head < model_.heads; ++head) {
      sinks.push_back(sink(head));
      slopes.push_back(slope(head));
    }
    AttentionArrays arrays = {};
    arrays.q = device_.upload(q_, "q");
    arrays.k = upload_plane(k_, "k");
    arrays.v = model_.v_dim == 0 ? upload_plane(v_, "v") : arrays.k;
    arrays.sequences = device_.upload(plan.sequences, "sequences");
    arrays.tiles = device_.upload(plan.tiles, "tiles");
    arrays.slots = device_.upload(plan.slots, "slots");
    arrays.row_sequence = device_.upload(plan.row_sequence, "row_sequence");
    if (!plan.parents.empty()) arrays.parents = device_.upload(plan.parents, "parents");
    arrays.tables = device_.upload(plan.tables, "tables");
    arrays.sinks = model_.sinks ? device_.upload(sinks, "sinks") : nullptr;
    arrays.slopes = model_.slopes ? device_.upload(slopes, "slopes") : nullptr;
    arrays.first_ranges = device_.upload(plan.first_ranges, "first_ranges");
    if (plan.ranges > 0) {
      arrays.split_rows = device_.upload(plan.split_rows, "split_rows");
      const int stride = attention_value_stride(model_.values());
      arrays.partial = device_.make<float>(plan.ranges * model_.heads * stride, "partial");
      arrays.sums = device_.make<float>(2 * plan.ranges * model_.heads, "sums");
    }
    float* out = device_.make<float>(rows * width, "out");
    arrays.out = out;
    AttentionShape shape = {};
    shape.cache = {model_.cache, model_.kv_heads, model_.head_dim,
                   static_cast<int>(how_.block_tokens)};
    shape.v_dim = model_.values();
    shape.out_type = Input::f32;
    shape.out_head_stride = model_.values();
    shape.out_stride = static_cast<int>(width);
    shape.heads = model_.heads;
    plan.describe(shape);
    shape.window = model_.window;
    shape.scale = 0.1f;
    shape.cap = model_.cap;
    EXPECT_EQ(launch_attention(nullptr, arrays, shape), 0);
    const std::vector<float> all = device_.download(out, rows * width);
    Rows result;
    for (uint32_t row = 0; row < rows; ++row) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(row * width);
      result.emplace_back(first, first + static_cast<ptrdiff_t>(width));
    }
    return result;
  }

  Model model_;
  How how_;
  EmulatedDevice device_;
  std::vector<float> q_, k_, v_;
  std::vector<uint32_t> slots_, kv_tokens_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<KvTableView> views_;
  std::vector<BatchSequence> sequences_;
  std::vector<int32_t> parents_;
};

Rows attend(const Model& model, const std::vector<Sequence>& sequences, const How& how = {}) {
  return Step(model, sequences, how).run();
}

// The formula of <tenon/attention.h> in double.
std::vector<double> expected_row(const Model& model, const Sequence& s, uint32_t entry) {
  std::vector<double> out;
  for (int head = 0; head < model.heads; ++head) {
    const int kv_head = head / (model.heads / model.kv_heads);
    std::map<uint32_t, double> scores;
    double largest = model.sinks ? sink(head) : -INFINITY;
    for (uint32_t p = first_visible(entry, model.window); p <= entry; ++p) {
      const std::vector<float> key = kept(model, s.seed, kK, p, kv_head);
      double score = 0.0;
      for (int i = 0; i < model.head_dim; ++i) {
        score += double{number(s.seed, kQ, entry, head, i)} * key[i];
      }
      score *= 0.1f;
      if (model.cap > 0.0f) score = model.cap * std::tanh(score / model.cap);
      if (model.slopes) score += slope(head) * (static_cast<double>(p) - entry);
      scores[p] = score;
      largest = std::max(largest, score);
    }
    double sum = model.sinks ? std::exp(sink(head) - largest) : 0.0;
    std::vector<double> values(static_cast<size_t>(model.values()), 0.0);
    for (const auto& [p, score] : scores) {
      const double weight = std::exp(score - largest);
      const std::vector<float> own = kept(model, s.seed, model.v_dim == 0 ? kV : kK, p, kv_head);
      sum += weight;
      for (int i = 0; i < model.values(); ++i) {
        values[i] += weight * own[i];
      }
    }
    for (const double x : values) out.push_back(x / sum);
  }
  return out;
}

void expect_formula(const Model& model, const std::vector<Sequence>& sequences,
                    const How& how = {}) {
  SCOPED_TRACE("head_dim " + std::to_string(model.head_dim) + ", heads " +
               std::to_string(model.heads) + "/" + std::to_string(model.kv_heads));
  const Rows rows = attend(model, sequences, how);
  const double tolerance = model.cache == CacheType::f32 ? 2e-5 : 2e-2;
  size_t row = 0;
  for (const Sequence& s : sequences) {
    for (uint32_t entry = s.entries - s.rows; entry < s.entries; ++entry, ++row) {
      const std::vector<double> expected = expected_row(model, s, entry);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(rows[row][i], expected[i], tolerance) << "entry " << entry << ", number " << i;
      }
    }
  }
}

TEST(CudaAttention, follows_the_formula_for_every_width_of_heads) {
  for (const int head_dim : {64, 80, 96, 128, 256}) {
    for (const CacheType cache : {CacheType::bf16, CacheType::f32}) {
      expect_formula({.cache = cache, .head_dim = head_dim, .heads = 2, .kv_heads = 1},
                     {{37, 1, 1}, {5, 5, 2}});
    }
  }
}

TEST(CudaAttention, lets_query_heads_share_heads_of_the_cache) {
  for (const int group : {1, 3, 7, 16}) {
    expect_formula({.heads = 2 * group, .kv_heads = 2}, {{20, 3, 1}, {33, 1, 2}});
  }
}

TEST(CudaAttention, knows_windows_caps_sinks_and_slopes) {
  for (const CacheType cache : {CacheType::bf16, CacheType::f32}) {
    expect_formula({.cache = cache, .window = 7}, {{45, 6, 1}, {3, 2, 2}});
    expect_formula({.cache = cache, .cap = 0.7f}, {{21, 3, 1}});
    expect_formula({.cache = cache, .sinks = true}, {{21, 3, 1}, {1, 1, 2}});
    expect_formula({.cache = cache, .heads = 6, .slopes = true}, {{45, 3, 1}, {1, 1, 2}});
  }
}

TEST(CudaAttention, adds_up_the_ranges_of_long_sequences) {
  for (const CacheType cache : {CacheType::bf16, CacheType::f32}) {
    const Model model{.cache = cache, .head_dim = 64, .heads = 1, .kv_heads = 1};
    expect_formula(model, {{kSplitEntries + 40, 2, 1}, {9, 1, 2}}, {.block_tokens = 64});
    expect_formula({.cache = cache, .heads = 1, .kv_heads = 1, .window = 50, .sinks = true},
                   {{2 * kSplitEntries + 20, 1, 1}}, {.block_tokens = 64});
  }
}

TEST(CudaAttention, reads_values_inside_of_keys) {
  for (const CacheType cache : {CacheType::bf16, CacheType::f32}) {
    expect_formula({.cache = cache, .head_dim = 576, .v_dim = 512, .heads = 3, .kv_heads = 1},
                   {{70, 3, 1}, {5, 5, 2}});
    expect_formula({.cache = cache, .head_dim = 28, .v_dim = 20, .heads = 3, .kv_heads = 1},
                   {{21, 3, 1}});
  }
  expect_formula({.head_dim = 576, .v_dim = 512, .heads = 20, .kv_heads = 1, .window = 40},
                 {{kSplitEntries + 33, 1, 1}}, {.block_tokens = 64});
}

TEST(CudaAttention, gives_rows_of_latent_attention_the_same_bits_in_any_chunks_and_batch) {
  const Model model{.head_dim = 576, .v_dim = 512, .heads = 3, .kv_heads = 1};
  const Rows whole = attend(model, {{40, 12, 3}});
  const Rows among = attend(model, {{17, 1, 8}, {40, 12, 3}}, {.block_tokens = 3, .seed = 5});
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), among.begin() + 1));
  Rows chunks = attend(model, {{33, 5, 3}}, {.seed = 2});
  for (const auto& row : attend(model, {{40, 7, 3}}, {.seed = 3})) chunks.push_back(row);
  EXPECT_EQ(chunks, whole);
}

TEST(CudaAttention, reads_rows_of_8_and_4_bits) {
  for (const CacheType cache : {CacheType::i8, CacheType::i4}) {
    for (const int head_dim : {64, 128, 20, 7}) {
      expect_formula({.cache = cache, .head_dim = head_dim, .heads = 4, .kv_heads = 2},
                     {{37, 2, 1}, {5, 5, 2}});
    }
    expect_formula({.cache = cache, .window = 7, .sinks = true}, {{45, 20, 1}});
    expect_formula({.cache = cache, .head_dim = 576, .v_dim = 512, .heads = 3, .kv_heads = 1},
                   {{40, 2, 1}});
  }
}

class CudaAttentionBitsTest : public testing::TestWithParam<CacheType> {
 protected:
  Model model() const { return {.cache = GetParam(), .window = 30}; }
  const Sequence whole_ = {45, 40, 3};
};
std::string cache_name(const testing::TestParamInfo<CacheType>& info) {
  return std::vector<std::string>{"f32", "bf16", "i8", "i4"}[static_cast<size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Caches, CudaAttentionBitsTest,
                         testing::Values(CacheType::f32, CacheType::bf16, CacheType::i8,
                                         CacheType::i4),
                         cache_name);

TEST_P(CudaAttentionBitsTest, are_the_same_for_blocks_of_any_size) {
  const Rows expected = attend(model(), {whole_});
  for (const uint32_t block_tokens : {1u, 3u, 64u}) {
    EXPECT_EQ(attend(model(), {whole_}, {.block_tokens = block_tokens, .seed = block_tokens}),
              expected)
        << block_tokens;
  }
}

TEST_P(CudaAttentionBitsTest, are_the_same_among_other_sequences) {
  const Rows expected = attend(model(), {whole_});
  const Rows all = attend(model(), {{17, 1, 8}, whole_, {60, 13, 9}}, {.seed = 5});
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + 1));
}

TEST_P(CudaAttentionBitsTest, are_the_same_however_a_prompt_is_cut) {
  const Rows expected = attend(model(), {whole_});
  for (const uint32_t chunk : {1u, 7u}) {
    Rows rows;
    for (uint32_t entry = 5; entry < 45; entry += chunk) {
      const uint32_t end = std::min(entry + chunk, 45u);
      for (auto& row : attend(model(), {{end, end - entry, 3}}, {.seed = end})) rows.push_back(row);
    }
    EXPECT_EQ(rows, expected) << chunk;
  }
}

// The ways of a row: side by side, along the ranges with few items, and with many.
constexpr AttentionWays kBesideEachOther = {.wide_items = 1 << 20};
constexpr AttentionWays kWalkedWithFew = {.most_ranges = 0, .wide_items = 1 << 20};
constexpr AttentionWays kWalkedWithMany = {.wide_items = 1};

TEST_P(CudaAttentionBitsTest, of_hundreds_of_ranges_are_the_same_whichever_way_they_are_computed) {
  const Model plain{.cache = GetParam(), .heads = 1, .kv_heads = 1};
  const Sequence longest = {130 * kSplitEntries + 9, 2, 6};
  const Rows expected = attend(plain, {longest}, {.block_tokens = 64, .ways = kBesideEachOther});
  EXPECT_EQ(attend(plain, {longest}, {.block_tokens = 64, .ways = kWalkedWithFew}), expected);
  EXPECT_EQ(attend(plain, {longest}, {.block_tokens = 64, .ways = kWalkedWithMany}), expected);
}

TEST_P(CudaAttentionBitsTest, are_the_same_whichever_way_ranges_are_computed) {
  for (const int head_dim : {64, 80, 256}) {
    const Model plain{.cache = GetParam(), .head_dim = head_dim, .sinks = true};
    const Sequence long_one = {3 * kSplitEntries + 9, 70, 6};
    const Rows expected = attend(plain, {long_one}, {.ways = kBesideEachOther});
    EXPECT_EQ(attend(plain, {long_one}, {.seed = 2, .ways = kWalkedWithFew}), expected);
    EXPECT_EQ(attend(plain, {long_one}, {.seed = 3, .ways = kWalkedWithMany}), expected);
  }
  for (const uint32_t window : {1u, 30u, 100u}) {
    const Model model{.cache = GetParam(), .window = window, .cap = 0.8f, .slopes = true};
    const Sequence sequence = {2 * kSplitEntries + 40, 75, 6};
    const Rows expected = attend(model, {sequence}, {.ways = kBesideEachOther});
    EXPECT_EQ(attend(model, {sequence}, {.seed = 2, .ways = kWalkedWithFew}), expected);
    EXPECT_EQ(attend(model, {sequence}, {.seed = 3, .ways = kWalkedWithMany}), expected);
  }
}

// Twelve rows of three roots after `before` entries.
Sequence a_tree(uint32_t before, uint64_t seed) {
  Sequence tree{before + 12, 12, seed};
  for (uint32_t row = 0; row < tree.rows; ++row) tree.places.push_back(5000 + row * 3);
  tree.parents = {-1, 0, 0, 2, 1, -1, 5, 4, 3, 8, -1, 7};
  return tree;
}

// The rows that lead to a tree's row, and itself, as rows that follow each other.
Sequence path_to(const Sequence& tree, int32_t row) {
  std::vector<uint32_t> places;
  for (int32_t at = row; at >= 0; at = tree.parents[static_cast<size_t>(at)]) {
    places.insert(places.begin(), tree.places[static_cast<size_t>(at)]);
  }
  const auto rows = static_cast<uint32_t>(places.size());
  return {tree.entries - tree.rows + rows, rows, tree.seed, places};
}

void expect_paths(const Model& model, const Sequence& tree, const Rows& rows, size_t first = 0) {
  for (uint32_t row = 0; row < tree.rows; ++row) {
    const Rows chain = attend(model, {path_to(tree, static_cast<int32_t>(row))},
                              {.block_tokens = 64, .seed = row});
    EXPECT_EQ(rows[first + row], chain.back()) << "row " << row;
  }
}

TEST_P(CudaAttentionBitsTest, of_a_trees_row_are_those_of_its_path) {
  const Model plain{.cache = GetParam(), .heads = 2, .kv_heads = 1};
  for (const uint32_t before : {0u, 31u, kSplitEntries - 2}) {
    SCOPED_TRACE(before);
    const Sequence tree = a_tree(before, 4);
    expect_paths(plain, tree, attend(plain, {tree}, {.block_tokens = before == 31 ? 5u : 64u}));
  }
}

TEST_P(CudaAttentionBitsTest, of_a_trees_row_are_those_of_its_path_with_windows_and_more) {
  const Sequence tree = a_tree(70, 9);
  for (const uint32_t window : {3u, 30u}) {
    const Model windowed{.cache = GetParam(), .window = window, .cap = 0.9f, .sinks = true};
    expect_paths(windowed, tree, attend(windowed, {tree}, {.seed = window}));
  }
  const Model slopes{.cache = GetParam(), .heads = 5, .kv_heads = 1, .slopes = true};
  expect_paths(slopes, tree, attend(slopes, {tree}));
  expect_paths(slopes, tree, attend(slopes, {tree}, {.ways = kWalkedWithFew}));
}

TEST_P(CudaAttentionBitsTest, of_trees_are_the_same_among_prompts_and_other_trees) {
  const Sequence tree = a_tree(40, 6);
  const Model heads{.cache = GetParam(), .heads = 4, .kv_heads = 1};
  const Rows all =
      attend(heads, {{60, 25, 2}, tree, {9, 1, 3}, a_tree(3, 8)}, {.block_tokens = 7, .seed = 3});
  expect_paths(heads, tree, all, 25);
  const Rows prompt = attend(heads, {{60, 25, 2}});
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), all.begin()));
  EXPECT_EQ(all[37], attend(heads, {{9, 1, 3}})[0]);
}

TEST_P(CudaAttentionBitsTest, of_a_trees_row_are_those_of_its_path_in_latent_attention) {
  const Model latent{.cache = GetParam(), .head_dim = 576, .v_dim = 512, .heads = 5, .kv_heads = 1};
  const Sequence tree = a_tree(30, 4);
  expect_paths(latent, tree, attend(latent, {tree}));
}

TEST_P(CudaAttentionBitsTest, are_the_same_where_others_are_longer) {
  const Model plain{.cache = GetParam(), .heads = 1, .kv_heads = 1};
  const Rows all = attend(plain, {{30, 2, 4}, {kSplitEntries + 3, 1, 5}}, {.block_tokens = 64});
  const Rows alone = attend(plain, {{30, 2, 4}});
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin()));
}

}  // namespace
}  // namespace tenon::cuda::test
