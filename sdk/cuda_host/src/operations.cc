// The operations of host_body.h, in the block that runs.
#include <tenon/cuda/fragment_layout.h>

#include <algorithm>
#include <cstring>

#include "sdk/cuda_host/src/block.h"

namespace tenon::cuda::host {
namespace {

Block& block() {
  return *Block::current();
}

// A matrix in full, from what lanes hold of it.
template <int rows, int columns, typename Value>
struct Matrix {
  Value at[rows][columns];
};

struct MmaSlot {
  void* d;
  const uint32_t* a;
  const uint32_t* b;
};

uint32_t element_16(const uint32_t* registers, uint32_t element) {
  return registers[element / 2] >> (element % 2 * 16) & 0xffff;
}
int32_t element_8(const uint32_t* registers, uint32_t element) {
  return static_cast<int8_t>(registers[element / 4] >> (element % 4 * 8));
}

template <typename Float>
void mma_16(void* const* slots) {
  Matrix<16, 16, double> a;
  Matrix<16, 8, double> b;
  Matrix<16, 8, double> sums;
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    const auto& slot = *static_cast<const MmaSlot*>(slots[lane]);
    for (uint32_t i = 0; i < 8; ++i) {
      const FragmentPlace place = a_place_16(lane, i);
      a.at[place.row][place.column] = to_float(Float{static_cast<uint16_t>(element_16(slot.a, i))});
    }
    for (uint32_t i = 0; i < 4; ++i) {
      const FragmentPlace place = b_place_16(lane, i);
      b.at[place.row][place.column] = to_float(Float{static_cast<uint16_t>(element_16(slot.b, i))});
      const FragmentPlace sum = d_place(lane, i);
      sums.at[sum.row][sum.column] = static_cast<const float*>(slot.d)[i];
    }
  }
  // Products of 16-bit floats are exact in double. Hardware keeps fewer bits of the sum.
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t k = 0; k < 16; ++k) {
      for (uint32_t column = 0; column < 8; ++column) {
        sums.at[row][column] += a.at[row][k] * b.at[k][column];
      }
    }
  }
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    auto* d = static_cast<float*>(static_cast<const MmaSlot*>(slots[lane])->d);
    for (uint32_t i = 0; i < 4; ++i) {
      const FragmentPlace place = d_place(lane, i);
      d[i] = static_cast<float>(sums.at[place.row][place.column]);
    }
  }
}

void mma_8(void* const* slots) {
  Matrix<16, 32, int32_t> a;
  Matrix<32, 8, int32_t> b;
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    const auto& slot = *static_cast<const MmaSlot*>(slots[lane]);
    for (uint32_t i = 0; i < 16; ++i) {
      const FragmentPlace place = a_place_8(lane, i);
      a.at[place.row][place.column] = element_8(slot.a, i);
    }
    for (uint32_t i = 0; i < 8; ++i) {
      const FragmentPlace place = b_place_8(lane, i);
      b.at[place.row][place.column] = element_8(slot.b, i);
    }
  }
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    auto* d = static_cast<int32_t*>(static_cast<const MmaSlot*>(slots[lane])->d);
    for (uint32_t i = 0; i < 4; ++i) {
      const FragmentPlace place = d_place(lane, i);
      for (uint32_t k = 0; k < 32; ++k) d[i] += a.at[place.row][k] * b.at[k][place.column];
    }
  }
}

struct RowSlot {
  Region* region;
  int64_t offset;
  uint32_t* registers;
};

void gather_matrices(void* const* slots, uint32_t count, bool transposed) {
  for (uint32_t matrix = 0; matrix < count; ++matrix) {
    uint16_t rows[8][8];
    for (uint32_t row = 0; row < 8; ++row) {
      const auto& from = *static_cast<const RowSlot*>(slots[matrix * 8 + row]);
      std::memcpy(rows[row], from.region->base + from.offset, sizeof(rows[row]));
    }
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      uint32_t value = 0;
      for (uint32_t i = 0; i < 2; ++i) {
        FragmentPlace place = matrix_place(lane, i);
        if (transposed) std::swap(place.row, place.column);
        value |= static_cast<uint32_t>(rows[place.row][place.column]) << (16 * i);
      }
      static_cast<const RowSlot*>(slots[lane])->registers[matrix] = value;
    }
  }
}

struct ShuffleSlot {
  const void* value;
  uint32_t source;
  void* to;
};

}  // namespace

void read(Region* region, int64_t offset, void* to, uint32_t bytes, Line line) {
  block().read(region, offset, bytes, line);
  std::memcpy(to, region->base + offset, bytes);
}

