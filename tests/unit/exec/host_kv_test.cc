#include "core/exec/host_kv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/exec/executor.h"

namespace tenon {
namespace {

// Two groups; layer 2 reads the K/V of layer 0.
class HostKvTest : public testing::Test {
 protected:
  HostKvTest() {
    groups_[0] = {.layers = 1, .kv_heads = 2, .k_dim = 3, .v_dim = 5};
    groups_[1] = {.layers = 1, .kv_heads = 1, .k_dim = 4, .v_dim = 4};
    layers_[0] = {.group = 0, .query_heads = 2};
    layers_[1] = {.group = 1, .query_heads = 2};
    layers_[2] = {.group = 0, .shares_kv_with = 0, .query_heads = 2};
    shape_ = {.layer_count = 3,
              .context_tokens = 16,
              .group_count = 2,
              .groups = groups_,
              .layers = layers_};
    sizes_[0] = {.block_tokens = 4, .blocks = 3};
    sizes_[1] = {.block_tokens = 2, .blocks = 5};
    geometry_ = {.context_tokens = 16, .max_sequences = 1, .group_count = 2, .groups = sizes_};
  }

  static float* at(const KvPlane& plane, uint32_t block, uint32_t head, uint32_t token) {
    return reinterpret_cast<float*>(plane.base + block * plane.block_bytes +
                                    head * plane.head_bytes + token * plane.token_bytes);
  }
  // Every token of a group gets values that name its place.
  static float mark(uint32_t block, uint32_t head, uint32_t token) {
    return static_cast<float>(100 * block + 10 * head + token);
  }
  const KvLayerStorage& planes(LayerId layer) const {
    return kv_.storage()[layers_[layer].group].layers[layers_[layer].index_in_group];
  }
  void fill(LayerId layer, uint32_t heads, uint32_t dim, uint32_t blocks, uint32_t tokens) {
    for (uint32_t b = 0; b < blocks; ++b) {
      for (uint32_t h = 0; h < heads; ++h) {
        for (uint32_t t = 0; t < tokens; ++t) {
          const KvLayerStorage& storage = planes(layer);
          std::fill_n(at(storage.k, b, h, t), dim, mark(b, h, t));
          std::fill_n(at(storage.v, b, h, t), dim, mark(b, h, t) + 0.5f);
        }
      }
    }
  }
  static KvMove move(GroupId group, KvPlace from, KvPlace to, uint32_t tokens) {
    return {group, from, to, tokens};
  }

