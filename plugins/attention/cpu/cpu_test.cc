#include <gtest/gtest.h>
#include <tenon/attention.h>
#include <tenon/sdk/half.h>
#include <tenon/sdk/random.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

float random_value(uint64_t seed, uint64_t index) {
  const auto bits =
      sdk::philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0}, seed);
  return static_cast<float>(static_cast<double>(bits[0]) * 0x1.0p-31 - 1.0);
}

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::i8, DType::i4};

float bf16(float value) {
  return sdk::bf16_to_float(sdk::float_to_bf16(value));
}

// What <tenon/attention.h> says comes back when `row` was stored, in double precision.
std::vector<double> read_back(DType dtype, const std::vector<float>& row) {
  std::vector<double> out(row.begin(), row.end());
  const auto [lowest, highest] = std::minmax_element(row.begin(), row.end());
  if (dtype == DType::f16) {
    for (double& x : out) x = sdk::f16_to_float(sdk::float_to_f16(static_cast<float>(x)));
  } else if (dtype == DType::bf16) {
    for (double& x : out) x = bf16(static_cast<float>(x));
  } else if (dtype == DType::i8) {
    const double scale = bf16(std::max(-*lowest, *highest) / 127.0f);
    for (double& x : out) {
      x = scale == 0 ? 0 : scale * std::clamp(std::nearbyint(x / scale), -127.0, 127.0);
    }
  } else if (dtype == DType::i4) {
    float least = bf16(*lowest);
    while (least > *lowest) {
      least = sdk::bf16_to_float(
          static_cast<uint16_t>(sdk::float_to_bf16(least) + (least > 0 ? -1 : 1)));
    }
    const double scale = bf16((*highest - least) / 15.0f);
    for (double& x : out) {
      x = scale == 0 ? least
                     : least + scale * std::clamp(std::nearbyint((x - least) / scale), 0.0, 15.0);
    }
  }
  return out;
}

struct Shape {
  uint32_t kv_heads = 2;
  uint32_t group = 2;  // query heads a KV head
  uint32_t head_dim = 64;
  uint32_t block_tokens = 16;
  DType dtype = DType::f32;
  uint32_t window_tokens = 0;
  float soft_cap = 0;
  std::vector<float> sinks = {};  // [query heads]; empty = none
  uint32_t v_dim = 0;             // 0 = head_dim
  uint32_t context_tokens = 2048;
  bool slopes = false;  // 1/2, 1/4, … of the heads
  uint32_t values_dim() const { return v_dim == 0 ? head_dim : v_dim; }
  uint32_t query_heads() const { return kv_heads * group; }
};

// One layer of attention over a cache whose every unused slot is NaN. Sequence s consists of
// tokens 0, 1, … whose q, k and v follow from (s, token) alone.
class Rig {
 public:
  Rig(const Shape& shape, CpuFeatures isa, uint32_t sequences = 1, uint32_t plan_slices = 2)
      : shape_(shape) {
    host_.facts.cpu = isa;
    kernel_ = std::make_unique<PluginInstance<AttentionKernel>>("cpu", host_);
    group_.layers = 1;
    group_.kv_heads = shape.kv_heads;
    group_.k_dim = shape.head_dim;
    group_.v_dim = shape.values_dim();
    group_.window_tokens = shape.window_tokens;
    layer_.query_heads = shape.query_heads();
    layer_.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    layer_.soft_cap = shape.soft_cap;
    for (uint32_t head = 0; head < shape.query_heads(); ++head) {
      slopes_.push_back(std::ldexp(1.0f, -1 - static_cast<int>(head % 8)));
    }
    layer_.alibi_slopes = shape.slopes ? slopes_.data() : nullptr;
    if (!shape.sinks.empty()) layer_.sinks = shape_.sinks.data();
    model_.layer_count = 1;
    model_.context_tokens = shape.context_tokens;
    model_.group_count = 1;
    model_.groups = &group_;
    model_.layers = &layer_;
    const uint32_t blocks_each =
        (shape.context_tokens + shape.block_tokens - 1) / shape.block_tokens;
    const uint32_t blocks = blocks_each * sequences + 1;
    planes_.k = plane(shape.head_dim, blocks, k_bytes_);
    planes_.v = plane(shape.values_dim(), blocks, v_bytes_);
    storage_.dtype = shape.dtype;
    storage_.block_tokens = shape.block_tokens;
    storage_.layers = {&planes_, 1};
    const Status status = (*kernel_)->bind(binding(sequences, plan_slices));
    EXPECT_TRUE(status.ok()) << status.message();
    workspace_.assign((*kernel_)->workspace_bytes(0) + 64, std::byte{0xff});
    plan_.assign((*kernel_)->plan_bytes(0) + 64 + kGuard, kUntouched);
    for (uint32_t s = 0; s < sequences; ++s) {
      std::vector<BlockId> table(blocks_each);
      std::iota(table.begin(), table.end(), static_cast<BlockId>(s * blocks_each));
      tables_.push_back(table);
    }
  }