void write(Region* region, int64_t offset, const void* from, uint32_t bytes, Line line) {
  block().write(region, offset, bytes, line, Block::Write::plain);
  std::memcpy(region->base + offset, from, bytes);
}

void update(Region* region, int64_t offset, void* value, uint32_t bytes,
            const std::function<void(void* value)>& change, Line line) {
  if (region != nullptr && region->holds(offset, bytes) &&
      region->states[static_cast<uint64_t>(offset)] == ByteState::nothing) {
    block().fail(FindingKind::not_written, line,
                 "an atomic operation reads '" + region->name +
                     "' where nobody wrote anything; write it first");
  }
  block().write(region, offset, bytes, line, Block::Write::atomic);
  std::memcpy(value, region->base + offset, bytes);
  change(region->base + offset);
}

void store_release(Region* region, int64_t offset, uint32_t value, Line line) {
  block().store_release(region, offset, value, line);
}

void wait_acquire(Region* region, int64_t offset, uint32_t value, Line line) {
  block().wait_acquire(region, offset, value, line);
}

Region* take_shared(uint32_t& used, uint64_t bytes, Line line) {
  return block().take_shared(used, bytes, line);
}

void copy_async(Region* to, int64_t to_offset, Region* from, int64_t from_offset, uint32_t valid,
                Line line) {
  block().copy_async(to, to_offset, from, from_offset, valid, line);
}
void commit_async() {
  block().commit_async();
}
void wait_async(uint32_t groups_left, Line) {
  block().wait_async(groups_left);
}

void wait_for_earlier(Line line) {
  block().wait_for_earlier(line);
}

void block_barrier(Line line) {
  block().barrier(line);
}

void warp_barrier(uint32_t mask, Line line) {
  block().meet(
      "__syncwarp", mask, nullptr, [&](void* const*) { block().join_clocks(mask); }, line);
}

void shuffle(uint32_t mask, const void* value, uint32_t source, void* to, uint32_t bytes,
             Line line) {
  if (source >= kWarp || (mask >> source & 1) == 0) {
    block().fail(FindingKind::wrong_lane, line,
                 "shuffles from lane " + std::to_string(source) +
                     ", which the mask does not name; name every lane that is read from");
  }
  ShuffleSlot slot{value, source, to};
  const auto exchange = [&](void* const* slots) {
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const auto& own = *static_cast<const ShuffleSlot*>(slots[lane]);
      std::memcpy(own.to, static_cast<const ShuffleSlot*>(slots[own.source])->value, bytes);
    }
  };
  block().meet("shuffle", mask, &slot, exchange, line);
}

uint32_t ballot(uint32_t mask, bool predicate, Line line) {
  struct Vote {
    bool mine;
    uint32_t all;
  } vote{predicate, 0};
  const auto count = [&](void* const* slots) {
    uint32_t all = 0;
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      if ((mask >> lane & 1) != 0 && static_cast<const Vote*>(slots[lane])->mine) {
        all |= uint32_t{1} << lane;
      }
    }
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      if ((mask >> lane & 1) != 0) static_cast<Vote*>(slots[lane])->all = all;
    }
  };
  block().meet("vote", mask, &vote, count, line);
  return vote.all;
}

void load_matrices(uint32_t* registers, uint32_t count, bool transposed, Region* region,
                   int64_t offset, Line line) {
  // Addresses of lanes beyond the matrices are not looked at.
  if (block().lane() < count * 8) block().read(region, offset, 16, line);
  RowSlot slot{region, offset, registers};
  block().meet(
      "ldmatrix", kAllLanes, &slot,
      [&](void* const* slots) { gather_matrices(slots, count, transposed); }, line);
}

void mma(MmaKind kind, void* d, const uint32_t* a, const uint32_t* b, Line line) {
  MmaSlot slot{d, a, b};
  const auto compute = [&](void* const* slots) {
    Counts& counts = block().counts();
    ++counts.mma;
    switch (kind) {
      case MmaKind::bf16:
        counts.bf16_operations += 2 * 16 * 8 * 16;
        return mma_16<BFloat16>(slots);
      case MmaKind::f16:
        counts.f16_operations += 2 * 16 * 8 * 16;
        return mma_16<Half>(slots);
      case MmaKind::s8:
        counts.s8_operations += 2 * 16 * 8 * 32;
        return mma_8(slots);
    }
  };
  block().meet("mma", kAllLanes, &slot, compute, line);
}

}  // namespace tenon::cuda::host