  KvGroup groups_[2];
  LayerShape layers_[3];
  ModelShape shape_;
  KvGroupGeometry sizes_[2];
  KvGeometry geometry_;
  HostKv kv_;
};

TEST_F(HostKvTest, planes_lie_in_the_order_block_head_token_element) {
  const KvPlane plane = kv_plane(DType::bf16, 4, 64, 16);
  EXPECT_EQ(plane.token_bytes, 128u);
  EXPECT_EQ(plane.head_bytes, 16u * 128);
  EXPECT_EQ(plane.block_bytes, 4u * 16 * 128);
  EXPECT_EQ(plane.base, nullptr);
}

TEST_F(HostKvTest, quantised_tokens_carry_a_scale_behind_their_elements) {
  EXPECT_EQ(kv_plane(DType::i8, 1, 5, 1).token_bytes, 6u + 2);
  EXPECT_EQ(kv_plane(DType::i8, 1, 64, 1).token_bytes, 64u + 2);
  EXPECT_EQ(kv_plane(DType::i4, 1, 5, 1).token_bytes, 4u + 4);
  EXPECT_EQ(kv_plane(DType::i4, 1, 64, 1).token_bytes, 32u + 4);
}

TEST_F(HostKvTest, quantised_caches_hold_1_9_and_3_5_times_the_tokens_of_bf16) {
  for (uint32_t dim : {64u, 128u, 256u}) {
    const auto bf16 = static_cast<double>(kv_plane(DType::bf16, 1, dim, 1).token_bytes);
    EXPECT_GE(bf16 / static_cast<double>(kv_plane(DType::i8, 1, dim, 1).token_bytes), 1.9);
    EXPECT_GE(bf16 / static_cast<double>(kv_plane(DType::i4, 1, dim, 1).token_bytes), 3.5);
  }
}

TEST_F(HostKvTest, bytes_a_token_count_only_layers_with_kv_of_their_own) {
  EXPECT_EQ(kv_bytes_per_token(shape_, 0, DType::f32), 2u * (3 + 5) * 4);
  EXPECT_EQ(kv_bytes_per_token(shape_, 1, DType::bf16), 1u * (4 + 4) * 2);
}

TEST_F(HostKvTest, holds_what_the_geometry_asks_for) {
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  EXPECT_EQ(kv_.bytes(), 12 * kv_bytes_per_token(shape_, 0, DType::f32) +
                             10 * kv_bytes_per_token(shape_, 1, DType::f32));
  ASSERT_EQ(kv_.storage().size(), 2u);
  EXPECT_EQ(kv_.storage()[0].layers.size(), 1u) << "layer 2 has none of its own";
  EXPECT_EQ(planes(2).k.base, planes(0).k.base);
  EXPECT_NE(planes(1).k.base, planes(0).k.base);
  EXPECT_EQ(kv_.storage()[1].block_tokens, 2u);
}

TEST_F(HostKvTest, a_move_copies_tokens_of_all_heads_in_its_group_alone) {
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  fill(0, 2, 3, 3, 4);
  fill(1, 1, 4, 5, 2);
  const KvMove copy = move(0, {{}, 2, 0}, {{}, 1, 1}, 2);
  ASSERT_TRUE(kv_.apply({&copy, 1}).ok());
  const KvLayerStorage& moved = planes(0);
  for (uint32_t head = 0; head < 2; ++head) {
    EXPECT_EQ(*at(moved.k, 1, head, 0), mark(1, head, 0));
    EXPECT_EQ(*at(moved.k, 1, head, 1), mark(2, head, 0));
    EXPECT_EQ(*at(moved.v, 1, head, 2), mark(2, head, 1) + 0.5f);
    EXPECT_EQ(*at(moved.k, 1, head, 3), mark(1, head, 3));
  }
  EXPECT_EQ(*at(planes(1).k, 1, 0, 1), mark(1, 0, 1));
}

TEST_F(HostKvTest, a_move_may_overlap_itself) {
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  fill(0, 2, 3, 3, 4);
  const KvMove compaction = move(0, {{}, 0, 1}, {{}, 0, 0}, 3);
  ASSERT_TRUE(kv_.apply({&compaction, 1}).ok());
  const KvPlane& k = planes(0).k;
  EXPECT_EQ(*at(k, 0, 1, 0), mark(0, 1, 1));
  EXPECT_EQ(*at(k, 0, 1, 1), mark(0, 1, 2));
  EXPECT_EQ(*at(k, 0, 1, 2), mark(0, 1, 3));
}

TEST_F(HostKvTest, keeps_a_swap_pool_apart_from_the_cache) {
  sizes_[0].swap_blocks = 2;
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  fill(0, 2, 3, 3, 4);
  const KvMove out = move(0, {{}, 2, 0}, {{}, 1, 0, KvTier::swap}, 4);
  ASSERT_TRUE(kv_.apply({&out, 1}).ok());
  const KvPlane& k = planes(0).k;
  EXPECT_EQ(*at(k, 1, 1, 3), mark(1, 1, 3)) << "cache block 1 is another one";
  const KvMove in = move(0, {{}, 1, 1, KvTier::swap}, {{}, 0, 0}, 3);
  ASSERT_TRUE(kv_.apply({&in, 1}).ok());
  EXPECT_EQ(*at(k, 0, 1, 0), mark(2, 1, 1));
  EXPECT_EQ(*at(k, 0, 1, 2), mark(2, 1, 3));
  EXPECT_EQ(*at(k, 0, 1, 3), mark(0, 1, 3));
  const KvMove outside = move(0, {{}, 2, 0}, {{}, 2, 0, KvTier::swap}, 1);
  EXPECT_EQ(kv_.apply({&outside, 1}).message(),
            "a KV move names swap block 2, tokens 0 to 1; there are 2 blocks of 4 tokens");
  const KvMove no_pool = move(1, {{}, 2, 0}, {{}, 0, 0, KvTier::swap}, 1);
  EXPECT_EQ(kv_.apply({&no_pool, 1}).code(), StatusCode::internal);
}

TEST_F(HostKvTest, later_moves_read_what_earlier_ones_wrote) {
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  fill(1, 1, 4, 5, 2);
  const KvMove chain[] = {move(1, {{}, 4, 0}, {{}, 3, 0}, 2), move(1, {{}, 3, 0}, {{}, 0, 0}, 2)};
  ASSERT_TRUE(kv_.apply(chain).ok());
  EXPECT_EQ(*at(planes(1).v, 0, 0, 1), mark(4, 0, 1) + 0.5f);
}

TEST_F(HostKvTest, refuses_moves_out_of_range_and_moves_nothing) {
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  fill(0, 2, 3, 3, 4);
  const KvMove moves[] = {move(0, {{}, 2, 0}, {{}, 0, 0}, 4), move(0, {{}, 3, 0}, {{}, 0, 0}, 1)};
  const Status status = kv_.apply(moves);
  EXPECT_EQ(status.code(), StatusCode::internal);
  EXPECT_EQ(status.message(),
            "a KV move names block 3, tokens 0 to 1; there are 3 blocks of 4 tokens");
  EXPECT_EQ(*at(planes(0).k, 0, 0, 0), mark(0, 0, 0));
  const KvMove long_move = move(0, {{}, 0, 3}, {{}, 1, 0}, 2);
  EXPECT_EQ(kv_.apply({&long_move, 1}).code(), StatusCode::internal);
  const KvMove swap = move(0, {{}, 0, 0}, {{SpaceKind::cuda, 0}, 0, 0}, 1);
  EXPECT_EQ(kv_.apply({&swap, 1}).code(), StatusCode::unsupported);
}

TEST_F(HostKvTest, more_memory_than_there_is_is_an_error) {
  sizes_[0].blocks = INT32_MAX;
  sizes_[0].block_tokens = UINT32_MAX;
  const Status status = kv_.allocate(shape_, geometry_);
  EXPECT_EQ(status.code(), StatusCode::out_of_memory);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("a layer of the KV cache needs"));
}

TEST_F(HostKvTest, each_group_has_its_own_element_type) {
  sizes_[1].dtype = DType::i8;
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  EXPECT_EQ(kv_.storage()[0].dtype, DType::f32);
  EXPECT_EQ(kv_.storage()[1].dtype, DType::i8);
  EXPECT_EQ(planes(1).k.token_bytes, kv_row_bytes(DType::i8, 4));
  EXPECT_EQ(kv_.bytes(), 12 * kv_bytes_per_token(shape_, 0, DType::f32) +
                             10 * kv_bytes_per_token(shape_, 1, DType::i8));
}

TEST_F(HostKvTest, v_inside_k_is_the_same_plane_and_counts_once) {
  groups_[1].kind = KvKind::latent;
  groups_[1].v_dim = 3;
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  EXPECT_EQ(planes(1).v.base, planes(1).k.base);
  EXPECT_EQ(planes(1).v.token_bytes, planes(1).k.token_bytes);
  EXPECT_EQ(kv_bytes_per_token(shape_, 1, DType::f32), 4u * 4);
  EXPECT_EQ(kv_.bytes(), 12 * kv_bytes_per_token(shape_, 0, DType::f32) + 10u * 4 * 4);
  std::fill_n(at(planes(1).k, 0, 0, 0), 4, 7.0f);
  const KvMove copy = move(1, {{}, 0, 0}, {{}, 3, 1}, 1);
  ASSERT_TRUE(kv_.apply({&copy, 1}).ok());
  EXPECT_EQ(at(planes(1).k, 3, 0, 1)[3], 7.0f);
}

class Told final : public KvWatch {
 public:
  void on_ready(std::span<const uint64_t> bytes) override {
    calls.emplace_back(bytes.begin(), bytes.end());
  }
  std::vector<std::vector<uint64_t>> calls;
};

TEST_F(HostKvTest, tells_of_leading_layers_that_are_done) {
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  Told told;
  kv_.layer_done(0);  // nobody watches
  kv_.watch(&told);
  for (const LayerId layer : {0u, 1u, 2u}) kv_.layer_done(layer);
  const uint64_t first = kv_.block_bytes(0), second = kv_.block_bytes(1);
  EXPECT_THAT(told.calls, testing::ElementsAre(std::vector<uint64_t>{first, 0},
                                               std::vector<uint64_t>{first, second}))
      << "layer 2 keeps nothing of its own";
}

TEST_F(HostKvTest, a_storage_that_is_written_later_holds_those_behind_it_back) {
  groups_[0].layers = 3;
  layers_[0] = {.group = 0, .index_in_group = 1, .query_heads = 2};
  layers_[1] = {.group = 0, .index_in_group = 0, .query_heads = 2};
  layers_[2] = {.group = 1, .query_heads = 2};  // and nobody names the third
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  Told told;
  kv_.watch(&told);
  for (const LayerId layer : {0u, 1u, 2u}) kv_.layer_done(layer);
  const uint64_t two = kv_.block_bytes(0) / 3 * 2;
  EXPECT_THAT(told.calls,
              testing::ElementsAre(std::vector<uint64_t>{0, 0}, std::vector<uint64_t>{two, 0},
                                   std::vector<uint64_t>{two, kv_.block_bytes(1)}));
}

TEST_F(HostKvTest, a_block_is_read_from_any_byte_on) {
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  fill(0, 2, 3, 3, 4);
  std::vector<std::byte> whole(kv_.block_bytes(0)), part;
  kv_.read_block(0, 2, 0, whole);
  for (size_t first = 0; first < whole.size(); first += 7) {
    for (const size_t count : {size_t{1}, whole.size() / 2, whole.size()}) {
      part.assign(std::min(count, whole.size() - first), {});
      kv_.read_block(0, 2, first, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<int>(first)));
    }
  }
}