  AttentionKernel& kernel() { return **kernel_; }
  std::vector<BlockId>& table(uint32_t sequence) { return tables_[sequence]; }

  struct Chunk {
    uint32_t sequence;
    uint32_t first_token;
    uint32_t tokens;
  };
  AttentionBinding binding(uint32_t sequences, uint32_t slices) {
    static constexpr GroupId kGroups[] = {0};
    return {.model = &model_,
            .groups = kGroups,
            .storage = {&storage_, 1},
            .max_rows = shape_.context_tokens,
            .max_sequences = sequences,
            .slices = slices,
            .space = {}};
  }
  // One step; returns out [rows][query_heads][v_dim].
  std::vector<float> step(const std::vector<Chunk>& chunks, uint32_t slices = 1) {
    Batch batch(*this, chunks);
    run(batch, batch.all, slices);
    return batch.out;
  }
  // One step of rows that form trees, one chunk's rows each: row i of the batch is its sequence's
  // token tokens[i], and follows parents[i].
  struct Tree {
    std::vector<Chunk> chunks;
    std::vector<uint32_t> tokens;
    std::vector<int32_t> parents;
  };
  std::vector<float> step(const Tree& tree, uint32_t slices = 1) {
    Batch batch(*this, tree.chunks, tree.tokens);
    batch.view.tree_parents = tree.parents;
    run(batch, batch.all, slices);
    return batch.out;
  }
  // A step of which this kernel computes some sequences alone; other rows of `out` stay NaN.
  std::vector<float> step_of(const std::vector<Chunk>& chunks,
                             const std::vector<uint32_t>& sequences, uint32_t slices = 1) {
    Batch batch(*this, chunks);
    run(batch, sequences, slices);
    return batch.out;
  }
  // A step in which each row sees up to the row of the batch that `sees_to` names.
  std::vector<float> step_seeing(const std::vector<Chunk>& chunks,
                                 const std::vector<uint32_t>& sees_to) {
    Batch batch(*this, chunks);
    batch.view.sees_to = sees_to;
    run(batch, batch.all, 2);
    return batch.out;
  }
  Status try_plan(const std::vector<Chunk>& chunks, std::span<const int32_t> parents = {}) {
    Batch batch(*this, chunks);
    batch.view.tree_parents = parents;
    KernelPlanOut out;
    return kernel().plan({0, &batch.view, batch.all, aligned(plan_)}, out);
  }

  // Attention of one token in double precision, over K and V rounded to the cache's type.
  std::vector<double> reference(uint32_t sequence, uint32_t token) const {
    const uint32_t dim = shape_.head_dim;
    const uint32_t v_dim = shape_.values_dim();
    std::vector<double> out;
    const uint32_t first = shape_.window_tokens != 0 && token + 1 > shape_.window_tokens
                               ? token + 1 - shape_.window_tokens
                               : 0;
    for (uint32_t head = 0; head < shape_.query_heads(); ++head) {
      std::vector<double> weights;
      for (uint32_t p = first; p <= token; ++p) {
        const std::vector<double> row = cached(&k, sequence, p, head / shape_.group, dim);
        double score = 0;
        for (uint32_t d = 0; d < dim; ++d) score += double{q(sequence, token, head, d)} * row[d];
        score *= layer_.scale;
        if (shape_.soft_cap != 0) score = shape_.soft_cap * std::tanh(score / shape_.soft_cap);
        if (shape_.slopes)
          score += slopes_[head] * (static_cast<double>(p) - static_cast<double>(token));
        weights.push_back(score);
      }
      double largest = *std::max_element(weights.begin(), weights.end());
      if (layer_.sinks != nullptr) largest = std::max<double>(largest, layer_.sinks[head]);
      double total = layer_.sinks != nullptr ? std::exp(layer_.sinks[head] - largest) : 0.0;
      for (double& weight : weights) total += weight = std::exp(weight - largest);
      std::vector<double> sums(v_dim);
      for (uint32_t p = first; p <= token; ++p) {
        const std::vector<double> row = cached(&v, sequence, p, head / shape_.group, v_dim);
        for (uint32_t d = 0; d < v_dim; ++d) sums[d] += weights[p - first] * row[d];
      }
      for (const double sum : sums) out.push_back(sum / total);
    }
    return out;
  }

