// What a scheduler saw and decided, step by step, as lines of JSON (`tenon compare --record`); and
// another scheduler over the same views (`tenon compare replay`).
#pragma once

#include <tenon/scheduler.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/compare/json.h"

namespace tenon::compare {

// Passes every call on to a scheduler, and writes down its events, views and plans. A plan that
// fails is not written.
class ViewRecorder final : public Scheduler {
 public:
  // Takes each line. An error of it becomes the scheduler's.
  using Sink = std::function<Status(const Json& line)>;
  ViewRecorder(Scheduler& scheduler, Sink sink) : scheduler_(scheduler), sink_(std::move(sink)) {}
  // Into a file. Error: it cannot be written.
  static Result<std::unique_ptr<ViewRecorder>> open(Scheduler& scheduler, const std::string& path);

  Status on_event(const SequenceEvent& event) noexcept override;
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override;

 private:
  Scheduler& scheduler_;
  Sink sink_;
};

struct ReplayedViews {
  uint64_t plans = 0;  // that were alike, from the first on
  bool differ = false;
  std::vector<std::string> lines = {};  // the first difference, for people
};
// Hands the recorded views to `scheduler` until it decides otherwise. Memory is that of the record:
// what was free, cached and held when each plan began. Errors name the line.
Result<ReplayedViews> replay_views(Scheduler& scheduler, const std::string& path);

}  // namespace tenon::compare
