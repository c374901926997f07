// An array that is watched: its bytes, whether they hold anything, and who touched each of them
// last. Epochs rise with every barrier of a block and never fall, so a record of an earlier launch
// says so by its number.
//
// Bytes of a page that were only ever touched together share a record, as many as the first access
// lets them, and are told apart as soon as another one begins or ends between them.
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
  // The record of this byte and of those after it, `together` of them: at most `most`, a power of
  // two that divides `byte`.
  Cell& cell(uint64_t byte, uint64_t most, uint64_t& together) {
    Page& page = pages_[byte / kPage];
    if (page.cells == nullptr || uint64_t{1} << page.shift > most) tell_apart(page, most);
    together = uint64_t{1} << page.shift;
    return page.cells[byte % kPage >> page.shift];
  }
  // The most bytes that share a record once these were touched.
  static uint64_t most_together(uint64_t first, uint64_t count) {
    const uint64_t bits = first | count | kMostTogether;
    return bits & (~bits + 1);
  }
  void forget_writers(uint64_t first, uint64_t count);  // these bytes are the host's

  std::string name;
  bool shared;
  uint32_t taken_at = 0;  // a shared array: where it begins in the arena,
  uint32_t taken_in = 0;  // and in which line it is taken
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
  static constexpr uint64_t kMostTogether = 16;  // what one access touches at most
  struct Page {
    std::unique_ptr<Cell[]> cells;  // null: nothing was touched
    int shift = 0;                  // 2^shift bytes share one
  };
  static void tell_apart(Page& page, uint64_t together);

  std::vector<Page> pages_;
};

}  // namespace tenon::cuda
