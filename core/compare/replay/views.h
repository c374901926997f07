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

// A line of a record, for messages: "views.jsonl:7".
std::string place_of_line(const std::string& path, size_t number);
// Calls function(number, line) for each line of a record, from 1 on, until that is false. Errors:
// those of opening the file, a line that is not JSON, and those of `function`.
Status each_line(const std::string& path,
                 const std::function<Result<bool>(size_t number, Json line)>& function);

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
