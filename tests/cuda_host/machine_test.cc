// That operations of a warp compute what the manual says, and that layouts are CuTe's.
#include <gtest/gtest.h>
#include <tenon/cuda/emulator.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cuda_host/fragment_table.h"

namespace tenon::cuda::test {
namespace {

FragmentPlace turned(FragmentPlace place) {
  return {place.column, place.row};
}

TEST(FragmentLayout, is_that_of_another_library) {
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(a_place_16(lane, i), kTableA16[lane][i]);
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(turned(b_place_16(lane, i)), kTableB16[lane][i]);
    for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(a_place_8(lane, i), kTableA8[lane][i]);
    for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(turned(b_place_8(lane, i)), kTableB8[lane][i]);
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(d_place(lane, i), kTableD[lane][i]);
    for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(matrix_place(lane, i), kTableMatrix[lane][i]);
  }
}

// One warp, with `in` and `out` of as many floats as asked for.
struct Warp {
  explicit Warp(uint32_t in_count, uint32_t out_count, uint64_t seed = 1) : machine(seed) {
    in = reinterpret_cast<float*>(machine.allocate(in_count * sizeof(float), "in"));
    out = reinterpret_cast<float*>(machine.allocate(out_count * sizeof(float), "out"));
    values.resize(in_count);
    for (uint32_t i = 0; i < in_count; ++i) values[i] = static_cast<float>(i * 7 % 23) - 11.0f;
    machine.copy_in(in, values.data(), in_count * sizeof(float));
    result.resize(out_count);
    config.name = "test";
    config.block.x = kWarp;
    config.shared_bytes = 4096;
  }
  template <typename Kernel>
  std::vector<float>& run(Kernel kernel) {
    launch(config, kernel, in, out);
    for (const Finding& finding : machine.findings()) ADD_FAILURE() << finding.message();
    machine.copy_out(result.data(), out, result.size() * sizeof(float));
    return result;
  }

