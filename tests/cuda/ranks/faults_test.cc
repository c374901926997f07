// What a rank of the executor `cuda` refuses, and how it ends a run that it cannot go on with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/cuda/ranks/nccl_library.h"
#include "core/exec/ranks/stages.h"
#include "tests/cuda/ranks/rank_rig.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::make_tiny_model;
using tenon::test::some_tokens;
using tenon::test::StepDriver;
using tenon::test::tiny_config;
using testing::Each;
using testing::HasSubstr;

std::unique_ptr<Model> tiny() {
  return make_tiny_model({.config = tiny_config()});
}

ModelCut cut_of(uint32_t rank, uint32_t ranks) {
  ModelCut cut;
  cut.rank = rank;
  cut.ranks = ranks;
  cut.layers.resize(2);
  return cut;
}

// What a rank that is one of `ranks` says when it is loaded.
std::string load_error(uint32_t ranks, const ModelCut& cut, NcclLoader nccl,
                       uint32_t devices = 64) {
  auto memory = SharedMemory::create(ranks, uint64_t{1} << 12);
  EXPECT_TRUE(memory.ok());
  SharedCollective all(
      *std::move(memory),
      {.rank = cut.rank, .places = std::vector<RankPlace>(ranks, {"here", 1, ranks})});
  const auto model = tiny();
  const ModelShapeStorage shape(model->plan, 64);
  const auto driver = std::make_shared<EmulatedDriver>();
  driver->show_devices(devices);
  const auto executor = make_cuda_executor(driver, {}, std::move(nccl));
  dynamic_cast<RankHost&>(*executor).join(all, cut);
  const StepDriver steps(*executor, *model, shape.shape(), {});
  return std::string(steps.load_status().message());
}

NcclLoader loads_double() {
  return [] {
    static EmulatedDriver driver;
    return Result<std::shared_ptr<NcclLibrary>>(
        std::make_shared<NcclDouble>(std::make_shared<NcclWorld>(2), driver));
  };
}

TEST(CudaRankFaults, names_what_is_not_cut_over_devices) {
  const ModelCut plain = cut_of(1, 2);
  EXPECT_EQ(load_error(2, plain, loads_double()), "");
  ModelCut staged = plain;
  staged.stages = {0, 1, 2};
  EXPECT_THAT(load_error(2, staged, loads_double()), HasSubstr("leave parallel.pipeline"));
  ModelCut summed = plain;
  summed.layers[0].adds_attention = true;
  EXPECT_THAT(load_error(2, summed, loads_double()), HasSubstr("parallel.reduce out"));
  ModelCut shared = plain;
  shared.layers[1].experts = {0, 1, 2};
  EXPECT_THAT(load_error(2, shared, loads_double()), HasSubstr("parallel.expert and"));
  const ModelCut many = cut_of(1, 17);
  EXPECT_THAT(load_error(17, many, loads_double()), HasSubstr("over 16 ranks at most"));
}

TEST(CudaRankFaults, says_how_many_devices_there_are_where_they_are_too_few) {
  const ModelCut cut = cut_of(2, 3);
  EXPECT_THAT(load_error(3, cut, loads_double(), 2),
              HasSubstr("this host shows 2 devices, and each rank needs one of its own"));
  EXPECT_EQ(load_error(3, cut, loads_double(), 3), "");
  EXPECT_EQ(load_error(3, cut, loads_double(), 1), "") << "a launcher may show one to each";
}

TEST(CudaRankFaults, says_which_package_brings_nccl) {
  const ModelCut cut = cut_of(1, 2);
  EXPECT_THAT(load_error(2, cut, [] { return load_nccl("libtenon-none.so.2"); }),
              HasSubstr("NVIDIA's Debian package libnccl2 brings it"));
  EXPECT_THAT(load_error(2, cut, [] { return load_nccl("libm.so.6"); }),
              HasSubstr("libm.so.6 is not NCCL 2, since it has no ncclGetVersion"));
}

// TENON_TEST_NCCL: the library's file, where the loader does not find it by its name.
TEST(CudaRankFaults, repeats_what_nccl_itself_says) {
  const char* const file = std::getenv("TENON_TEST_NCCL");
  const auto nccl = load_nccl(file != nullptr ? file : kNcclFile);
  if (!nccl.ok()) GTEST_SKIP() << nccl.status().message();
  EXPECT_THAT((*nccl)->version(), testing::StartsWith("2."));
  const auto run = (*nccl)->new_run();
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run->size(), 128u);
  const auto joined = (*nccl)->join(*run, 0, 1);
  if (joined.ok()) GTEST_SKIP() << "there is a device here";
  EXPECT_THAT(std::string(joined.status().message()),
              testing::StartsWith("ncclCommInitRank failed: unhandled cuda error"));
  EXPECT_THAT(std::string(joined.status().message()), HasSubstr("(Cuda failure "));
}

TEST(CudaRankFaults, names_ranks_that_have_one_device) {
  std::vector<std::string> said(2);
  const RankWorld world(2);
  on_ranks(2, [&](Collective& all) {
    const RankCase c{.model = tiny, .ranks = 2, .options = {}, .devices = 1};
    const RankDevice device(c, all, world);
    said[all.rank()] = std::string(device.met.message());
  });
  EXPECT_THAT(said, Each(HasSubstr("rank 1 on here (process 1) and rank 0 have one device, "
                                   "emulated:0, and each needs its own")));
}

TEST(CudaRankFaults, a_rank_that_cannot_gather_ends_the_run_for_all) {
  std::vector<std::string> said(2);
  const RankWorld world(2);
  on_ranks(2, [&](Collective& all) {
    const RankCase c{.model = tiny, .ranks = 2, .options = {}};
    RankDevice device(c, all, world);
    ASSERT_TRUE(device.met.ok()) << device.met.message();
    // The other rank may be done with its failing step before this one has read that all have met,
    // and hears of it here already.
    const auto met = gather_texts(all, "all have met");
    if (!met.ok()) {
      said[all.rank()] = std::string(met.status().message());
      return;
    }
    if (all.rank() == 1) device.nccl->fail_gather(3);
    const size_t sequence = device.steps->begin();
    (void)device.steps->try_step({{sequence, some_tokens(3, 61, 1)}});
    // Whatever it got from its device, it hears of it at the next exchange.
    said[all.rank()] = std::string(all.exchange(std::vector<uint64_t>(2, 64)).message());
  });
  EXPECT_THAT(said, Each(HasSubstr("ncclAllGather failed: unhandled system error")));
}

}  // namespace
}  // namespace tenon::cuda::test
