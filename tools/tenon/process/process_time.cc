#include "tools/tenon/process/process_time.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

namespace tenon {
namespace {

constexpr double kMoment = 0.25;  // seconds

double processor_seconds(pid_t pid) {
  clockid_t clock = 0;
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// "4711 (its (name)) S 1 …": the letter. 0 where there is no such thread any more.
char thread_state(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  std::string text;
  std::getline(file, text, '\0');  // a thread may end between opening and reading: no text then
  const size_t name_end = text.rfind(')');
  return name_end == text.npos || name_end + 2 >= text.size() ? 0 : text[name_end + 2];
}

// A thread that is ready and has no processor does not sleep, nor does one that is frozen.
bool all_threads_sleep(pid_t pid) {
  std::error_code error;
  const std::filesystem::path folder = "/proc/" + std::to_string(pid) + "/task";
  std::filesystem::directory_iterator threads(folder, error);
  for (; !error && threads != end(threads); threads.increment(error)) {
    const char state = thread_state(threads->path());
    if (state != 'S' && state != 0) return false;
  }
  return !error;
}

}  // namespace

ProcessTime::ProcessTime(pid_t pid, const TimeLimits& limits)
    : pid_(pid), limits_(limits), last_(std::chrono::steady_clock::now()) {}

TimeLimit ProcessTime::look() {
  const auto now = std::chrono::steady_clock::now();
  const double passed = std::min(std::chrono::duration<double>(now - last_).count(), kMoment);
  last_ = now;
  by_the_clock_ += passed;
  computed_ = std::max(computed_, processor_seconds(pid_));
  if (limits_.waiting < kNoLimit && all_threads_sleep(pid_)) waited_ += passed;
  if (computed_ >= limits_.computing) return TimeLimit::computing;
  if (waited_ >= limits_.waiting) return TimeLimit::waiting;
  if (by_the_clock_ >= limits_.by_the_clock) return TimeLimit::by_the_clock;
  return TimeLimit::none;
}

}  // namespace tenon