  // Entry `from` of a sequence's table becomes entry `to`, as a KV manager's moves do it.
  void move(uint32_t sequence, uint32_t from, uint32_t to) {
    for (const KvPlane& plane : {planes_.k, planes_.v}) {
      const auto at = [&](uint32_t entry) {
        const auto block = static_cast<uint64_t>(tables_[sequence][entry / shape_.block_tokens]);
        return plane.base + block * plane.block_bytes +
               entry % shape_.block_tokens * plane.token_bytes;
      };
      for (uint32_t head = 0; head < shape_.kv_heads; ++head) {
        std::memcpy(at(to) + head * plane.head_bytes, at(from) + head * plane.head_bytes,
                    plane.token_bytes);
      }
    }
  }

  void flatten_slopes() { std::fill(slopes_.begin(), slopes_.end(), 0.0f); }

  uint32_t row_floats() const { return shape_.query_heads() * shape_.values_dim(); }
  // V of one token, in all heads, from now on.
  void give(uint32_t sequence, uint32_t token, std::vector<float> row) {
    given_at_ = {sequence, token};
    given_ = std::move(row);
  }
  void poison(uint32_t sequence, uint32_t token) {
    give(sequence, token, std::vector<float>(shape_.values_dim(), NAN));
  }

 private:
  struct Batch {
    std::vector<uint32_t> slots;
    std::vector<uint32_t> kv_tokens;
    std::vector<uint32_t> all;  // indices of the sequences
    std::vector<TokenId> tokens;
    std::vector<BatchSequence> sequences;
    std::vector<KvTableView> tables;
    std::vector<float> q, k, v, out;
    BatchGroup group;
    BatchView view;

    // Row i is token `named[i]`, or the one that its slot says.
    Batch(Rig& rig, const std::vector<Chunk>& chunks, const std::vector<uint32_t>& named = {}) {
      for (const Chunk& chunk : chunks) {
        all.push_back(static_cast<uint32_t>(all.size()));
        tables.emplace_back().blocks = rig.tables_[chunk.sequence];
        kv_tokens.push_back(chunk.first_token + chunk.tokens);
        BatchSequence sequence;
        sequence.seq = chunk.sequence;
        sequence.first_row = static_cast<uint32_t>(slots.size());
        sequence.rows = chunk.tokens;
        sequences.push_back(sequence);
        for (uint32_t i = 0; i < chunk.tokens; ++i) {
          const uint32_t token = named.empty() ? chunk.first_token + i : named[slots.size()];
          slots.push_back(chunk.first_token + i);
          rig.append(chunk.sequence, token, *this);
        }
      }
      tokens.resize(slots.size());
      out.resize(slots.size() * rig.row_floats(), NAN);
      group = {slots, kv_tokens, tables};
      view.rows = view.padded_rows = static_cast<uint32_t>(slots.size());
      view.padded_sequences = static_cast<uint32_t>(sequences.size());
      view.tokens = tokens;
      view.sequences = sequences;
      view.groups = {&group, 1};
    }
  };

  void run(Batch& batch, const std::vector<uint32_t>& sequences, uint32_t slices) {
    KernelPlanOut out;
    Status status = kernel().plan({0, &batch.view, sequences, aligned(plan_)}, out);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_LE(out.plan_bytes, kernel().plan_bytes(0));
    const auto behind = static_cast<std::byte*>(aligned(plan_)) + kernel().plan_bytes(0);
    for (size_t i = 0; i < kGuard; ++i) ASSERT_EQ(behind[i], kUntouched) << "wrote behind its plan";
    const AttentionCall call{.layer = 0,
                             .q = batch.q.data(),
                             .k = batch.k.data(),
                             .v = batch.v.data(),
                             .out = batch.out.data(),
                             .plan = aligned(plan_),
                             .workspace = aligned(workspace_),
                             .padded_rows = batch.view.rows,
                             .padded_sequences = batch.view.padded_sequences};
    for (uint32_t phase = 0; phase < out.phases; ++phase) {
      for (uint32_t i = slices; i-- > 0;) {
        status = kernel().run(call, phase, {i, slices});
        EXPECT_TRUE(status.ok()) << status.message();
      }
    }
  }

  void append(uint32_t sequence, uint32_t token, Batch& batch) const {
    for (uint32_t head = 0; head < shape_.query_heads(); ++head) {
      for (uint32_t d = 0; d < shape_.head_dim; ++d) {
        batch.q.push_back(q(sequence, token, head, d));
      }
    }
    for (uint32_t head = 0; head < shape_.kv_heads; ++head) {
      for (uint32_t d = 0; d < shape_.head_dim; ++d) {
        batch.k.push_back(k(sequence, token, head, d));
      }
      for (uint32_t d = 0; d < shape_.values_dim(); ++d) {
        const bool given = given_at_ == std::pair(sequence, token);
        batch.v.push_back(given ? given_[d] : v(sequence, token, head, d));
      }
    }
  }