  Emulator machine;
  LaunchConfig config;
  float *in, *out;
  std::vector<float> values, result;
};

// D = A · B with A in the first 256 numbers of `in` [16, 16], B in the next 128, as [n, k].
// `shift` takes B's elements from the wrong lane.
template <int shift, bool half>
__global__ void product(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int lane = static_cast<int>(threadIdx.x);
  Shared<BFloat16> a = arena.take<BFloat16>(16 * 24);
  Shared<BFloat16> b = arena.take<BFloat16>(8 * 24);
  const auto convert = [](float x) { return half ? BFloat16{to_half(x).bits} : to_bfloat16(x); };
  for (int i = lane; i < 256; i += 32) a[i / 16 * 24 + i % 16] = convert(in[i]);
  for (int i = lane; i < 128; i += 32) b[i / 16 * 24 + i % 16] = convert(in[256 + i]);
  __syncwarp();
  uint32_t ra[4], rb[2];
  const int from = (lane + shift) % 32;
  load_matrix_x4(ra, a + (lane % 16) * 24 + lane / 16 * 8);
  load_matrix_x2(rb, b + (from % 8) * 24 + from / 8 % 2 * 8);
  float d[4] = {};
  if (half) {
    mma_f16(d, ra, rb);
  } else {
    mma_bf16(d, ra, rb);
  }
  for (int i = 0; i < 4; ++i) {
    out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
  }
}

std::vector<float> plain_product(const std::vector<float>& in) {
  std::vector<float> d(128, 0.0f);
  for (uint32_t i = 0; i < 128; ++i) {
    for (uint32_t k = 0; k < 16; ++k) d[i] += in[i / 8 * 16 + k] * in[256 + i % 8 * 16 + k];
  }
  return d;
}

TEST(Machine, multiplies_matrices_of_bf16_and_f16) {
  Warp warp(384, 128);
  EXPECT_EQ(warp.run(product<0, false>), plain_product(warp.values));
  EXPECT_EQ(warp.run(product<0, true>), plain_product(warp.values));
}

TEST(Machine, gives_another_product_where_fragments_come_from_the_wrong_lane) {
  Warp warp(384, 128);
  EXPECT_NE(warp.run(product<1, false>), plain_product(warp.values));
}

__global__ void integer_product(Global<const float> in, Global<float> out) {
  const int lane = static_cast<int>(threadIdx.x);
  uint32_t a[4] = {}, b[2] = {};
  const auto byte = [&](int i) {
    const float x = in[i];
    return static_cast<uint32_t>(static_cast<uint8_t>(static_cast<int8_t>(x)));
  };
  for (int i = 0; i < 16; ++i) {
    const int row = lane / 4 + i / 4 % 2 * 8;
    a[i / 4] |= byte(row * 32 + lane % 4 * 4 + i % 4 + i / 8 * 16) << (8 * (i % 4));
  }
  for (int i = 0; i < 8; ++i) {
    b[i / 4] |= byte(512 + lane / 4 * 32 + lane % 4 * 4 + i % 4 + i / 4 * 16) << (8 * (i % 4));
  }
  int32_t d[4] = {1, 1, 1, 1};
  mma_s8(d, a, b);
  for (int i = 0; i < 4; ++i) {
    out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = static_cast<float>(d[i]);
  }
}

TEST(Machine, multiplies_matrices_of_bytes) {
  Warp warp(768, 128);
  std::vector<float> expected(128, 1.0f);
  for (uint32_t i = 0; i < 128; ++i) {
    for (uint32_t k = 0; k < 32; ++k) {
      expected[i] += warp.values[i / 8 * 32 + k] * warp.values[512 + i % 8 * 32 + k];
    }
  }
  EXPECT_EQ(warp.run(integer_product), expected);
}

__global__ void transposed(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int lane = static_cast<int>(threadIdx.x);
  Shared<BFloat16> tile = arena.take<BFloat16>(256);
  for (int i = lane; i < 256; i += 32) tile[i] = to_bfloat16(in[i]);
  __syncwarp();
  uint32_t r[4];
  load_matrix_x4_transposed(r, tile + lane * 8);
  for (int i = 0; i < 8; ++i) {
    const auto bits = static_cast<uint16_t>(r[i / 2] >> (16 * (i % 2)));
    out[i / 2 * 64 + (lane % 4 * 2 + i % 2) * 8 + lane / 4] = to_float(BFloat16{bits});
  }
}

TEST(Machine, transposes_matrices_while_loading_them) {
  Warp warp(256, 256);
  EXPECT_EQ(warp.run(transposed), warp.values);
}

__global__ void shuffled(Global<const float> in, Global<float> out) {
  const int lane = static_cast<int>(threadIdx.x);
  const float x = in[lane];
  out[lane] = __shfl_sync(kAllLanes, x, 5);
  out[32 + lane] = __shfl_xor_sync(kAllLanes, x, 3);
  out[64 + lane] = __shfl_down_sync(kAllLanes, x, 2, 8);
  out[96 + lane] = __shfl_up_sync(kAllLanes, x, 1);
  out[128 + lane] = static_cast<float>(__ballot_sync(kAllLanes, lane < 4));
  out[160 + lane] =
      __all_sync(kAllLanes, lane < 32) && !__any_sync(kAllLanes, lane > 31) ? 1.0f : 0.0f;
}

TEST(Machine, exchanges_values_between_lanes) {
  Warp warp(32, 192);
  const std::vector<float>& got = warp.run(shuffled);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(got[lane], warp.values[5]);
    EXPECT_EQ(got[32 + lane], warp.values[lane ^ 3]);
    EXPECT_EQ(got[64 + lane], warp.values[lane % 8 < 6 ? lane + 2 : lane]);
    EXPECT_EQ(got[96 + lane], warp.values[lane > 0 ? lane - 1 : 0]);
    EXPECT_EQ(got[128 + lane], 15.0f);
    EXPECT_EQ(got[160 + lane], 1.0f);
  }
}

__global__ void filled_up(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int lane = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(128);
  copy_async_16(tile + 4 * lane, in + 4 * lane, lane == 31 ? 8 : lane == 30 ? 0 : 16);
  copy_async_commit();
  copy_async_wait<0>();
  for (int i = 0; i < 4; ++i) out[4 * lane + i] = tile[4 * lane + i];
}

