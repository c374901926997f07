// A progress line on standard error, only where that is a terminal and only after half a second,
// so that quick work and redirected output stay silent.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tenon {

class Progress {
 public:
  // `unit` is shown after the numbers; bytes are shown as MB, parts as per cent with the time that
  // the rest may take, and a transfer as MB with its speed and that time.
  enum class Unit { bytes, items, parts, transfer };
  Progress(std::string label, Unit unit, bool enabled);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t done, uint64_t total);
  void wipe();  // removes the line, for other output to take its place

 private:
  using Clock = std::chrono::steady_clock;
  // ", 1:05 left", once something was made.
  static void print_left(double made, double left, double worked_seconds);

  std::string label_;
  Unit unit_;
  bool enabled_;
  bool shown_ = false;
  uint64_t first_done_ = 0;  // what was done before this program began
  bool begun_ = false;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_;
};

bool stderr_is_terminal();
bool stdout_is_terminal();
bool stdin_is_terminal();

}  // namespace tenon