  static uint64_t key(uint32_t sequence, uint32_t token, uint32_t head, uint32_t d) {
    return ((uint64_t{sequence} * 8192 + token) * 64 + head) * 256 + d;
  }
  static float q(uint32_t s, uint32_t t, uint32_t h, uint32_t d) {
    return 4 * random_value(1, key(s, t, h, d));
  }
  static float k(uint32_t s, uint32_t t, uint32_t h, uint32_t d) {
    return random_value(2, key(s, t, h, d));
  }
  static float v(uint32_t s, uint32_t t, uint32_t h, uint32_t d) {
    return random_value(3, key(s, t, h, d));
  }
  std::vector<double> cached(float (*value)(uint32_t, uint32_t, uint32_t, uint32_t), uint32_t s,
                             uint32_t t, uint32_t h, uint32_t dim) const {
    std::vector<float> row(dim);
    for (uint32_t d = 0; d < dim; ++d) row[d] = value(s, t, h, d);
    return read_back(shape_.dtype, row);
  }

  KvPlane plane(uint32_t dim, uint32_t blocks, std::vector<std::byte>& bytes) const {
    KvPlane made;
    made.token_bytes = kv_row_bytes(shape_.dtype, dim);
    made.head_bytes = made.token_bytes * shape_.block_tokens;
    made.block_bytes = made.head_bytes * shape_.kv_heads;
    bytes.assign(made.block_bytes * blocks, std::byte{0xff});  // NaN, or with the scale NaN
    made.base = bytes.data();
    return made;
  }
  static void* aligned(std::vector<std::byte>& bytes) {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }

  Shape shape_;
  TestHost host_;
  std::unique_ptr<PluginInstance<AttentionKernel>> kernel_;
  KvGroup group_;
  LayerShape layer_;
  std::vector<float> slopes_;
  ModelShape model_;
  std::vector<std::byte> k_bytes_, v_bytes_;
  KvLayerStorage planes_;
  KvGroupStorage storage_;
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kUntouched{0x5a};
  std::vector<std::byte> workspace_, plan_;
  std::vector<std::vector<BlockId>> tables_;
  std::pair<uint32_t, uint32_t> given_at_{~0u, ~0u};
  std::vector<float> given_;
};

double relative_rms(const float* got, const std::vector<double>& want) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}
bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

class AttentionOnEveryIsa : public testing::TestWithParam<CpuFeatures> {
 protected:
  // A prompt at once, compared at some tokens with double precision.
  void expect_accurate(const Shape& shape, uint32_t tokens) {
    Rig rig(shape, GetParam());
    const auto out = rig.step({{0, 0, tokens}}, 2);
    for (uint32_t token : {0u, tokens / 3, tokens - 1}) {
      EXPECT_LE(relative_rms(&out[token * rig.row_floats()], rig.reference(0, token)), 1e-5)
          << "head_dim " << shape.head_dim << " group " << shape.group << " block "
          << shape.block_tokens << " token " << token << " of " << tokens << " "
          << dtype_name(shape.dtype) << " window " << shape.window_tokens;
    }
  }
  void expect_same_bits_for_chunks(const Shape& shape);
  void expect_same_bits_for_paths(const Shape& shape, uint32_t before);
};
void AttentionOnEveryIsa::expect_same_bits_for_chunks(const Shape& shape) {
  constexpr uint32_t kTokens = 1100;
  Rig whole(shape, GetParam());
  const auto all = whole.step({{0, 0, kTokens}});
  for (uint32_t chunk : {1u, 7u, 64u, 500u}) {
    Rig rig(shape, GetParam());
    for (uint32_t begin = 0; begin < kTokens; begin += chunk) {
      const uint32_t count = std::min(chunk, kTokens - begin);
      const auto out = rig.step({{0, begin, count}}, 1 + begin % 3);
      ASSERT_TRUE(same_bits(out.data(), &all[begin * rig.row_floats()], out.size()))
          << "chunk " << chunk << " at " << begin << " window " << shape.window_tokens << " "
          << dtype_name(shape.dtype) << " head_dim " << shape.head_dim;
    }
  }
}
// A tree of twelve rows of three roots, behind `before` tokens: each row has the bits that it has
// at the end of a chain of the rows that lead to it; so has what follows an accepted path.
void AttentionOnEveryIsa::expect_same_bits_for_paths(const Shape& shape, uint32_t before) {
  const std::vector<int32_t> parents = {-1, 0, 0, -1, 1, 1, 4, 2, 6, 3, 8, -1};
  const auto rows = static_cast<uint32_t>(parents.size());
  std::vector<uint32_t> tokens(rows);
  std::iota(tokens.begin(), tokens.end(), 3000u);
  Rig tree(shape, GetParam());
  Rig chain(shape, GetParam());
  const size_t row_floats = tree.row_floats();
  if (before > 0) {
    tree.step({{0, 0, before}});
    chain.step({{0, 0, before}});
  }
  const auto out = tree.step({{{0, before, rows}}, tokens, parents}, 2);
  for (uint32_t row = 0; row < rows; ++row) {
    std::vector<uint32_t> path;
    for (auto at = static_cast<int32_t>(row); at >= 0; at = parents[static_cast<size_t>(at)]) {
      path.insert(path.begin(), static_cast<uint32_t>(at) + 3000u);
    }
    const auto depth = static_cast<uint32_t>(path.size());
    const auto expected = chain.step({{{0, before, depth}}, path, {}});
    ASSERT_TRUE(same_bits(&out[row * row_floats], &expected[(depth - 1) * row_floats], row_floats))
        << "row " << row << " behind " << before << " " << dtype_name(shape.dtype) << " head_dim "
        << shape.head_dim << " block " << shape.block_tokens << " window " << shape.window_tokens;
  }
  const std::vector<uint32_t> accepted = {0, 1, 4, 6, 8, 10};
  for (uint32_t i = 0; i < accepted.size(); ++i) tree.move(0, before + accepted[i], before + i);
  chain.step({{{0, before, 6}}, {3000, 3001, 3004, 3006, 3008, 3010}, {}});
  const auto next = tree.step({{0, before + 6, 1}});
  const auto expected = chain.step({{0, before + 6, 1}});
  ASSERT_TRUE(same_bits(next.data(), expected.data(), row_floats)) << "behind the accepted path";
}
std::vector<CpuFeatures> distinct_isas() {
  std::vector<CpuFeatures> isas;
  for (CpuFeatures isa : runnable_isas()) {
    if (kCpuAvx512.has_all(isa)) isas.push_back(isa);
  }
  return isas;
}
INSTANTIATE_TEST_SUITE_P(Isa, AttentionOnEveryIsa, testing::ValuesIn(distinct_isas()),
                         [](const auto& given) { return std::string(cpu_isa_name(given.param)); });