TEST(Machine, fills_what_an_asynchronous_copy_leaves_out_with_zeros) {
  Warp warp(126, 128);
  std::vector<float> expected = warp.values;
  for (uint32_t i = 120; i < 124; ++i) expected[i] = 0.0f;
  expected.resize(128, 0.0f);
  EXPECT_EQ(warp.run(filled_up), expected);
}

__global__ void sum_as_they_come(Global<const float> in, Global<float> out) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == 0) out[0] = 0.0f;
  __syncwarp();
  atomic_add(out, in[lane] * 0.1f);
}

TEST(Machine, adds_atomically_in_an_order_that_seeds_choose) {
  bool different = false;
  const float first = Warp(32, 1).run(sum_as_they_come)[0];
  for (uint64_t seed = 2; seed < 30; ++seed) {
    Warp warp(32, 1, seed);
    const float sum = warp.run(sum_as_they_come)[0];
    EXPECT_NEAR(sum, first, 1e-4f);
    different |= sum != first;
  }
  EXPECT_TRUE(different);
}

__global__ void registers(Global<const float>, Global<float> out) {
  float sum[4];
  sum[threadIdx.x % 4] = 0.0f;
  out[static_cast<int>(threadIdx.x)] = sum[(threadIdx.x + 1) % 4];
}

TEST(Machine, fills_registers_that_nobody_wrote_with_a_pattern) {
  Warp warp(1, 32);
  for (const float x : warp.run(registers)) EXPECT_LT(x, -1e30f);
}

TEST(Machine, raises_2_to_a_power_as_far_as_normal_numbers_go) {
  EXPECT_EQ(exp2_approx(0.0f), 1.0f);
  EXPECT_EQ(exp2_approx(-126.0f), 0x1p-126f);
  EXPECT_EQ(exp2_approx(-127.0f), 0.0f);
  EXPECT_EQ(exp2_approx(-INFINITY), 0.0f);
  EXPECT_NEAR(exp2_approx(-0.5f), 0.70710678f, 1e-6f);
}

TEST(Machine, rounds_sixteen_bit_floats_to_nearest_even) {
  EXPECT_EQ(to_bfloat16(1.00390625f).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.01171875f).bits, 0x3f82);
  EXPECT_EQ(to_bfloat16(INFINITY).bits, 0x7f80);
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    EXPECT_EQ(to_half(to_float(half)).bits, half.bits);
    EXPECT_EQ(to_half(-to_float(half)).bits, half.bits | 0x8000);
  }
  EXPECT_EQ(to_half(0x1p-25f).bits, 0);
  EXPECT_EQ(to_half(0x1.8p-25f).bits, 1);
  EXPECT_EQ(to_half(65519.0f).bits, 0x7bff);
  EXPECT_EQ(to_half(65520.0f).bits, 0x7c00);
}

// 1 and 3 times 2 and -0.5; sums; the least of all numbers becomes a usual one.
TEST(Machine, adds_and_multiplies_pairs_of_sixteen_bits) {
  const uint32_t a = pack_bfloat16(1.0f, 3.0f), b = pack_bfloat16(2.0f, -0.5f);
  EXPECT_EQ(add_bfloat16_pairs(a, b), pack_bfloat16(3.0f, 2.5f));
  EXPECT_EQ(multiply_bfloat16_pairs(a, b), pack_bfloat16(2.0f, -1.5f));
  EXPECT_EQ(multiply_bfloat16_pairs(0x00018001u, 0x7b807b80u), pack_bfloat16(-0x1p-13f, 0x1p-13f));
  EXPECT_EQ(multiply_bfloat16_pairs(0x80000000u, a), 0x80000000u);
}

TEST(Machine, runs_the_same_for_the_same_seed) {
  EXPECT_EQ(Warp(32, 1, 5).run(sum_as_they_come), Warp(32, 1, 5).run(sum_as_they_come));
}

TEST(Machine, counts_bytes_and_products) {
  Warp warp(384, 128);
  warp.run(product<0, false>);
  EXPECT_EQ(warp.machine.counts().mma, 1u);
  EXPECT_EQ(warp.machine.counts().read_bytes, 384u * 4);
  EXPECT_EQ(warp.machine.counts().written_bytes, 128u * 4);
}

