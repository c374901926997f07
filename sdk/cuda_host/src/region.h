// An array that is watched: its bytes, whether they hold anything, and who touched each of them
// last. Epochs rise with every barrier of a block and never fall, so a record of an earlier launch
// says so by its number.
#pragma once

#include <tenon/cuda/machine.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenon::cuda {

inline constexpr uint32_t kManyWarps = ~uint32_t{0};

struct LastWrite {
  uint32_t epoch = 0;
  uint32_t stamp = 0;  // the warp's barriers that its thread had passed
  uint32_t line = 0;
  uint16_t thread = 0;
  bool atomic = false;
  bool operator==(const LastWrite&) const = default;
};
struct LastReads {
  uint32_t epoch = 0;
  uint32_t stamp = 0;
  uint32_t line = 0;
  uint32_t lanes = 0;
  uint32_t warp = 0;  // of the block, or kManyWarps
  bool operator==(const LastReads&) const = default;
};
struct Cell {
  LastWrite written;
  LastReads read;
  bool operator==(const Cell&) const = default;
};

enum class ByteState : uint8_t { nothing, written, landing };

struct Region {
  Region(std::string name, uint64_t size, bool shared);

  void forget();  // what stands in it, and by whom
  bool holds(int64_t offset, uint64_t count) const {
    return offset >= 0 && static_cast<uint64_t>(offset) + count <= bytes;
  }
  Cell& cell(uint64_t byte) {
    auto& page = pages_[byte / kPage];
    if (page == nullptr) page = std::make_unique<Cell[]>(kPage);
    return page[byte % kPage];
  }
  void forget_writers(uint64_t first, uint64_t count);  // these bytes are the host's

  std::string name;
  bool shared;
  bool constant = false;
  uint64_t bytes;
  std::unique_ptr<std::byte[]> memory;
  std::byte* base;  // aligned to 256
  std::vector<ByteState> states;
  std::vector<uint8_t> touched;  // by the launch that runs, bits kRead, kWritten; empty: nothing

  static constexpr uint8_t kRead = 1;
  static constexpr uint8_t kWritten = 2;

 private:
  static constexpr uint64_t kPage = 512;
  std::vector<std::unique_ptr<Cell[]>> pages_;
};

}  // namespace tenon::cuda