TEST_P(AttentionOnEveryIsa, agrees_with_double_precision_for_every_head_size_and_type) {
  for (uint32_t head_dim : {1u, 8u, 16u, 32u, 37u, 64u, 80u, 96u, 127u, 128u, 256u}) {
    for (DType dtype : kTypes) {
      expect_accurate({.head_dim = head_dim, .dtype = dtype}, 70);
    }
  }
}

TEST_P(AttentionOnEveryIsa, agrees_with_double_precision_for_every_group_of_heads) {
  for (uint32_t group : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 12u, 13u, 100u}) {
    for (DType dtype : {DType::bf16, DType::i8, DType::i4}) {
      expect_accurate({.kv_heads = 1, .group = group, .head_dim = 32, .dtype = dtype}, 130);
    }
  }
}

TEST_P(AttentionOnEveryIsa, agrees_with_double_precision_around_block_tile_and_range_ends) {
  for (uint32_t block : {1u, 16u, 64u, 2048u}) {
    for (uint32_t tokens : {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 511u, 512u, 513u, 1100u}) {
      expect_accurate({.kv_heads = 1, .group = 1, .head_dim = 8, .block_tokens = block}, tokens);
    }
  }
}

TEST_P(AttentionOnEveryIsa, sinks_take_their_part_of_the_softmax) {
  // Far below all scores, among them, above them, and so far above that nothing else counts.
  const std::vector<float> sinks = {-300.0f, 0.5f, 9.0f, 400.0f};
  for (const uint32_t tokens : {1u, 40u, 513u, 1100u}) {
    expect_accurate({.head_dim = 24, .sinks = sinks}, tokens);
  }
  expect_accurate({.dtype = DType::bf16, .window_tokens = 40, .sinks = sinks}, 100);
  expect_accurate({.dtype = DType::i4, .soft_cap = 5.0f, .sinks = sinks}, 100);
}

TEST_P(AttentionOnEveryIsa, agrees_with_double_precision_with_windows_and_soft_caps) {
  for (uint32_t window : {1u, 5u, 64u, 100u, 600u}) {
    expect_accurate({.kv_heads = 1, .head_dim = 16, .window_tokens = window}, 700);
  }
  expect_accurate({.dtype = DType::f16, .soft_cap = 2.0f}, 100);
  expect_accurate({.dtype = DType::bf16, .window_tokens = 40, .soft_cap = 20.0f}, 100);
  expect_accurate({.dtype = DType::i8, .window_tokens = 40}, 100);
  expect_accurate({.dtype = DType::i4, .window_tokens = 40, .soft_cap = 20.0f}, 100);
  for (DType dtype : kTypes) {
    expect_accurate({.head_dim = 24, .dtype = dtype, .v_dim = 40}, 100);
    expect_accurate({.head_dim = 64, .dtype = dtype, .v_dim = 33}, 100);
  }
}

