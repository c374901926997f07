// What tests of attention kernels share: one layer of attention over a cache that is poisoned
// wherever nobody stored, and what comes of it in double precision.
#pragma once

#include <gtest/gtest.h>
#include <tenon/attention.h>
#include <tenon/extensions/attention_chunks.h>
#include <tenon/sdk/half.h>
#include <tenon/sdk/random.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/closeness.h"
#include "tests/support/plugin_instance.h"

namespace tenon {

inline float random_value(uint64_t seed, uint64_t index) {
  const auto bits =
      sdk::philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0}, seed);
  return static_cast<float>(static_cast<double>(bits[0]) * 0x1.0p-31 - 1.0);
}

inline constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::i8, DType::i4};

inline float bf16(float value) {
  return sdk::bf16_to_float(sdk::float_to_bf16(value));
}

// What <tenon/attention.h> says comes back when `row` was stored, in double precision.
inline std::vector<double> read_back(DType dtype, const std::vector<float>& row) {
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
  bool chunks = false;  // the window is a chunk
  float soft_cap = 0;
  std::vector<float> sinks = {};  // [query heads]; empty = none
  uint32_t v_dim = 0;             // 0 = head_dim
  uint32_t context_tokens = 2048;
  bool latent = false;  // V is the first v_dim elements of K
  bool slopes = false;  // 1/2, 1/4, … of the heads
  bool pairs = false;   // products = "bf16"
  bool bytes = false;   // products = "int8"
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
    PluginInstance<AttentionKernel>::Options options;
    if (shape.pairs) options.push_back({"products", {.integer = 1, .text = {}}});
    if (shape.bytes) options.push_back({"products", {.integer = 2, .text = {}}});
    kernel_ = std::make_unique<PluginInstance<AttentionKernel>>("cpu", host_, options);
    group_.kind = shape.latent ? KvKind::latent : KvKind::attention;
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
    planes_.v = shape.latent ? planes_.k : plane(shape.values_dim(), blocks, v_bytes_);
    storage_.dtype = shape.dtype;
    storage_.block_tokens = shape.block_tokens;
    storage_.layers = {&planes_, 1};
    if (shape.chunks) {
      static constexpr GroupId kChunked[] = {0};
      const auto* chunks =
          static_cast<const AttentionChunks*>(kernel_->extension(kAttentionChunks));
      EXPECT_NE(chunks, nullptr);
      if (chunks != nullptr) chunks->set(chunks->self, std::span(kChunked));
    }
    const Status status = (*kernel_)->bind(binding(sequences, plan_slices));
    EXPECT_TRUE(status.ok()) << status.message();
    workspace_.assign((*kernel_)->workspace_bytes(0) + 64 + kGuard, std::byte{0xff});
    std::fill_n(behind_workspace(), kGuard, kUntouched);
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

  // A step, and what its rows give to entries: added to sums[sequence], [entries].
  void step_scored(const std::vector<Chunk>& chunks, std::vector<std::vector<uint64_t>>& sums,
                   uint32_t slices = 1) {
    Batch batch(*this, chunks);
    for (const Chunk& chunk : chunks) {
      sums[chunk.sequence].resize(chunk.first_token + chunk.tokens);
      scored_.insert(scored_.end(), chunk.tokens, sums[chunk.sequence].data());
    }
    run(batch, batch.all, slices);
    scored_.clear();
  }
  // What one token gives to each entry that it sees, in double precision, all heads together.
  std::vector<double> given(uint32_t sequence, uint32_t token) const {
    std::vector<double> sums(token + 1);
    for (uint32_t head = 0; head < shape_.query_heads(); ++head) {
      const std::vector<double> weights = weights_of(sequence, token, head);
      for (size_t i = 0; i < weights.size(); ++i) sums[first_seen(token) + i] += weights[i];
    }
    return sums;
  }

  // Attention of one token in double precision, over K and V rounded to the cache's type.
  std::vector<double> reference(uint32_t sequence, uint32_t token) const {
    const uint32_t dim = shape_.head_dim;
    const uint32_t v_dim = shape_.values_dim();
    std::vector<double> out;
    const uint32_t first = first_seen(token);
    for (uint32_t head = 0; head < shape_.query_heads(); ++head) {
      const std::vector<double> weights = weights_of(sequence, token, head);
      std::vector<double> sums(v_dim);
      for (uint32_t p = first; p <= token; ++p) {
        const std::vector<double> row = shape_.latent
                                            ? cached(&k, sequence, p, head / shape_.group, dim)
                                            : cached(&v, sequence, p, head / shape_.group, v_dim);
        for (uint32_t d = 0; d < v_dim; ++d) sums[d] += weights[p - first] * row[d];
      }
      out.insert(out.end(), sums.begin(), sums.end());
    }
    return out;
  }

  // Entry `from` of a sequence's table becomes entry `to`, as a KV manager's moves do it.
  void move(uint32_t sequence, uint32_t from, uint32_t to) {
    std::vector<KvPlane> planes = {planes_.k};
    if (!shape_.latent) planes.push_back(planes_.v);
    for (const KvPlane& plane : planes) {
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
  // The same of every token.
  void give_all(std::vector<float> row) {
    given_to_all_ = true;
    given_ = std::move(row);
  }
  void poison(uint32_t sequence, uint32_t token) {
    give(sequence, token, std::vector<float>(shape_.values_dim(), NAN));
  }

 private:
  uint32_t first_seen(uint32_t token) const {
    return shape_.chunks ? first_of_chunk(token, shape_.window_tokens)
                         : first_visible(token, shape_.window_tokens);
  }
  // The softmax of one head, over the entries from first_seen on.
  std::vector<double> weights_of(uint32_t sequence, uint32_t token, uint32_t head) const {
    std::vector<double> weights;
    for (uint32_t p = first_seen(token); p <= token; ++p) {
      const std::vector<double> row = cached(&k, sequence, p, head / shape_.group, shape_.head_dim);
      double score = 0;
      for (uint32_t d = 0; d < shape_.head_dim; ++d) {
        score += double{q(sequence, token, head, d)} * row[d];
      }
      score *= layer_.scale;
      if (shape_.soft_cap != 0) score = shape_.soft_cap * std::tanh(score / shape_.soft_cap);
      if (shape_.slopes) {
        score += slopes_[head] * (static_cast<double>(p) - static_cast<double>(token));
      }
      weights.push_back(score);
    }
    double largest = *std::max_element(weights.begin(), weights.end());
    if (layer_.sinks != nullptr) largest = std::max<double>(largest, layer_.sinks[head]);
    double total = layer_.sinks != nullptr ? std::exp(layer_.sinks[head] - largest) : 0.0;
    for (double& weight : weights) total += weight = std::exp(weight - largest);
    for (double& weight : weights) weight /= total;
    return weights;
  }

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
                             .v = shape_.latent ? nullptr : batch.v.data(),
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
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(behind_workspace()[i], kUntouched) << "wrote behind its workspace";
    }
    if (scored_.empty()) return;
    const auto* scores = static_cast<const AttentionScores*>(kernel_->extension(kAttentionScores));
    ASSERT_NE(scores, nullptr);
    for (uint32_t i = slices; i-- > 0;) {
      status = scores->add(scores->self, call, scored_, {i, slices});
      EXPECT_TRUE(status.ok()) << status.message();
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
        const bool given = given_to_all_ || given_at_ == std::pair(sequence, token);
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
  std::byte* behind_workspace() {
    return static_cast<std::byte*>(aligned(workspace_)) + kernel().workspace_bytes(0);
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
  static constexpr size_t kGuard = 4096;
  static constexpr std::byte kUntouched{0x5a};
  std::vector<std::byte> workspace_, plan_;
  std::vector<std::vector<BlockId>> tables_;
  std::pair<uint32_t, uint32_t> given_at_{~0u, ~0u};
  bool given_to_all_ = false;
  std::vector<float> given_;
  std::vector<uint64_t*> scored_;  // [rows] of a step whose entries are scored
};

inline Shape latent_shape(uint32_t dim, uint32_t v_dim, uint32_t heads, DType dtype) {
  return {.kv_heads = 1,
          .group = heads,
          .head_dim = dim,
          .dtype = dtype,
          .v_dim = v_dim,
          .latent = true};
}

// The code that this machine runs, in addition to the portable code.
inline std::vector<CpuFeatures> distinct_isas() {
  std::vector<CpuFeatures> isas;
  for (CpuFeatures isa : runnable_isas()) {
    if (kCpuAvx512.has_all(isa) || isa == kCpuNeon) isas.push_back(isa);
  }
  return isas;
}

}  // namespace tenon