TEST(Machine, refuses_launches_that_no_device_takes) {
  Warp warp(1, 32);
  warp.config.block.x = 2048;
  EXPECT_NE(launch(warp.config, registers, warp.in, warp.out), 0);
  ASSERT_EQ(warp.machine.findings().size(), 1u);
  EXPECT_EQ(warp.machine.findings()[0].kind, FindingKind::bad_launch);
}

TEST(Machine, knows_what_of_an_array_was_written) {
  Emulator machine(1);
  const float numbers[] = {1.0f, 2.0f};
  std::byte* const at = machine.allocate(16, "an array");
  EXPECT_FALSE(machine.written(at, 1));
  machine.copy_in(at + 4, numbers, sizeof(numbers));
  EXPECT_TRUE(machine.written(at + 4, 8));
  EXPECT_FALSE(machine.written(at + 3, 2));
  EXPECT_FALSE(machine.written(at + 8, 8));
  EXPECT_FALSE(machine.written(at + 12, 5)) << "beyond its end";
  machine.forget(at);
  EXPECT_FALSE(machine.written(at + 4, 1));
  EXPECT_FALSE(machine.written(numbers, 1)) << "memory of the host";
}

TEST(Machine, says_what_was_found_what_was_expected_and_what_to_do) {
  Warp warp(1, 16);
  launch(warp.config, registers, warp.in, warp.out);
  ASSERT_EQ(warp.machine.findings().size(), 1u);
  const std::string text = warp.machine.findings()[0].message();
  EXPECT_TRUE(text.find("kernel 'test', ") == 0) << text;
  EXPECT_NE(text.find("out of bounds: thread ("), std::string::npos) << text;
  EXPECT_NE(text.find("of 'out', which has 64; keep indices below the array's length"),
            std::string::npos)
      << text;
}

TEST(Machine, is_late_where_work_is_put_on_a_queue) {
  Warp warp(32, 1);
  LateQueue queue;
  warp.config.stream = &queue;
  launch(warp.config, sum_as_they_come, warp.in, warp.out);
  EXPECT_EQ(warp.machine.counts().launches, 0u);
  queue.run_all();
  EXPECT_EQ(warp.machine.counts().launches, 1u);
}

__global__ void copies_before_it_waits(Global<const float> in, Global<float> out) {
  const float x = in[static_cast<int>(threadIdx.x)];
  let_next_start();
  wait_for_earlier();
  out[static_cast<int>(threadIdx.x)] = x;
}

TEST(Machine, lets_kernels_read_early_what_the_host_copied_behind_the_last_that_wrote) {
  for (const bool again : {false, true}) {
    Emulator machine;
    auto* a = reinterpret_cast<float*>(machine.allocate(128, "a"));
    auto* b = reinterpret_cast<float*>(machine.allocate(128, "b"));
    const std::vector<float> numbers(kWarp, 3.0f);
    machine.copy_in(a, numbers.data(), 128);
    LaunchConfig config;
    config.name = "test";
    config.block.x = kWarp;
    config.overlaps = true;
    launch(config, copies_before_it_waits, a, b);
    EXPECT_TRUE(machine.findings().empty());
    if (again) machine.copy_in(b, numbers.data(), 128);
    launch(config, copies_before_it_waits, b, a);
    ASSERT_EQ(machine.findings().size(), again ? 0u : 1u);
    if (again) continue;
    EXPECT_EQ(machine.findings()[0].kind, FindingKind::too_early);
  }
}

// It has no line: nothing in the block says where it should have waited.
TEST(Machine, finds_kernels_that_never_wait) {
  Emulator machine;
  auto* a = reinterpret_cast<float*>(machine.allocate(128, "a"));
  LaunchConfig config;
  config.name = "test";
  config.block.x = kWarp;
  config.overlaps = true;
  launch(
      config, +[](Global<float>) {}, a);
  ASSERT_EQ(machine.findings().size(), 1u);
  EXPECT_TRUE(machine.findings()[0].message().starts_with("kernel 'test': no wait: thread "));
}

}  // namespace
}  // namespace tenon::cuda::test
