// What other threads have a step thread do between its steps, first come first.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "core/base/result.h"

namespace tenon::llm {

class StepJobs {
 public:
  using Job = std::function<void()>;

  // False: the step thread has ended, and the job is gone. A job that still waits when it ends is
  // destroyed without having run. [any thread]
  bool post(Job job);
  // Waits for what it returns. Error: failed, where the step thread ends before. [any thread but
  // the step thread]
  Status call(std::function<Status()> job);

  void run();    // those that wait [step]
  void close();  // nothing is run any more [step, or whoever joined it]

 private:
  std::mutex mutex_;
  std::deque<Job> jobs_;
  bool closed_ = false;
};

}  // namespace tenon::llm
