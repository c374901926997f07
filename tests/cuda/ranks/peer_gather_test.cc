// The gather through other devices' memory, over several rounds that overtake each other as far as
// it lets them.
#include <gtest/gtest.h>
#include <tenon/cuda/emulator.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/cuda/kernels/launch_ranks.h"
#include "core/exec/cuda/ranks/rank_gather.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {
namespace {

constexpr uint64_t kSlotBytes = 16 << 10;

struct Shape {
  ColumnStarts starts;
  uint32_t rows = 1;
  bool add = false;
};

template <typename T>
T element(float x);
template <>
float element(float x) {
  return x;
}
template <>
BFloat16 element(float x) {
  return to_bfloat16(x);
}

struct Device {
  Device(uint64_t seed, uint32_t ranks) : machine(seed) {
    box = machine.allocate(peer_box_bytes(ranks, kSlotBytes), "box");
    const std::vector<std::byte> zeros(uint64_t{2} * ranks * kPeerBlocks * sizeof(uint32_t));
    machine.copy_in(box + uint64_t{2} * ranks * kSlotBytes, zeros.data(), zeros.size());
    rounds =
        reinterpret_cast<uint32_t*>(machine.allocate(kPeerBlocks * sizeof(uint32_t), "rounds"));
    machine.copy_in(rounds, zeros.data(), kPeerBlocks * sizeof(uint32_t));
    machine.on_meeting([this](MeetingLaunch launch) {
      launches.push_back(std::move(launch));
      return 0;
    });
  }
  template <typename T>
  T* array(const std::vector<T>& values, const std::string& name) {
    auto* at = reinterpret_cast<T*>(machine.allocate(values.size() * sizeof(T), name));
    machine.copy_in(at, values.data(), values.size() * sizeof(T));
    return at;
  }
  Emulator machine;
  std::byte* box;
  uint32_t* rounds;
  std::vector<MeetingLaunch> launches;
  std::vector<void*> results;
};

// Number of a column, in a row of a round.
float value_of(uint32_t round, uint32_t row, uint32_t column) {
  return static_cast<float>((round * 7 + row * 3 + column) % 64);
}

template <typename T>
void expect_gathered(const std::vector<Shape>& shapes, uint64_t seed) {
  const auto ranks = static_cast<uint32_t>(shapes[0].starts.size()) - 1;
  std::vector<std::unique_ptr<Device>> devices;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    devices.push_back(std::make_unique<Device>(seed * 16 + rank, ranks));
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Device& own = *devices[rank];
    own.machine.use();
    PeerGatherCall call = {};
    call.boxes.slot_bytes = kSlotBytes;
    call.boxes.rounds = own.rounds;
    call.boxes.rank = rank;
    for (uint32_t other = 0; other < ranks; ++other) {
      if (other != rank) {
        ASSERT_TRUE(own.machine.reach(devices[other]->machine, devices[other]->box));
      }
      call.boxes.of[other] = devices[other]->box;
    }
    for (uint32_t round = 0; round < shapes.size(); ++round) {
      const Shape& shape = shapes[round];
      const auto stride = static_cast<uint32_t>(RankGather::stride(shape.starts));
      const uint32_t width = shape.starts.back();
      std::vector<T> values(shape.rows * stride);
      for (uint32_t row = 0; row < shape.rows; ++row) {
        for (uint32_t c = shape.starts[rank]; c < shape.starts[rank + 1]; ++c) {
          values[row * stride + c - shape.starts[rank]] = element<T>(value_of(round, row, c));
        }
      }
      call.own = own.array(values, "own");
      call.place.to = own.array(std::vector<T>(shape.rows * width, element<T>(1.0f)), "to");
      call.place.type = sizeof(T) == 4 ? Input::f32 : Input::bf16;
      call.place.rows = shape.rows;
      call.place.stride = static_cast<int>(stride);
      call.place.to_stride = static_cast<int>(width);
      call.place.add = shape.add;
      call.place.factor = 0.5f;
      call.place.columns.ranks = ranks;
      std::ranges::copy(shape.starts, call.place.columns.starts);
      ASSERT_EQ(launch_peer_gather(nullptr, call), 0);
      own.results.push_back(call.place.to);
    }
  }
  std::vector<std::vector<MeetingLaunch>> launches;
  for (const auto& device : devices) launches.push_back(device->launches);
  Emulator::run_together(launches);
  for (const auto& device : devices) {
    for (const Finding& finding : device->machine.findings()) FAIL() << finding.message();
    for (uint32_t round = 0; round < shapes.size(); ++round) {
      const Shape& shape = shapes[round];
      std::vector<T> got(shape.rows * shape.starts.back());
      ASSERT_TRUE(
          device->machine.copy_out(got.data(), device->results[round], got.size() * sizeof(T)));
      for (uint32_t row = 0; row < shape.rows; ++row) {
        for (uint32_t c = 0; c < shape.starts.back(); ++c) {
          const float value = value_of(round, row, c);
          ASSERT_EQ(to_float(got[row * shape.starts.back() + c]),
                    shape.add ? 1.0f + 0.5f * value : value)
              << "round " << round << ", row " << row << ", column " << c;
        }
      }
    }
  }
}

TEST(PeerGather, gives_every_rank_the_columns_of_all_in_rounds_of_any_shape) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    expect_gathered<float>({{{0, 16, 48}, 1},
                            {{0, 16, 48}, 5, true},
                            {{0, 64, 128}, 3},
                            {{0, 16, 21}, 2, true},
                            {{0, 16, 48}, 1}},
                           seed);
    expect_gathered<BFloat16>({{{0, 16, 32, 61}, 2}, {{0, 0, 16, 16}, 9}, {{0, 32, 64, 80}, 1}},
                              seed);
    expect_gathered<float>({{{0, 16, 32, 48, 64}, 1}, {{0, 16, 32, 48, 51}, 4, true}}, seed);
  }
}

// More quads than threads, and fewer than blocks.
TEST(PeerGather, cuts_rows_between_blocks) {
  expect_gathered<float>({{{0, 1024, 2048}, 2}, {{0, 4, 8}, 1}, {{0, 1024, 2048}, 1}}, 3);
}

}  // namespace
}  // namespace tenon::cuda::test
