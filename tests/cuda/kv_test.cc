// The KV cache on the device, and the swap pool on the host.
#include "core/exec/cuda/kv.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/model/plan/model_plan.h"
#include "tests/cuda/rig/test_driver.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::cuda::test {
namespace {

class CudaKvTest : public testing::Test {
 protected:
  CudaKvTest()
      : model_(tenon::test::make_tiny_model({.config = tenon::test::tiny_config()})),
        shape_(model_->plan, 64) {
    group_.dtype = DType::f32;
    group_.block_tokens = 4;
    group_.blocks = 3;
    group_.swap_blocks = 2;
    geometry_.group_count = 1;
    geometry_.groups = &group_;
    EXPECT_TRUE(kv_.allocate(shape_.shape(), geometry_).ok());
    // Two heads of 8 elements; every number of the cache is another one.
    for (uint32_t layer = 0; layer < 2; ++layer) {
      for (void* plane : {kv_.k(0, layer), kv_.v(0, layer)}) {
        std::vector<float> numbers(kPlane);
        for (float& x : numbers) x = static_cast<float>(++count_);
        EXPECT_TRUE(driver_.send(plane, numbers.data(), kPlane * sizeof(float)).ok());
        EXPECT_TRUE(driver_.wait().ok());
      }
    }
  }
  // Of layer 1's V: [block][head][token][element].
  std::vector<float> plane() {
    std::vector<float> numbers(kPlane);
    EXPECT_TRUE(driver_.fetch(numbers.data(), kv_.v(0, 1), kPlane * sizeof(float)).ok());
    EXPECT_TRUE(driver_.wait().ok());
    return numbers;
  }
  Status move(const KvPlace& from, const KvPlace& to, uint32_t tokens) {
    const KvMove moved{0, from, to, tokens};
    return kv_.apply({&moved, 1});
  }
  static size_t at(uint32_t block, uint32_t head, uint32_t token) {
    return ((block * 2 + head) * 4 + token) * 8;
  }

  static constexpr size_t kPlane = 3 * 2 * 4 * 8;
  std::unique_ptr<Model> model_;
  ModelShapeStorage shape_;
  KvGroupGeometry group_;
  KvGeometry geometry_;
  TestDriver driver_;
  CudaKv kv_{driver_};
  uint32_t count_ = 0;
};

TEST_F(CudaKvTest, brings_tokens_back_from_the_swap_pool) {
  const std::vector<float> before = plane();
  ASSERT_TRUE(move({{}, 0, 0}, {{}, 1, 0, KvTier::swap}, 4).ok());
  ASSERT_TRUE(move({{}, 2, 0}, {{}, 0, 0}, 4).ok());
  ASSERT_TRUE(move({{}, 1, 0, KvTier::swap}, {{}, 1, 0}, 4).ok());
  const std::vector<float> after = plane();
  for (uint32_t head = 0; head < 2; ++head) {
    EXPECT_EQ(after[at(1, head, 3)], before[at(0, head, 3)]);
    EXPECT_EQ(after[at(0, head, 3)], before[at(2, head, 3)]);
    EXPECT_EQ(after[at(2, head, 3)], before[at(2, head, 3)]);
  }
}

TEST_F(CudaKvTest, moves_tokens_over_themselves) {
  const std::vector<float> before = plane();
  ASSERT_TRUE(move({{}, 1, 0}, {{}, 1, 1}, 3).ok());
  const std::vector<float> after = plane();
  for (uint32_t head = 0; head < 2; ++head) {
    EXPECT_EQ(after[at(1, head, 0)], before[at(1, head, 0)]);
    for (uint32_t token = 1; token < 4; ++token) {
      EXPECT_EQ(after[at(1, head, token)], before[at(1, head, token - 1)]);
    }
  }
}

TEST_F(CudaKvTest, refuses_moves_that_are_out_of_range) {
  const Status refused = move({{}, 0, 0}, {{}, 2, 0, KvTier::swap}, 4);
  EXPECT_EQ(refused.code(), StatusCode::internal);
  EXPECT_EQ(refused.message(),
            "a KV move names block 2, tokens 0 to 4; there are 2 blocks of 4 tokens");
  EXPECT_EQ(driver_.waiting(), 0u);
}

// Ten numbers a slot, three slots and room for one on the host.
TEST(CudaKvStates, are_moved_slot_by_slot) {
  KvGroup group;
  group.kind = KvKind::recurrent;
  group.layers = 2;
  group.state_bytes = 40;
  ModelShape shape;
  shape.group_count = 1;
  shape.groups = &group;
  const KvGroupGeometry sizes{DType::u8, 1, 3, 40, 1};
  TestDriver driver;
  CudaKv kv(driver);
  ASSERT_TRUE(kv.allocate(shape, {.group_count = 1, .groups = &sizes}, 100).ok());
  EXPECT_EQ(kv.bytes(), 120u) << "padding keeps no state";
  EXPECT_EQ(CudaKv::bytes_for(shape, {.group_count = 1, .groups = &sizes}, 100), 120u);
  std::vector<float> states(30);
  for (size_t i = 0; i < states.size(); ++i) states[i] = static_cast<float>(i);
  ASSERT_TRUE(driver.send(kv.states(0), states.data(), 120).ok());
  const KvMove moves[] = {{0, {{}, 1, 0}, {{}, 0, 0, KvTier::swap}, 1},
                          {0, {{}, 0, 0}, {{}, 1, 0}, 1},
                          {0, {{}, 2, 0}, {{}, 2, 0}, 1},
                          {0, {{}, 0, 0, KvTier::swap}, {{}, 0, 0}, 1}};
  ASSERT_TRUE(kv.apply(moves).ok());
  std::vector<float> after(30);
  ASSERT_TRUE(driver.fetch(after.data(), kv.states(0), 120).ok());
  ASSERT_TRUE(driver.wait().ok());
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(after[i], states[10 + i]);
    EXPECT_EQ(after[10 + i], states[i]);
    EXPECT_EQ(after[20 + i], states[20 + i]);
  }
}

TEST_F(CudaKvTest, tells_what_it_holds) {
  EXPECT_EQ(kv_.bytes(), 4 * kPlane * sizeof(float));
  EXPECT_EQ(CudaKv::bytes_for(shape_.shape(), geometry_), kv_.bytes());
}

}  // namespace
}  // namespace tenon::cuda::test
