#include "core/llm/step_jobs.h"

#include <condition_variable>
#include <memory>
#include <optional>
#include <utility>

namespace tenon::llm {
namespace {

// What a caller waits for.
class Answer {
 public:
  void give(Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (status_) return;
      status_ = std::move(status);
    }
    given_.notify_all();
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    given_.wait(lock, [this] { return status_.has_value(); });
    return *std::move(status_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  std::optional<Status> status_;
};

// Goes with a job, and answers for it where it never ran.
struct Promise {
  explicit Promise(std::shared_ptr<Answer> of) : answer(std::move(of)) {}
  ~Promise() { answer->give(failed("the engine has ended")); }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  const std::shared_ptr<Answer> answer;
};

}  // namespace

bool StepJobs::post(Job job) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  jobs_.push_back(std::move(job));
  return true;
}

Status StepJobs::call(std::function<Status()> job) {
  const auto answer = std::make_shared<Answer>();
  post([job = std::move(job), promise = std::make_shared<Promise>(answer)] {
    promise->answer->give(job());
  });
  return answer->wait();
}

void StepJobs::run() {
  for (;;) {
    Job job;
    {
      const std::lock_guard lock(mutex_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

void StepJobs::close() {
  std::deque<Job> dropped;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(jobs_);
  }
}

}  // namespace tenon::llm
