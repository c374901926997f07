// How a process that is not a child of this one came to its end, as far as Linux tells others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// What a file of /proc says of a process: "comm", "environ", "task/7/children"; what was read so
// far where the process ends meanwhile, and nothing where there is none.
std::string text_of_process(int64_t process, std::string_view name);
// The fields of its /proc/…/stat from the state on: "S 1 1 …"; empty: there is none.
std::string stat_of_process(int64_t process);

// A descriptor of a process, readable once it has ended (pidfd_open(2)); -1: there is none.
int process_descriptor(int64_t process);

// What wait(2) gives to the parent of a process that has ended. From /proc while nobody has asked
// for it yet, else from the kernel (PIDFD_GET_INFO, Linux 6.15); nothing where neither tells.
std::optional<int> wait_status_of(int descriptor, int64_t process);

// Tells the ends of processes in the order in which they came, however late it is asked: a launcher
// kills all its processes soon after one was lost. [one thread]
class ProcessEnds {
 public:
  ProcessEnds();
  ~ProcessEnds();
  ProcessEnds(const ProcessEnds&) = delete;
  ProcessEnds& operator=(const ProcessEnds&) = delete;

  // `process` is a process_descriptor, open for as long as its end is of interest.
  void add(int process, uint64_t key);
  // The key of the next one that has ended, each once; nothing while the others run.
  std::optional<uint64_t> next();
  // Moves those of `all` that have ended since to its front, in the order of their ends, after the
  // `ended` that stand there already. `key_of` says under which key one was added.
  template <typename T, typename KeyOf>
  void move_to_front(std::vector<T>& all, size_t& ended, KeyOf key_of) {
    while (const std::optional<uint64_t> key = next()) {
      const auto place = std::ranges::find(all, *key, key_of);
      std::rotate(all.begin() + static_cast<ptrdiff_t>(ended++), place, place + 1);
    }
  }
  // To poll(2): readable while next() has one.
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

// Whether it was killed by SIGKILL, or crashed: nobody ends in order so.
bool is_violent(int wait_status);

// Processes that the system has killed since it started, to have their memory back.
uint64_t killed_for_memory();

// "it was killed by SIGKILL: …", "it crashed with SIGSEGV". `killed_before`: what killed_for_memory
// said while the process ran.
std::string how_it_ended(std::optional<int> wait_status, uint64_t killed_before);

}  // namespace tenon
