// Heads that draft on the executor `cuda`: what stands before their layers, and what they draft, is
// what tests/golden/make_head_goldens.py and make_mtp_goldens.py computed.
#include <gmock/gmock.h>

#include "core/exec/cuda/executor.h"
#include "tests/cuda/rig/test_driver.h"
#include "tests/pipeline/heads/head_driver.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::HeadDriver;
using tenon::test::read_golden;
using tenon::test::worst_of_chains;
using testing::HasSubstr;

constexpr float kTolerance = 1e-4f;

// Without weights: heads that have an embedding of their own need none.
Model plain_target() {
  Model model;
  model.plan.vocabulary = 40;
  model.plan.hidden = 16;
  model.plan.layers.resize(4);
  return model;
}

float worst_of(const OpenedHead& head, const std::string& folder) {
  HeadDriver driver(make_cuda_executor(std::make_shared<TestDriver>()), nullptr, head);
  EXPECT_TRUE(driver.loaded().ok()) << driver.loaded().message();
  return worst_of_chains(driver, read_golden(folder));
}

class CudaDraftHeads : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Folders, CudaDraftHeads, testing::Values("plain", "norms", "two_layers"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(CudaDraftHeads, have_the_logits_of_the_paper) {
  const std::string folder = source_folder() + "/tests/golden/heads/" + GetParam();
  const Model of = plain_target();
  auto opened = open_head(folder, of);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  if (opened->head->norm_before_residual < 0) opened->head->norm_before_residual = 0;
  EXPECT_LE(worst_of(*opened, folder), kTolerance);
}

class CudaModules : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Folders, CudaModules,
                         testing::Values("glm4_moe", "qwen2_mimo", "ernie4_5_moe"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(CudaModules, have_the_logits_of_their_layers) {
  const std::string folder = golden_models() + "../mtp/" + GetParam();
  const auto of = open_model(folder);
  ASSERT_TRUE(of.ok()) << of.status().message();
  const auto opened = open_own_head(**of);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_LE(worst_of(*opened, folder), kTolerance);
}

#ifndef TENON_CUDA_TESTS_ON_A_GPU
// What is counted before anything is uploaded is what is allocated: a device with exactly that much
// holds the head, and with a byte less it is refused.
TEST(CudaHeadMemory, is_counted_to_the_byte) {
  const Model of = plain_target();
  const auto opened = open_head(source_folder() + "/tests/golden/heads/norms", of);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const auto driver = std::make_shared<TestDriver>();
  const HeadDriver whole(make_cuda_executor(driver), nullptr, *opened);
  const uint64_t taken = driver->machine().allocated_bytes();
  ASSERT_GT(taken, 0u);
  const HeadDriver exact(make_cuda_executor(std::make_shared<TestDriver>(taken)), nullptr, *opened);
  EXPECT_TRUE(exact.loaded().ok()) << exact.loaded().message();
  const HeadDriver less(make_cuda_executor(std::make_shared<TestDriver>(taken - 1)), nullptr,
                        *opened);
  EXPECT_THAT(std::string(less.loaded().message()), HasSubstr("the model needs"));
}
#endif

TEST(CudaHeadKinds, that_see_rows_behind_them_are_refused) {
  const Model of = plain_target();
  auto opened = open_head(source_folder() + "/tests/golden/heads/dspark", of);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const auto executor = make_cuda_executor(std::make_shared<TestDriver>());
  dynamic_cast<HeadHost&>(*executor).take_head(*opened->head);
  const ModelShapeStorage shape(opened->model->plan, 16);
  const KvGroupGeometry group = {DType::f32, 16, 4, 1024, 0};
  ExecutorSetup setup;
  setup.model = opened->model.get();
  setup.shape = &shape.shape();
  setup.geometry = {16, 1, 1, &group};
  setup.max_rows = 16;
  setup.max_sequences = 1;
  EXPECT_THAT(std::string(executor->load(setup).message()),
              HasSubstr("a head of the kind 'dflash', whose rows see rows behind them"));
}

}  // namespace
}  // namespace tenon::cuda::test