TEST_F(HostKvTest, layers_without_k_and_v_take_no_storage) {
  layers_[2] = {.group = kNoGroup};
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  EXPECT_EQ(kv_.bytes(), 12 * kv_bytes_per_token(shape_, 0, DType::f32) +
                             10 * kv_bytes_per_token(shape_, 1, DType::f32));
}

TEST_F(HostKvTest, a_layer_must_name_a_storage_that_its_group_has) {
  layers_[1].index_in_group = 1;
  EXPECT_EQ(kv_.allocate(shape_, geometry_).message(),
            "layer 1 has storage 1 of KV group 1, which has 1");
  layers_[1].index_in_group = 0;
  layers_[2].shares_kv_with = 1;
  EXPECT_EQ(kv_.allocate(shape_, geometry_).message(),
            "layer 2 shares the K/V of layer 1, but names another storage than that one does");
}

// States of a recurrent group: slots that are moved as a whole.
class HostStateTest : public HostKvTest {
 protected:
  HostStateTest() {
    groups_[1] = {.kind = KvKind::recurrent, .layers = 2, .state_bytes = 24};
    layers_[1] = {.group = kNoGroup, .state_group = 1};
    sizes_[1] = {.dtype = DType::u8,
                 .block_tokens = 1,
                 .blocks = 4,
                 .bytes_per_token = 32,
                 .swap_blocks = 2};
  }
  std::byte* slot(uint32_t index) const {
    return kv_.states()[1].base + index * kv_.states()[1].slot_bytes;
  }
};

