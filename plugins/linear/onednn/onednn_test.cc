// oneDNN takes one limit of its instruction set in a process, so each set has a run of its own:
// ctest gives its name in TENON_TEST_ISA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/linear.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "plugins/linear/onednn/layout.h"
#include "plugins/linear/onednn/library.h"
#include "plugins/linear/onednn/products.h"
#include "tests/support/linear/linear_rig.h"
#include "tests/support/linear/plain_kernel_battery.h"

extern "C" int omp_get_max_threads() noexcept;
extern "C" void omp_set_num_threads(int count) noexcept;

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

CpuFeatures isa_under_test() {
  const char* name = std::getenv("TENON_TEST_ISA");
  const CpuFeatures here = detect_cpu_features();
  return name == nullptr ? here : lowered(here, *parse_cpu_isa(name));
}
bool has_bf16() {
  return isa_under_test().has(CpuFeature::avx512);
}

PlainKernelCase variant() {
  PlainKernelCase made{.id = "onednn", .isa = isa_under_test(), .bf16_tolerance = 3e-3};
  made.formats = {"f32"};
  if (has_bf16()) made.formats.push_back("bf16");
  return made;
}
INSTANTIATE_TEST_SUITE_P(OneDnn, PlainKernel, testing::Values(variant()), plain_kernel_name);

class OneDnn : public testing::Test {
 protected:
  // y of `job` for rows in any order, all of one weight.
  std::vector<float> multiply_rows(const PlainWeight& weight, const std::vector<float>& x,
                                   uint32_t x_rows, const std::vector<uint32_t>& rows) {
    PackedWeight packed = rig_.pack(weight.view());
    Aligned prepared = rig_.prepare(packed, x, x_rows);
    std::vector<float> y(rows.size() * weight.n_out, NAN);
    LinearJob job = rig_.job(packed, prepared, x_rows, y);
    job.rows = rows;
    rig_.run({job}, 2);
    return y;
  }
  LinearRig rig_{"onednn", isa_under_test()};
};

TEST_F(OneDnn, chosen_rows_in_any_order_are_the_rows_that_were_prepared) {
  constexpr uint32_t kRows = 50, kIn = 130;
  const PlainWeight weight("f32", 70, kIn, 3);
  const std::vector<float> x = random_values(5, kRows * kIn);
  for (const std::vector<uint32_t>& rows :
       {std::vector<uint32_t>{49}, {3, 1, 2}, {9, 9, 0, 48, 7, 30, 31, 5}}) {
    std::vector<float> chosen;
    for (uint32_t row : rows) chosen.insert(chosen.end(), &x[row * kIn], &x[row * kIn] + kIn);
    EXPECT_LE(relative_rms(multiply_rows(weight, x, kRows, rows),
                           reference_product(weight, chosen, static_cast<uint32_t>(rows.size()))),
              1e-5);
  }
}

TEST_F(OneDnn, more_rows_and_columns_than_a_tile_holds_are_multiplied_in_several) {
  const PlainWeight wide("f32", 8500, 8, 3);
  const std::vector<float> one = random_values(5, 8);
  EXPECT_LE(relative_rms(rig_.multiply(wide.view(), one, 1), reference_product(wide, one, 1)),
            1e-5);
  const PlainWeight narrow("f32", 600, 40, 3);
  const std::vector<float> many = random_values(5, 1100 * 40);
  EXPECT_LE(relative_rms(rig_.multiply(narrow.view(), many, 1100, 3),
                         reference_product(narrow, many, 1100)),
            1e-5);
}

TEST_F(OneDnn, rows_too_long_to_be_brought_together_are_taken_one_by_one) {
  constexpr uint32_t kIn = 300'000;
  const PlainWeight weight("f32", 3, kIn, 3);
  const std::vector<float> x = random_values(5, 3 * kIn);
  std::vector<float> turned(x.begin() + 2 * kIn, x.end());
  turned.insert(turned.end(), x.begin(), x.begin() + kIn);
  EXPECT_LE(relative_rms(multiply_rows(weight, x, 3, {2, 0}), reference_product(weight, turned, 2)),
            1e-5);
}

TEST_F(OneDnn, packed_bytes_are_the_same_however_many_slices_packed_them) {
  const PlainWeight weight("f32", 200, 100, 3);
  const uint64_t bytes = rig_.kernel().packed_bytes(weight.view());
  PackedWeight whole = rig_.pack(weight.view(), 1);
  PackedWeight shared = rig_.pack(weight.view(), 3);
  EXPECT_EQ(std::memcmp(whole.get(), shared.get(), bytes), 0);
  EXPECT_GE(bytes, 200 * 100 * sizeof(float));
}

TEST_F(OneDnn, a_kernel_call_starts_no_threads_and_leaves_the_callers_openmp_as_it_was) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const PlainWeight weight("f32", 512, 512, 3);
  const std::vector<float> x = random_values(5, 64 * 512);
  omp_set_num_threads(3);
  const auto before = threads();
  rig_.multiply(weight.view(), x, 64, 2);
  EXPECT_EQ(threads(), before);
  EXPECT_EQ(omp_get_max_threads(), 3);
}

TEST_F(OneDnn, slices_may_run_at_the_same_time) {
  const PlainWeight weight("f32", 700, 96, 3);
  const std::vector<float> x = random_values(5, 33 * 96);
  PackedWeight packed = rig_.pack(weight.view());
  Aligned prepared = rig_.prepare(packed, x, 33);
  std::vector<float> y(33 * 700, NAN);
  const LinearJob job = rig_.job(packed, prepared, 33, y);
  Status ran[4];
  std::vector<std::jthread> workers;
  for (uint32_t i = 0; i < 4; ++i) {
    workers.emplace_back([&, i] { ran[i] = rig_.kernel().run({&job, 1}, {i, i + 1, 4, i}, {}); });
  }
  workers.clear();
  for (const Status& status : ran) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_LE(relative_rms(y, reference_product(weight, x, 33)), 1e-5);
}