TEST_P(AttentionOnEveryIsa, slopes_weigh_the_distance_with_windows_and_caps_and_in_every_type) {
  for (const DType dtype : kTypes) {
    for (const uint32_t window : {0u, 90u}) {
      for (const float cap : {0.0f, 2.0f}) {
        const Shape shape{.kv_heads = 3,
                          .group = 3,
                          .head_dim = 20,
                          .dtype = dtype,
                          .window_tokens = window,
                          .soft_cap = cap,
                          .slopes = true};
        for (const uint32_t tokens : {1u, 65u, 700u}) expect_accurate(shape, tokens);
      }
    }
  }
}

TEST_P(AttentionOnEveryIsa, rows_with_slopes_have_the_same_bits_in_chunks_and_in_trees) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i4}) {
    const Shape shape{.kv_heads = 2, .group = 4, .head_dim = 24, .dtype = dtype, .slopes = true};
    expect_same_bits_for_chunks(shape);
    for (const uint32_t before : {0u, 59u, 507u}) expect_same_bits_for_paths(shape, before);
  }
}

TEST_P(AttentionOnEveryIsa, slopes_of_zero_change_no_bit) {
  const Shape plain{.kv_heads = 1, .group = 8, .head_dim = 32};
  Shape sloped = plain;
  sloped.slopes = true;
  Rig without(plain, GetParam());
  Rig with(sloped, GetParam());
  with.flatten_slopes();
  const auto expected = without.step({{0, 0, 100}});
  EXPECT_TRUE(same_bits(with.step({{0, 0, 100}}).data(), expected.data(), expected.size()));
}

TEST_P(AttentionOnEveryIsa, a_row_has_the_same_bits_however_the_prompt_is_cut) {
  for (DType dtype : kTypes) {
    for (uint32_t dim : {24u, 64u}) {
      expect_same_bits_for_chunks({.kv_heads = 2, .group = 3, .head_dim = dim, .dtype = dtype});
      expect_same_bits_for_chunks(
          {.kv_heads = 1, .group = 4, .head_dim = dim, .dtype = dtype, .window_tokens = 90});
    }
  }
}

TEST_P(AttentionOnEveryIsa, a_row_has_the_same_bits_for_every_block_size_and_order_of_blocks) {
  constexpr uint32_t kTokens = 600;
  for (DType dtype : kTypes) {
    const Shape shape{.head_dim = 40, .dtype = dtype};
    Rig first(shape, GetParam());
    const auto expected = first.step({{0, 0, kTokens}});
    for (uint32_t block : {1u, 16u, 64u, 100u, 2048u}) {
      Shape other = shape;
      other.block_tokens = block;
      Rig rig(other, GetParam());
      std::reverse(rig.table(0).begin(), rig.table(0).end());
      const auto out = rig.step({{0, 0, kTokens}}, 2);
      EXPECT_TRUE(same_bits(out.data(), expected.data(), out.size()))
          << "block " << block << " " << dtype_name(dtype);
    }
  }
}

TEST_P(AttentionOnEveryIsa, a_row_has_the_same_bits_beside_any_others_and_for_any_slices) {
  constexpr uint32_t kTokens = 1800;
  const Shape shape{.kv_heads = 3, .group = 2, .head_dim = 32, .dtype = DType::i4};
  Rig alone(shape, GetParam(), 3, 1);
  alone.step({{1, 0, kTokens}});
  const auto expected = alone.step({{1, kTokens, 1}});
  for (uint32_t plan_slices : {2u, 3u, 8u}) {
    for (uint32_t slices : {1u, 2u, 3u}) {
      Rig rig(shape, GetParam(), 3, plan_slices);
      rig.step({{1, 0, kTokens}}, slices);
      const auto single = rig.step({{1, kTokens, 1}}, slices);
      EXPECT_TRUE(same_bits(single.data(), expected.data(), single.size()));
      const auto mixed = rig.step({{0, 0, 33}, {1, kTokens, 1}, {2, 0, 5}}, slices);
      EXPECT_TRUE(same_bits(&mixed[33 * rig.row_floats()], expected.data(), expected.size()));
    }
  }
}

TEST_P(AttentionOnEveryIsa, rows_before_a_poisoned_token_do_not_notice_it) {
  for (DType dtype : {DType::f16, DType::i8, DType::i4}) {
    const Shape shape{.kv_heads = 1, .group = 3, .head_dim = 32, .dtype = dtype};
    Rig clean(shape, GetParam());
    const auto expected = clean.step({{0, 0, 100}});
    // Some of them share a block of rows with the one before, whatever the width of the kernel.
    for (uint32_t token : {1u, 65u, 66u, 70u, 71u, 99u}) {
      Rig rig(shape, GetParam());
      rig.poison(0, token);
      const auto out = rig.step({{0, 0, 100}});
      EXPECT_TRUE(same_bits(out.data(), expected.data(), token * rig.row_floats())) << token;
      EXPECT_TRUE(std::isnan(out[token * rig.row_floats()])) << token;
    }
  }
}

