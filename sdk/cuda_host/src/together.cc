#include "sdk/cuda_host/src/together.h"

#include "sdk/cuda_host/src/block.h"

namespace tenon::cuda {
namespace {

// A block goes on for up to so many steps before another one does.
constexpr uint64_t kMostSteps = 64;

}  // namespace

uint64_t& flags_stored() {
  static thread_local uint64_t stored = 0;
  return stored;
}

struct Together::Running {
  LaunchState state;
  std::vector<std::unique_ptr<Region>> shared;
  Extent index;
  std::unique_ptr<Block> block;
};

struct Together::Device {
  const std::vector<MeetingLaunch>* launches = nullptr;
  size_t next = 0;
  Emulator* machine = nullptr;
  SeenBlocks seen;         // at the beginning of the launch that runs
  SeenBlocks seen_at_end;  // by its blocks that have ended
  std::vector<std::unique_ptr<Running>> blocks;
};

Together::Together(const std::vector<std::vector<MeetingLaunch>>& launches,
                   std::atomic<uint32_t>& epoch)
    : epoch_(epoch), first_epoch_(epoch + 1) {
  for (const auto& own : launches) {
    if (own.empty()) continue;
    auto& device = devices_.emplace_back(std::make_unique<Device>());
    device->launches = &own;
    device->machine = own[0].device;
  }
}

Together::~Together() = default;

SeenBlocks Together::seen_before(uint32_t member) const {
  return device_of_[member]->seen;
}

// All blocks of a launch are on the device at once. False: it has no more launches.
bool Together::begin_launch(Device& device) {
  device.seen.join(std::exchange(device.seen_at_end, {}));
  if (device.next == device.launches->size()) return false;
  const MeetingLaunch& launch = (*device.launches)[device.next++];
  const Extent& grid = launch.config.grid;
  ++device.machine->counts_.launches;
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < blocks; ++i) {
    Running& made = *device.blocks.emplace_back(std::make_unique<Running>());
    const auto member = static_cast<uint32_t>(device_of_.size());
    device_of_.push_back(&device);
    made.index = {static_cast<uint32_t>(i % grid.x), static_cast<uint32_t>(i / grid.x % grid.y),
                  static_cast<uint32_t>(i / grid.x / grid.y)};
    made.state = {&launch.config,
                  &launch.thread,
                  device.machine,
                  first_epoch_,
                  &epoch_,
                  &made.shared,
                  &device.machine->findings_,
                  this,
                  member};
    made.block = std::make_unique<Block>(made.state);
  }
  return true;
}

void Together::end_block(Device& device, size_t index) {
  const Running& ended = *device.blocks[index];
  device.seen_at_end.join(ended.block->seen());
  // Whatever it did, later launches of the device come after.
  device.seen_at_end.add(ended.state.member, ~uint32_t{0});
  device.blocks.erase(device.blocks.begin() + static_cast<ptrdiff_t>(index));
}

// One of the device's blocks. False: none can.
bool Together::go_on(Device& device) {
  const size_t count = device.blocks.size();
  const size_t first = device.machine->random() % count;
  const uint64_t steps = 1 + device.machine->random() % kMostSteps;
  bool went = false;
  device.machine->use();
  for (size_t i = 0; i < count && !went; ++i) {
    const size_t index = (first + i) % count;
    Running& running = *device.blocks[index];
    blockIdx = running.index;
    blockDim = running.state.config->block;
    gridDim = running.state.config->grid;
    for (uint64_t step = 0; step < steps && !running.block->is_done(); ++step) {
      if (!running.block->advance()) break;
      went = true;
    }
    if (running.block->is_done() && !running.block->has_failed()) end_block(device, index);
  }
  return went;
}

// Threads of a kernel look for what they are given on their own device.
bool Together::run() {
  Emulator* const before = Emulator::current();
  const bool clean = run_all();
  if (before != nullptr) before->use();
  return clean;
}

bool Together::run_all() {
  std::vector<Device*> live;
  for (const auto& device : devices_) live.push_back(device.get());
  size_t still = 0;  // devices in a row of which no block could go on
  while (!live.empty()) {
    const size_t chosen = still > 0 ? still - 1 : live[0]->machine->random() % live.size();
    Device& device = *live[chosen];
    if (device.blocks.empty() && !begin_launch(device)) {
      live.erase(live.begin() + static_cast<ptrdiff_t>(chosen));
      still = 0;
      continue;
    }
    const uint64_t findings = device.machine->findings_.size();
    if (go_on(device)) {
      still = 0;
    } else if (++still > live.size()) {
      Running& stuck = *device.blocks[0];
      blockIdx = stuck.index;
      stuck.block->report_stuck();
    }
    if (device.machine->findings_.size() > findings) return false;
  }
  return true;
}

}  // namespace tenon::cuda
