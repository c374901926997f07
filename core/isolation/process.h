// A process for one plugin: `tenon-guest` (tools/guest), which loads the plugin's library, and
// memory that it shares with this program. It has no memory of the program's but that, no open
// files of its, no more address space than it is allowed, and ends when the program does.
//
// What it protects from: crashes, calls that do not return, memory that runs out, writes into the
// program's memory, and what sandbox.h refuses. The process runs as the same user, and may read
// what that one may.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/isolation/lane.h"

namespace tenon {

// Whether system calls are refused: not where the kernel cannot, or a sanitizer asks for more.
enum class Sandbox : uint32_t { none = 0, there = 1, impossible = 2 };

// Before the lanes in shared memory. The process says here why it ends, where it can.
struct GuestPage {
  LaneSizes sizes;
  uint64_t memory_bytes = 0;  // that it may take in addition to what it has when it starts
  std::atomic<Sandbox> sandbox{Sandbox::none};
  std::atomic<uint32_t> refused{0};  // the first system call that was (sandbox.h)
  std::atomic<uint32_t> last_words_bytes{0};
  char last_words[1024] = {};
};
inline constexpr size_t kGuestPageBytes = 4096;
static_assert(sizeof(GuestPage) <= kGuestPageBytes);

// File descriptors that the process is started with.
inline constexpr int kGuestMemoryFd = 3;
inline constexpr int kGuestLifeFd = 4;  // reads an end of file when the program is over

class GuestProcess {
 public:
  struct Limits {
    uint64_t memory_bytes = uint64_t{1} << 30;
    int64_t call_ns = 10'000'000'000;
    std::string_view call_named = "engine.call_limit";  // who set it, for messages; may be empty
  };

  // Not yet started.
  GuestProcess() = default;
  ~GuestProcess() { end(); }
  GuestProcess(const GuestProcess&) = delete;
  GuestProcess& operator=(const GuestProcess&) = delete;

  Status start(const LaneSizes& sizes, const Limits& limits);
  // Ends it, at once. [one thread]
  void end();

  bool runs() const { return pid_ > 0; }
  pid_t id() const { return pid_; }
  Lane lane(uint32_t index) const;

  // What the process said of itself while it started, and the name of the first system call that
  // it was refused; empty: none was.
  Sandbox sandbox() const;
  std::string_view refused() const;

  // Calls and waits, and answers questions by `on_question`, which reads the lane's `said` and
  // writes its `answer`. Nothing is heard of a process that ended or took too long: `why` says how.
  // Different threads may call on different lanes. The process is not cleared away by this.
  struct Heard {
    bool replied = false;
    std::string why;  // "was ended by signal 9 (Killed)"
  };
  Heard call(const Lane& lane, uint32_t method, size_t bytes,
             const std::function<void()>& on_question) const;

 private:
  std::string how_it_ended() const;
  std::string last_words() const;
  std::string call_limit() const;

  pid_t pid_ = -1;
  int life_ = -1;  // our end of the pipe that tells the process of our end
  std::byte* memory_ = nullptr;
  uint64_t memory_bytes_ = 0;
  LaneSizes sizes_;
  Limits limits_;
};

// The program's path: next to this one, in <prefix>/libexec/tenon, or in the build folder.
Result<std::string> find_guest_program();

}  // namespace tenon