TEST_F(OneDnn, the_numerics_name_the_library_and_its_instruction_set) {
  const std::string name(rig_.kernel().numerics());
  EXPECT_THAT(name, StartsWith("onednn-2."));
  const CpuFeatures isa = isa_under_test();
  const char* set = !isa.has(CpuFeature::avx2)     ? "/sse41"
                    : !isa.has(CpuFeature::avx512) ? "/avx2"
                                                   : "/avx512";
  EXPECT_THAT(name, HasSubstr(set));
}

TEST_F(OneDnn, weights_it_cannot_run_are_refused_with_the_reason) {
  PlainWeight weight("f32", 4, 8, 1);
  WeightView view = weight.view();
  EXPECT_TRUE(rig_.kernel().accepts(view).ok());
  view.format = "f16";
  EXPECT_EQ(rig_.kernel().accepts(view).message(),
            "weight \"w\" has format \"f16\"; \"onednn\" multiplies f32 and bf16; choose "
            "linear.plugin = \"dense\", or \"auto\"");
  EXPECT_EQ(rig_.kernel().packed_bytes(view), 0u);
  view.format = "f32";
  weight.tensor.stride[1] = 2;
  EXPECT_EQ(rig_.kernel().accepts(view).message(),
            "weight \"w\" is not row-major in host memory, as \"onednn\" expects");
  weight.tensor.stride[1] = 1;
  weight.tensor.stride[0] = uint64_t{1} << 60;
  EXPECT_EQ(rig_.kernel().accepts(view).message(),
            "weight \"w\" is larger than any machine's memory; the checkpoint is damaged");
}

TEST_F(OneDnn, bf16_is_refused_where_only_reference_code_would_run) {
  if (has_bf16()) GTEST_SKIP() << "bf16 runs with this instruction set";
  const PlainWeight weight("bf16", 4, 8, 1);
  const std::string name(rig_.kernel().numerics());
  EXPECT_EQ(rig_.kernel().accepts(weight.view()).message(),
            "weight \"w\" has format \"bf16\", for which " + name +
                " has no fast code on this processor (bf16 needs AVX-512); choose linear.plugin = "
                "\"dense\", or \"auto\"");
}

TEST(OneDnnDescriptor, rows_may_depend_on_the_batch_and_auto_prefers_any_other) {
  const PluginDescriptor* onednn = find_descriptor("onednn");
  bool batch = false;
  for (const Fact& fact : std::span(onednn->provides, onednn->provide_count)) {
    batch = batch || (fact.key == "numerics.rows" && fact.words == "batch");
  }
  EXPECT_TRUE(batch);
  EXPECT_EQ(onednn->score(HostFacts()), 1u);
}

TEST(OneDnnLimit, a_limit_that_comes_too_late_is_said_to_be_ignored) {
  if (!isa_under_test().has(CpuFeature::avx2)) GTEST_SKIP() << "nothing is lower";
  const LinearRig first("onednn", isa_under_test());
  TestHost late;
  late.facts.cpu = kCpuPortable;
  const PluginInstance<LinearKernel> second("onednn", late);
  ASSERT_EQ(late.lines.size(), 1u);
  EXPECT_THAT(late.lines[0], StartsWith("oneDNN was first used in this process with "));
  EXPECT_THAT(late.lines[0], HasSubstr("cannot go back to sse41; start again for the lower set"));
}

class Kept : public testing::Test {
 protected:
  Kept() { onednn::find_layout(engine_, onednn::Format::f32, 32, layout_); }
  void multiply(uint32_t rows) {
    const std::vector<float> x(rows * onednn::padded(32), 1.0f);
    std::vector<float> weights(32 * onednn::kPanelColumns, 0.5f);
    std::vector<float> sums(size_t{rows} * onednn::kPanelColumns, NAN);
    products_.multiply(layout_, rows, 1, reinterpret_cast<const std::byte*>(x.data()),
                       reinterpret_cast<const std::byte*>(weights.data()), sums.data());
    ASSERT_EQ(sums, std::vector<float>(sums.size(), 16.0f)) << rows << " rows";
  }
  uint64_t made() { return host_.counters["primitives_made"]; }

  onednn::OneThread one_thread_;
  TestHost host_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  onednn::Layout layout_;
  onednn::Products products_{host_.services, engine_};
};

TEST_F(Kept, weights_are_in_blocks_where_avx512_multiplies_them) {
  const bool blocked = layout_.panel.format_desc.blocking.inner_nblks > 0;
  EXPECT_EQ(blocked, isa_under_test().has(CpuFeature::avx512));
}

TEST_F(Kept, a_shape_is_compiled_once) {
  for (int i = 0; i < 5; ++i) multiply(7);
  EXPECT_EQ(made(), 1u);
  multiply(8);
  EXPECT_EQ(made(), 2u);
}

TEST_F(Kept, beyond_its_size_the_shape_that_was_not_used_for_longest_is_forgotten) {
  for (uint32_t rows = 1; rows <= onednn::kKeptProducts; ++rows) multiply(rows);
  multiply(1);
  EXPECT_EQ(made(), onednn::kKeptProducts);
  multiply(onednn::kKeptProducts + 1);  // in place of 2 rows
  multiply(1);
  EXPECT_EQ(made(), onednn::kKeptProducts + 1);
  multiply(2);
  EXPECT_EQ(made(), onednn::kKeptProducts + 2);
}

}  // namespace
}  // namespace tenon
