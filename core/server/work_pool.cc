#include "core/server/work_pool.h"

#include <exception>

#include "core/base/log.h"
#include "core/base/threads/start_thread.h"

namespace tenon::server {

WorkPool::WorkPool(uint32_t threads, size_t capacity) : capacity_(capacity) {
  try {
    for (uint32_t i = 0; i < threads; ++i) threads_.push_back(start_thread([this] { work(); }));
  } catch (...) {
    stop();
    throw;
  }
}

bool WorkPool::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || jobs_.size() >= capacity_) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

bool WorkPool::post_urgent(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    urgent_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void WorkPool::stop() {
  std::deque<std::function<void()>> jobs, urgent;  // destroyed without the lock
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    jobs.swap(jobs_);
    urgent.swap(urgent_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkPool::work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || !jobs_.empty() || !urgent_.empty(); });
      if (stopped_) return;
      auto& queue = urgent_.empty() ? jobs_ : urgent_;
      job = std::move(queue.front());
      queue.pop_front();
    }
    try {
      job();
    } catch (const std::exception& error) {
      // Memory, at most: the request that it was for is dropped, and answered with 500.
      log(LogLevel::error, "server", std::string("a request: ") + error.what());
    }
  }
}

}  // namespace tenon::server