// The first token attends to itself alone: its output is its V as it came out of the cache.
TEST_P(AttentionOnEveryIsa, the_first_token_gives_back_its_row_whatever_stands_in_it) {
  std::vector<float> ramp(64);
  for (size_t d = 0; d < ramp.size(); ++d) ramp[d] = 0.37f * static_cast<float>(d) - 5.0f;
  std::vector<float> one_large(64, 0.001f);
  one_large[17] = 300.0f;
  const std::vector<float> rows[] = {ramp, one_large, std::vector<float>(64, 0.0f),
                                     std::vector<float>(64, -2.5f), std::vector<float>(64, 1e-6f)};
  for (DType dtype : kTypes) {
    for (const std::vector<float>& row : rows) {
      Rig rig({.dtype = dtype}, GetParam());
      rig.give(0, 0, row);
      const auto out = rig.step({{0, 0, 1}});
      const std::vector<double> want = read_back(dtype, row);
      for (size_t d = 0; d < want.size(); ++d) {
        ASSERT_NEAR(out[d], want[d], 1e-6 * std::fabs(want[d]) + 1e-7 * std::fabs(row[17]))
            << dtype_name(dtype) << " " << d;
      }
    }
  }
}

TEST_P(AttentionOnEveryIsa, a_quantised_row_with_anything_not_finite_comes_back_as_nan) {
  for (DType dtype : {DType::i8, DType::i4}) {
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> row(64, 1.0f);
      row[40] = bad;
      Rig rig({.dtype = dtype}, GetParam());
      rig.give(0, 0, row);
      const auto out = rig.step({{0, 0, 1}});
      for (float x : out) ASSERT_TRUE(std::isnan(x)) << dtype_name(dtype) << " " << bad;
    }
  }
}

TEST_P(AttentionOnEveryIsa, blocks_that_a_window_left_behind_are_not_read) {
  const Shape shape{.head_dim = 16, .window_tokens = 20};
  Rig rig(shape, GetParam());
  const auto all = rig.step({{0, 0, 100}});
  Rig again(shape, GetParam());
  again.step({{0, 0, 99}});
  for (uint32_t block = 0; block < 5; ++block) again.table(0)[block] = kNoBlock;
  const auto out = again.step({{0, 99, 1}});
  EXPECT_TRUE(same_bits(out.data(), &all[99 * rig.row_floats()], out.size()));
}

TEST_P(AttentionOnEveryIsa, a_row_has_the_same_bits_where_another_kernel_has_the_other_sequences) {
  const Shape shape{.kv_heads = 2, .group = 2, .head_dim = 32};
  Rig all(shape, GetParam(), 3);
  Rig some(shape, GetParam(), 3);
  const std::vector<Rig::Chunk> chunks = {{0, 0, 40}, {1, 0, 1}, {2, 0, 7}};
  const auto expected = all.step(chunks, 2);
  const auto out = some.step_of(chunks, {0, 2}, 3);
  const size_t row = some.row_floats();
  EXPECT_TRUE(same_bits(out.data(), expected.data(), 40 * row));
  EXPECT_TRUE(same_bits(&out[41 * row], &expected[41 * row], 7 * row));
  EXPECT_TRUE(std::isnan(out[40 * row]));
}

TEST_P(AttentionOnEveryIsa, a_row_of_a_tree_has_the_bits_of_its_path_as_a_chain) {
  for (DType dtype : kTypes) {
    for (uint32_t before : {0u, 59u, 64u, 507u}) {
      expect_same_bits_for_paths({.head_dim = 64, .dtype = dtype}, before);
      expect_same_bits_for_paths(
          {.kv_heads = 1, .group = 3, .head_dim = 37, .block_tokens = 5, .dtype = dtype}, before);
      expect_same_bits_for_paths(
          {.kv_heads = 3, .group = 1, .head_dim = 24, .dtype = dtype, .window_tokens = 3}, before);
    }
    expect_same_bits_for_paths(
        {.kv_heads = 1, .group = 100, .head_dim = 16, .dtype = dtype, .soft_cap = 2.0f}, 70);
    expect_same_bits_for_paths({.head_dim = 40, .dtype = dtype, .window_tokens = 70, .v_dim = 33},
                               510);
  }
}