TEST_F(HostStateTest, states_have_a_slot_for_each_block) {
  EXPECT_EQ(kv_bytes_per_token(shape_, 1, DType::u8), 24u);
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  EXPECT_EQ(kv_.states()[1].slot_bytes, 32u);
  EXPECT_EQ(kv_.states()[0].base, nullptr);
  EXPECT_TRUE(kv_.storage()[1].layers.empty());
  EXPECT_EQ(kv_.bytes(), 12 * kv_bytes_per_token(shape_, 0, DType::f32) + 4u * 32);
  EXPECT_EQ(slot(3)[31], std::byte{0});
}

TEST_F(HostStateTest, a_move_copies_a_whole_slot_also_through_the_pool) {
  ASSERT_TRUE(kv_.allocate(shape_, geometry_).ok());
  std::fill_n(slot(2), 32, std::byte{9});
  const KvMove moves[] = {move(1, {{}, 2, 0}, {{}, 1, 0, KvTier::swap}, 1),
                          move(1, {{}, 1, 0, KvTier::swap}, {{}, 0, 0}, 1)};
  ASSERT_TRUE(kv_.apply(moves).ok());
  EXPECT_EQ(slot(0)[0], std::byte{9});
  EXPECT_EQ(slot(0)[31], std::byte{9});
  EXPECT_EQ(slot(1)[0], std::byte{0});
  const KvMove part = move(1, {{}, 2, 1}, {{}, 0, 0}, 1);
  EXPECT_EQ(kv_.apply({&part, 1}).code(), StatusCode::internal);
}

TEST_F(HostStateTest, slots_that_are_too_small_are_refused) {
  sizes_[1].bytes_per_token = 16;
  EXPECT_THAT(std::string(kv_.allocate(shape_, geometry_).message()),
              testing::StartsWith("KV group 1 keeps states of 24 bytes; its slots have 16 bytes"));
}

// A model of 30 layers: a K and a V plane of 8 MiB each, in huge pages.
TEST(PartsToBack, stay_within_the_budget_where_memory_comes_in_huge_pages) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const std::vector<MemoryPart> planes(60, {nullptr, 8 * kMiB});
  const auto backed = [](const std::vector<MemoryPart>& parts, uint64_t page) {
    uint64_t bytes = 0;
    for (const MemoryPart& part : parts) bytes += (part.bytes + page - 1) / page * page;
    return bytes;
  };
  EXPECT_EQ(backed(parts_to_back(planes, 16 * kMiB), 2 * kMiB), 16 * kMiB);
  const std::vector<MemoryPart> few(2, {nullptr, 8 * kMiB});
  EXPECT_EQ(backed(parts_to_back(few, 16 * kMiB), 2 * kMiB), 16 * kMiB);
  EXPECT_EQ(backed(parts_to_back(few, 64 * kMiB), 2 * kMiB), 16 * kMiB) << "no more than there is";
  const std::vector<MemoryPart> small(60, {nullptr, kMiB});
  EXPECT_LE(backed(parts_to_back(small, 16 * kMiB), 4096), 16 * kMiB);
  EXPECT_EQ(parts_to_back(small, 16 * kMiB).size(), 60u);
  const std::vector<MemoryPart> empty(3);
  EXPECT_TRUE(parts_to_back(empty, kMiB).empty());
}

}  // namespace
}  // namespace tenon
