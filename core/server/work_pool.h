// A few threads for what must hold up neither the I/O thread nor the step thread: reading JSON,
// rendering templates, tokenising, writing long answers.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::server {

class WorkPool {
 public:
  // At most `capacity` jobs wait.
  WorkPool(uint32_t threads, size_t capacity);
  // Waits for jobs that run; those that wait are dropped.
  ~WorkPool() { stop(); }
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // False when it is full or stopped.
  bool post(std::function<void()> job);
  // The same for what an answer that is being made cannot do without: never full.
  bool post_urgent(std::function<void()> job);
  void stop();

 private:
  void work();

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_, urgent_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tenon::server
