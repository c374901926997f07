// Ranks of the executor `cuda` as threads of a test: each has a device of its own, which is
// emulated, and its part of a model.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/exec/cuda/executor.h"
#include "core/exec/ranks/model_cut.h"
#include "core/model/model.h"
#include "core/parallel/shared_collective.h"
#include "tests/cuda/rig/emulated_driver.h"
#include "tests/cuda/rig/nccl_double.h"
#include "tests/cuda/rig/peer_meeting.h"
#include "tests/support/step_driver.h"

namespace tenon::cuda::test {

using ModelMaker = std::function<std::unique_ptr<Model>()>;

// One device alone (`ranks` 1), or several.
struct RankCase {
  ModelMaker model;
  uint32_t ranks = 1;
  tenon::test::LoadOptions options;
  std::string whole = {};    // why no heads are cut
  bool reach_peers = false;  // devices reach each other's memory
  uint32_t devices = 0;      // that each process sees; 0: as many as ranks
};

// What the ranks of a test have in common.
struct RankWorld {
  explicit RankWorld(uint32_t ranks)
      : nccl(std::make_shared<NcclWorld>(ranks)), peers(std::make_shared<PeerMeeting>(ranks)) {}
  std::shared_ptr<NcclWorld> nccl;
  std::shared_ptr<PeerMeeting> peers;
};

struct RankDevice {
  RankDevice(const RankCase& c, Collective& all, const RankWorld& world)
      : driver(std::make_shared<EmulatedDriver>(uint64_t{1} << 30, all.rank() + 1)),
        nccl(std::make_shared<NcclDouble>(world.nccl, *driver)),
        executor(make_cuda_executor(
            driver, {}, [nccl = nccl] { return Result<std::shared_ptr<NcclLibrary>>(nccl); })),
        model(c.model()),
        cut(cut_model(*model, {.rank = all.rank(), .ranks = c.ranks, .whole = c.whole})),
        shape(model->plan, 64) {
    driver->show_devices(c.devices > 0 ? c.devices : c.ranks);
    if (c.reach_peers) driver->show_memory();
    driver->machine().on_meeting([peers = world.peers, rank = all.rank()](MeetingLaunch launch) {
      return peers->meet(rank, std::move(launch));
    });
    auto& host = dynamic_cast<RankHost&>(*executor);
    host.join(all, cut);
    steps = std::make_unique<tenon::test::StepDriver>(*executor, *model, shape.shape(), c.options);
    if (steps->load_status().ok()) met = host.meet();
  }

  std::shared_ptr<EmulatedDriver> driver;
  std::shared_ptr<NcclDouble> nccl;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Model> model;
  ModelCut cut;
  ModelShapeStorage shape;
  std::unique_ptr<tenon::test::StepDriver> steps;
  Status met;
};

// Calls function(its Collective) in a thread of each rank's own.
inline void on_ranks(uint32_t ranks, const std::function<void(Collective&)>& function) {
  auto memory = SharedMemory::create(ranks, uint64_t{1} << 16);
  ASSERT_TRUE(memory.ok());
  const std::shared_ptr<SharedMemory> shared = *std::move(memory);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SharedCollective all(
          shared, {.rank = rank, .places = std::vector<RankPlace>(ranks, {"here", 1, ranks})});
      function(all);
    });
  }
}

// What function(device) gives at each rank, [ranks].
template <typename T>
std::vector<T> run_ranks(const RankCase& c, const std::function<T(RankDevice&)>& function) {
  std::vector<T> results(c.ranks);
  const RankWorld world(c.ranks);
  on_ranks(c.ranks, [&](Collective& all) {
    RankDevice device(c, all, world);
    EXPECT_TRUE(device.steps->load_status().ok()) << device.steps->load_status().message();
    EXPECT_TRUE(device.met.ok()) << device.met.message();
    if (device.steps->load_status().ok() && device.met.ok()) {
      results[all.rank()] = function(device);
    }
  });
  return results;
}

}  // namespace tenon::cuda::test
