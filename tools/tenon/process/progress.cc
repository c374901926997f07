#include "tools/tenon/process/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tenon {

bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}
bool stdout_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}
bool stdin_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

Progress::Progress(std::string label, Unit unit, bool enabled)
    : label_(std::move(label)), unit_(unit), enabled_(enabled && stderr_is_terminal()) {}

Progress::~Progress() {
  wipe();
}

void Progress::update(uint64_t done, uint64_t total) {
  using namespace std::chrono_literals;
  if (!enabled_ || total == 0) return;
  const Clock::time_point now = Clock::now();
  if (!begun_) first_done_ = done;
  begun_ = true;
  if (now - started_ < 500ms || (shown_ && now - last_ < 100ms && done < total)) return;
  last_ = now;
  shown_ = true;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::min(done, total) * kWidth / total);
  std::string bar(kWidth, '.');
  std::fill_n(bar.begin(), filled, '#');
  const double worked = std::chrono::duration<double>(now - started_).count();
  const double made = static_cast<double>(done - std::min(done, first_done_));
  const double left = static_cast<double>(total - std::min(done, total));
  if (unit_ == Unit::bytes || unit_ == Unit::transfer) {
    std::fprintf(stderr, "\r%s [%s] %.0f of %.0f MB", label_.c_str(), bar.c_str(),
                 static_cast<double>(done) / 1e6, static_cast<double>(total) / 1e6);
    if (unit_ == Unit::transfer) {
      std::fprintf(stderr, ", %.1f MB/s", made / 1e6 / worked);
      print_left(made, left, worked);
    }
  } else if (unit_ == Unit::parts) {
    std::fprintf(stderr, "\r%s [%s] %.0f %%", label_.c_str(), bar.c_str(),
                 100.0 * static_cast<double>(done) / static_cast<double>(total));
    print_left(made, left, worked);
  } else {
    std::fprintf(stderr, "\r%s [%s] %llu of %llu", label_.c_str(), bar.c_str(),
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(total));
  }
  std::fflush(stderr);
}

void Progress::print_left(double made, double left, double worked_seconds) {
  if (made <= 0) return;
  const double seconds = worked_seconds * left / made;
  std::fprintf(stderr, ", %.0f:%02.0f left\033[K", std::floor(seconds / 60),
               std::floor(std::fmod(seconds, 60)));
}

void Progress::wipe() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace tenon
