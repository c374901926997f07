// A lane: two rooms of shared memory and a word, over which one thread of the program calls one
// thread of a plugin's process, and may be asked back while it waits.
//
//   program                          plugin's process
//     call   ──── called ────────────► serves
//     answer ◄─── asked ───────────── asks back (a scheduler's ledger)
//            ──── answered ──────────►
//            ◄─── replied ─────────── replies
//
// Whoever waits looks at the word for some microseconds and then sleeps on it (futex). The process
// may write anywhere in the lane at any time: the program reads a reply once, into memory of its
// own, and believes nothing of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace tenon {

enum class LaneState : uint32_t { idle = 0, called = 1, asked = 2, answered = 3, replied = 4 };

// In shared memory; both rooms follow it.
struct alignas(64) LaneHeader {
  std::atomic<uint32_t> state{0};
  std::atomic<uint32_t> program_sleeps{0};
  std::atomic<uint32_t> process_sleeps{0};
  std::atomic<uint32_t> method{0};
  std::atomic<uint64_t> call_bytes{0};
  std::atomic<uint64_t> reply_bytes{0};  // of a reply, or of a question
  alignas(16) std::byte answer[64] = {};
};
inline constexpr size_t kLaneHeaderBytes = 4096;
static_assert(sizeof(LaneHeader) <= kLaneHeaderBytes);

// How many lanes of which size follow each other in one file of memory. Rooms take memory only
// where somebody has written.
struct LaneSizes {
  uint32_t lanes = 1;
  uint64_t call_bytes = 0;  // of each room; multiples of the page size
  uint64_t reply_bytes = 0;
  uint64_t lane_bytes() const { return kLaneHeaderBytes + call_bytes + reply_bytes; }
  uint64_t bytes() const { return lanes * lane_bytes(); }
};

// One lane of a mapping.
class Lane {
 public:
  Lane() = default;
  Lane(std::byte* mapping, const LaneSizes& sizes, uint32_t index);

  LaneHeader& header() const { return *header_; }
  std::span<std::byte> call_room() const { return call_; }
  std::span<std::byte> reply_room() const { return reply_; }

  // For the program. `go_on` is asked a hundred times a second while nothing happens; once it says
  // no, the wait is over. True: the process asked or replied, as the word says.
  void call(uint32_t method, size_t bytes) const;
  void answer() const;
  bool wait_for_reply(const std::function<bool()>& go_on) const;
  bool is_question() const;
  // What was said, as far as the room goes.
  std::span<const std::byte> said() const;

  // For the process.
  void wait_for_call() const;
  void reply(size_t bytes) const;
  // Asks with what lies in the reply's room, and waits for the answer.
  void ask(size_t bytes) const;

 private:
  void say(LaneState state, const std::atomic<uint32_t>& sleeps) const;

  LaneHeader* header_ = nullptr;
  std::span<std::byte> call_, reply_;
};

}  // namespace tenon
