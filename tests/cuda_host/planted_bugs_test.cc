// Every mistake is found with its kernel and line, under any order; correct twins run clean.
#include "tests/cuda_host/planted_bugs.h"

#include <gtest/gtest.h>
#include <tenon/cuda/emulator.h>

#include <algorithm>
#include <fstream>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/folders.h"

namespace tenon::cuda::test {
namespace {

constexpr uint32_t kOut = 2 * kThreads;
constexpr uint32_t kIn = 4 * kThreads;

struct Arrays {
  explicit Arrays(Emulator& machine) {
    in = reinterpret_cast<float*>(machine.allocate(kIn * sizeof(float), "in"));
    out = reinterpret_cast<float*>(machine.allocate(kOut * sizeof(float), "out"));
    more = reinterpret_cast<float*>(machine.allocate(kOut * sizeof(float), "more"));
    const std::vector<float> ones(kIn, 1.0f), zeros(kOut, 0.0f);
    machine.copy_in(in, ones.data(), kIn * sizeof(float), Content::constant);
    machine.copy_in(out, zeros.data(), kOut * sizeof(float));
  }
  float *in, *out, *more;
};

using Run = void (*)(const LaunchConfig& config, const Arrays& arrays, bool bug);
struct Planted {
  const char* name;
  std::set<FindingKind> kinds;  // whichever comes first
  Run run;
  uint32_t blocks = 1;
};

// Of functions with `config`, `arrays` and `bug`.
#define TENON_RUN(kernel, ...)                  \
  if (bug) {                                    \
    launch(config, kernel<true>, __VA_ARGS__);  \
  } else {                                      \
    launch(config, kernel<false>, __VA_ARGS__); \
  }
#define TENON_PLANTED(kernel, ...)                                                  \
  [](const LaunchConfig& config, const Arrays& arrays, [[maybe_unused]] bool bug) { \
    (void)arrays;                                                                   \
    TENON_RUN(kernel, __VA_ARGS__)                                                  \
  }

// The same with `overlaps`, after a kernel that writes `out`.
#define TENON_PLANTED_BEHIND(kernel, ...)                            \
  [](const LaunchConfig& in_front, const Arrays& arrays, bool bug) { \
    launch(in_front, next_block<false>, arrays.out);                 \
    LaunchConfig config = in_front;                                  \
    config.overlaps = true;                                          \
    TENON_RUN(kernel, __VA_ARGS__)                                   \
  }

using enum FindingKind;
const Planted kPlanted[] = {
    {"missing_barrier", {race}, TENON_PLANTED(missing_barrier, arrays.out)},
    {"missing_warp_barrier", {race}, TENON_PLANTED(missing_warp_barrier, arrays.out)},
    {"tail", {out_of_bounds}, TENON_PLANTED(tail, arrays.in, arrays.out + 8, int{kOut - 8}), 1},
    {"two_writers", {race}, TENON_PLANTED(two_writers, arrays.out)},
    {"part_of_a_row", {race}, TENON_PLANTED(part_of_a_row, arrays.out), 2},
    {"late_copy", {not_landed}, TENON_PLANTED(late_copy, arrays.in, arrays.out)},
    {"wrong_group", {not_landed}, TENON_PLANTED(wrong_group, arrays.in, arrays.out)},
    {"copy_without_barrier",
     {race, not_landed, not_written},
     TENON_PLANTED(copy_without_barrier, arrays.in, arrays.out)},
    {"stage_reused", {race, not_landed}, TENON_PLANTED(stage_reused, arrays.in, arrays.out)},
    {"never_waited", {never_waited}, TENON_PLANTED(test::never_waited, arrays.in, arrays.out)},
    {"misaligned_load", {misaligned}, TENON_PLANTED(misaligned_load, arrays.in, arrays.out)},
    {"misaligned_copy", {misaligned}, TENON_PLANTED(misaligned_copy, arrays.in, arrays.out)},
    {"misaligned_rows", {misaligned}, TENON_PLANTED(misaligned_rows, arrays.out)},
    {"divergent_barrier",
     {FindingKind::divergent_barrier},
     TENON_PLANTED(test::divergent_barrier, arrays.out)},
    {"early_return", {FindingKind::divergent_barrier}, TENON_PLANTED(early_return, arrays.out, 40)},
    {"two_barriers", {FindingKind::divergent_barrier}, TENON_PLANTED(two_barriers, arrays.out)},
    {"wrong_mask", {wrong_lane}, TENON_PLANTED(wrong_mask, arrays.out)},
    {"not_in_mask", {wrong_lane}, TENON_PLANTED(not_in_mask, arrays.out)},
    {"divergent_shuffle", {divergent_warp}, TENON_PLANTED(divergent_shuffle, arrays.out)},
    {"divergent_mma", {divergent_warp}, TENON_PLANTED(divergent_mma, arrays.out)},
    {"not_filled", {not_written}, TENON_PLANTED(not_filled, arrays.out)},
    {"too_little_shared", {shared_memory}, TENON_PLANTED(too_little_shared, arrays.out)},
    {"writes_input", {constant}, TENON_PLANTED(writes_input, arrays.in, arrays.out)},
    {"plain_sum", {race}, TENON_PLANTED(plain_sum, arrays.out), 2},
    {"reads_early", {too_early}, TENON_PLANTED_BEHIND(reads_early, arrays.out, arrays.more)},
    {"copies_early",
     {too_early},
     TENON_PLANTED_BEHIND(copies_early, arrays.in, arrays.out, arrays.more)},
    {"writes_early", {too_early}, TENON_PLANTED_BEHIND(writes_early, arrays.out)},
    {"returns_early", {no_wait}, TENON_PLANTED_BEHIND(returns_early, arrays.out, 40)},
    {"next_block", {race}, TENON_PLANTED(next_block, arrays.out), 2},
};

constexpr const char* kFile = "tests/cuda_host/planted_bugs.h";

std::set<uint32_t> marked_lines(const std::string& name) {
  std::set<uint32_t> lines;
  std::ifstream in(source_folder() + "/" + kFile);
  std::string text;
  for (uint32_t line = 1; std::getline(in, text); ++line) {
    if (text.ends_with("// bug: " + name)) lines.insert(line);
  }
  return lines;
}

class PlantedBugTest : public testing::TestWithParam<Planted> {
 protected:
  static std::vector<Finding> run(uint64_t seed, bool bug) {
    Emulator machine(seed);
    const Arrays arrays(machine);
    LaunchConfig config;
    config.name = GetParam().name;
    config.grid.x = GetParam().blocks;
    config.block.x = kThreads;
    config.shared_bytes = 8 * kThreads * sizeof(float);
    GetParam().run(config, arrays, bug);
    return machine.findings();
  }
};
void PrintTo(const Planted& planted, std::ostream* out) {
  *out << planted.name;
}
std::string bug_name(const testing::TestParamInfo<Planted>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Bugs, PlantedBugTest, testing::ValuesIn(kPlanted), bug_name);

TEST_P(PlantedBugTest, is_found_with_its_kernel_and_line_in_any_order) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Finding> found = run(seed, true);
    ASSERT_EQ(found.size(), 1u) << "seed " << seed;
    EXPECT_TRUE(GetParam().kinds.contains(found[0].kind)) << found[0].message();
    EXPECT_EQ(found[0].kernel, GetParam().name);
    EXPECT_TRUE(found[0].file.ends_with(kFile)) << found[0].message();
    EXPECT_TRUE(marked_lines(GetParam().name).contains(found[0].line)) << found[0].message();
  }
}

TEST_P(PlantedBugTest, is_not_found_in_the_correct_twin) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Finding& finding : run(seed, false)) ADD_FAILURE() << finding.message();
  }
}

}  // namespace
}  // namespace tenon::cuda::test
