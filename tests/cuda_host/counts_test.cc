// What launches are said to have done, of kernels of which it is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/cuda/emulator.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cuda::test {
namespace {

using testing::Key;
using testing::UnorderedElementsAre;

constexpr uint32_t kFloats = 256;

// `in` and `out` of 256 floats.
class CountsTest : public testing::Test {
 protected:
  CountsTest() {
    in_ = reinterpret_cast<float*>(machine_.allocate(kFloats * sizeof(float), "in"));
    out_ = reinterpret_cast<float*>(machine_.allocate(kFloats * sizeof(float), "out"));
    const std::vector<float> ones(kFloats, 1.0f);
    machine_.copy_in(in_, ones.data(), kFloats * sizeof(float));
    machine_.copy_in(out_, ones.data(), kFloats * sizeof(float));
    config_.name = "known";
    config_.block.x = kWarp;
    config_.shared_bytes = 4096;
  }
  // The counts of a launch, which are all that it is recorded with.
  template <typename Kernel>
  Counts count(Kernel kernel) {
    machine_.record_launches();
    launch(config_, kernel, in_, out_);
    for (const Finding& finding : machine_.findings()) ADD_FAILURE() << finding.message();
    return machine_.records().empty() ? Counts() : machine_.records().back().counts;
  }

  Emulator machine_;
  LaunchConfig config_;
  float *in_, *out_;
};

// Each thread reads one number that all read, and one of its own.
__global__ void shared_and_own(Global<const float> in, Global<float> out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  out[i] = in[0] + in[i];
  __syncthreads();
}

TEST_F(CountsTest, tell_bytes_that_were_asked_for_from_bytes_that_must_move) {
  config_.grid.x = 2;
  config_.block.x = 64;
  Counts expected;
  expected.launches = 1;
  expected.blocks = 2;
  expected.read_bytes = 128 * 2 * 4;
  expected.written_bytes = 128 * 4;
  expected.barriers = 2;
  expected.touched_read_bytes = 128 * 4;
  expected.touched_written_bytes = 128 * 4;
  EXPECT_EQ(count(shared_and_own), expected);
}

TEST_F(CountsTest, begin_anew_with_each_launch) {
  const Counts first = count(shared_and_own);
  EXPECT_EQ(count(shared_and_own), first);
  EXPECT_EQ(first.touched_read_bytes, 32u * 4);
  EXPECT_EQ(machine_.counts().touched_read_bytes, 2u * 32 * 4);
}

// Reads back what it wrote, which memory need not be asked for, and what it did not.
__global__ void reads_back(Global<const float>, Global<float> out) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = 2.0f;
  out[i] += 1.0f;
  out[64 + i] += 1.0f;
}

TEST_F(CountsTest, do_not_fetch_what_the_launch_itself_wrote) {
  const Counts counts = count(reads_back);
  EXPECT_EQ(counts.read_bytes, 2u * 32 * 4);
  EXPECT_EQ(counts.written_bytes, 3u * 32 * 4);
  EXPECT_EQ(counts.touched_read_bytes, 32u * 4);
  EXPECT_EQ(counts.touched_written_bytes, 2u * 32 * 4);
}

// 16 bytes a thread come to shared memory, of the last thread's 8 are zeros; each reads 4 of them.
__global__ void copies(Global<const float> in, Global<float> out) {
  SharedArena arena;
  Shared<float> there = arena.take<float>(128);
  const int i = static_cast<int>(threadIdx.x);
  copy_async_16(there + i * 4, in + i * 4, i == 31 ? 8 : 16);
  copy_async_commit();
  copy_async_wait<0>();
  out[i] = there[i * 4];
}

TEST_F(CountsTest, know_shared_memory_and_asynchronous_copies) {
  const Counts counts = count(copies);
  EXPECT_EQ(counts.async_copies, 32u);
  EXPECT_EQ(counts.read_bytes, 31u * 16 + 8);
  EXPECT_EQ(counts.touched_read_bytes, 31u * 16 + 8);
  EXPECT_EQ(counts.shared_written_bytes, 32u * 16);
  EXPECT_EQ(counts.shared_read_bytes, 32u * 4);
}

// Two products of each type, over one matrix that was loaded by ldmatrix.
__global__ void products(Global<const float>, Global<float> out) {
  SharedArena arena;
  Shared<uint32_t> there = arena.take<uint32_t>(128);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 128; i += 32) there[i] = 0;
  __syncwarp();
  uint32_t a[4];
  load_matrix_x4(a, there + lane * 4);
  float sums[4] = {};
  int32_t integers[4] = {};
  for (int i = 0; i < 2; ++i) {
    mma_bf16(sums, a, {a[0], a[1]});
    mma_f16(sums, a, {a[0], a[1]});
    mma_s8(integers, a, {a[0], a[1]});
  }
  out[lane] = sums[0] + static_cast<float>(integers[0]);
}

TEST_F(CountsTest, know_the_operations_of_each_type) {
  const Counts counts = count(products);
  EXPECT_EQ(counts.mma, 6u);
  EXPECT_EQ(counts.bf16_operations, 2u * 4096);
  EXPECT_EQ(counts.f16_operations, 2u * 4096);
  EXPECT_EQ(counts.s8_operations, 2u * 8192);
  EXPECT_EQ(counts.shared_read_bytes, 32u * 16);
  EXPECT_EQ(counts.shared_written_bytes, 512u);
}

TEST_F(CountsTest, are_summed_up_by_the_names_of_launches) {
  count(shared_and_own);
  count(shared_and_own);
  config_.name = "other";
  count(reads_back);
  const auto sums = machine_.recorded_counts();
  EXPECT_THAT(sums, UnorderedElementsAre(Key("known"), Key("other")));
  EXPECT_EQ(sums.at("known").launches, 2u);
  EXPECT_EQ(sums.at("known").read_bytes, 2u * 2 * 32 * 4);
  EXPECT_EQ(machine_.records()[2].kernel, reinterpret_cast<const void*>(&reads_back));
  EXPECT_EQ(machine_.records()[2].shared_bytes, 4096u);
}

TEST_F(CountsTest, know_what_a_launch_asks_for_without_running_it) {
  machine_.record_launches(Emulator::Run::never);
  launch(config_, shared_and_own, nullptr, nullptr);
  ASSERT_EQ(machine_.records().size(), 1u);
  EXPECT_EQ(machine_.records()[0].block.x, kWarp);
  EXPECT_EQ(machine_.records()[0].counts.blocks, 0u);
  EXPECT_TRUE(machine_.findings().empty());
}

TEST_F(CountsTest, record_nothing_that_nobody_asked_for) {
  launch(config_, shared_and_own, in_, out_);
  EXPECT_TRUE(machine_.records().empty());
  EXPECT_EQ(machine_.counts().read_bytes, 2u * 32 * 4);
  EXPECT_EQ(machine_.counts().touched_read_bytes, 0u);
}

}  // namespace
}  // namespace tenon::cuda::test
