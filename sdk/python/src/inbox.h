// Between the engine's thread, which never holds Python's lock, and those of Python.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::python {

// How often this process came out of a fork: what was opened before has no engine any more.
unsigned forks();

// The interpreter is about to end, on this thread. Others that come back to Python from then on
// stay where they are until the process ends: taking Python's lock would end them in the middle of
// C++, which ends the process with them. Threads that are not daemons have ended by then.
void begin_leaving();
void stay_if_leaving();

// Rung on the engine's thread, heard by an event loop: `descriptor` can be read when somebody rang.
class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  int descriptor() const { return descriptor_; }
  void ring(uint64_t id);
  // The ids that rang since the last time, and silence.
  std::vector<uint64_t> take();

 private:
  int descriptor_ = -1;  // an eventfd
  std::mutex mutex_;
  std::vector<uint64_t> rung_;
};

// New output of one answer.
struct Piece {
  uint32_t sample = 0;
  std::string text;
  std::vector<int32_t> tokens;
};

// What came of one call and nobody has looked at yet.
class Inbox {
 public:
  // `bell` may be null; it is rung with `id` once after each `take`, and at the end.
  Inbox(std::shared_ptr<Bell> bell, uint64_t id) : bell_(std::move(bell)), id_(id) {}

  void add(Piece piece);  // [engine]
  void end();             // [engine]

  // Until there is something to take, or 50 ms have passed: a caller looks after signals then. What
  // comes within 10 ms after something was taken is left to gather.
  void wait_a_little(bool for_the_end);
  bool ended() const;
  bool has_news() const;
  // A piece for each answer that has news.
  std::vector<Piece> take();

 private:
  using Clock = std::chrono::steady_clock;
  void tell(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  std::condition_variable news_, end_;  // any change, and the end alone
  Clock::time_point taken_at_{};        // when a piece was taken last
  std::vector<Piece> pieces_;
  bool ended_ = false;
  bool rung_ = false;
  const std::shared_ptr<Bell> bell_;
  const uint64_t id_;
};

}  // namespace tenon::python