TEST_P(AttentionOnEveryIsa, trees_and_chains_share_a_batch) {
  const Shape shape{.kv_heads = 3, .group = 2, .head_dim = 32, .dtype = DType::bf16};
  Rig alone(shape, GetParam(), 3);
  Rig rig(shape, GetParam(), 3, 3);
  for (Rig* one : {&alone, &rig}) one->step({{0, 0, 600}, {2, 0, 600}}, 2);
  const auto tree = alone.step({{{2, 600, 4}}, {3000, 3001, 3002, 3003}, {-1, 0, 0, 2}});
  const auto chain = alone.step({{0, 600, 3}});
  const auto both = rig.step({{{0, 600, 3}, {1, 0, 2}, {2, 600, 4}},
                              {600, 601, 602, 0, 1, 3000, 3001, 3002, 3003},
                              {-1, 0, 1, -1, 3, -1, 5, 5, 7}},
                             2);
  const size_t row = rig.row_floats();
  EXPECT_TRUE(same_bits(both.data(), chain.data(), 3 * row));
  EXPECT_TRUE(same_bits(&both[5 * row], tree.data(), 4 * row));
}

TEST_P(AttentionOnEveryIsa, rows_may_see_rows_behind_them) {
  for (DType dtype : {DType::f32, DType::i8}) {
    const Shape shape{.head_dim = 24, .dtype = dtype};
    Rig rig(shape, GetParam());
    std::vector<uint32_t> sees_to(30);
    std::iota(sees_to.begin(), sees_to.end(), 0u);
    std::fill(sees_to.begin() + 10, sees_to.begin() + 20, 19u);
    rig.step({{0, 0, 70}});
    const auto out = rig.step_seeing({{0, 70, 30}}, sees_to);
    Rig chain(shape, GetParam());
    chain.step({{0, 0, 70}});
    const auto expected = chain.step({{0, 70, 30}});
    const size_t row = rig.row_floats();
    // What rows see differs inside the span alone; its last row sees what it would anyway.
    EXPECT_TRUE(same_bits(out.data(), expected.data(), 10 * row));
    EXPECT_FALSE(same_bits(&out[10 * row], &expected[10 * row], row));
    EXPECT_TRUE(same_bits(&out[19 * row], &expected[19 * row], 11 * row));
  }
}

TEST(CpuAttention, what_it_cannot_do_is_refused_with_the_reason) {
  Rig rig({}, kCpuPortable);
  const int32_t parents[] = {-1, 1};
  EXPECT_EQ(rig.try_plan({{0, 0, 2}}, parents).message(),
            "row 1 follows row 1, which is no earlier one of its sequence");
  rig.table(0).resize(1);
  EXPECT_EQ(rig.try_plan({{0, 0, 17}}).message(),
            "row 16 is stored at position 16, behind its sequence's 16 slots");

  AttentionBinding binding = rig.binding(1, 1);
  binding.dtype = DType::bf16;
  EXPECT_EQ(rig.kernel().bind(binding).message(), "activations are bf16; \"cpu\" takes f32");
  binding.dtype = DType::f32;
  KvGroupStorage storage = binding.storage[0];
  storage.dtype = DType::u8;
  binding.storage = {&storage, 1};
  EXPECT_EQ(rig.kernel().bind(binding).message(),
            "kv.dtype is u8; \"cpu\" reads f32, f16, bf16, i8 and i4");
  KvGroup latent = binding.model->groups[0];
  latent.kind = KvKind::latent;
  ModelShape model = *binding.model;
  model.groups = &latent;
  binding.model = &model;
  EXPECT_EQ(rig.kernel().bind(binding).code(), StatusCode::unsupported);
}

TEST(CpuAttention, groups_that_it_was_not_bound_to_may_be_anything) {
  Rig rig({}, kCpuPortable);
  AttentionBinding binding = rig.binding(1, 1);
  const KvGroup groups[] = {binding.model->groups[0], {.kind = KvKind::recurrent}};
  const LayerShape layers[] = {binding.model->layers[0], {.group = kNoGroup, .state_group = 1}};
  const KvGroupStorage storage[] = {binding.storage[0], {}};
  ModelShape model = *binding.model;
  model.group_count = model.layer_count = 2;
  model.groups = groups;
  model.layers = layers;
  binding.model = &model;
  binding.storage = storage;
  EXPECT_TRUE(rig.kernel().bind(binding).ok());
  const GroupId other[] = {1};
  binding.groups = other;
  EXPECT_EQ(rig.kernel().bind(binding).code(), StatusCode::unsupported);
}

TEST(CpuAttention, the_name_of_the_numerics_follows_the_processor) {
  EXPECT_EQ(Rig({}, kCpuPortable).kernel().numerics(), "cpu/portable");
  if (!detect_cpu_features().has(CpuFeature::avx512_bf16)) return;
  EXPECT_EQ(Rig({}, kCpuAvx2).kernel().numerics(), "cpu/avx2");
  EXPECT_EQ(Rig({}, kCpuAvx512Bf16).kernel().numerics(), "cpu/avx512");
}

}  // namespace
}  // namespace tenon
