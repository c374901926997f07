#include "core/contract/checked_scheduler.h"

#include <algorithm>

namespace tenon {
namespace {

// Nobody keeps more, or waits on purpose for longer.
constexpr uint32_t kMostIdleRows = 1u << 20;
constexpr int64_t kLongestWaitNs = int64_t{3600} * 1'000'000'000;

}  // namespace

CheckedScheduler::CheckedScheduler(Scheduler& plugin, const std::string& name, CallChecks checks)
    : plugin_(plugin),
      checks_(checks),
      on_event_(name_call("on_event", "scheduler '" + name + "'")),
      plan_(name_call("plan", "scheduler '" + name + "'")) {}

Status CheckedScheduler::on_event(const SequenceEvent& event) noexcept {
  CheckedCall call(on_event_, checks_);
  return call.readable(plugin_.on_event(event));
}

Status CheckedScheduler::plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept {
  const std::span<Grant> room = out.grants;
  out.grants = grants_.give(room);
  shown_.begin();
  if (checks_ == CallChecks::more) {
    shown_.add(view.waiting);
    shown_.add(view.running);
  }
  Status status;
  {
    CheckedCall call(plan_, checks_);
    status = call.readable(plugin_.plan(view, ledger, out));
  }
  out.grants = room;
  if (!grants_.take(room, std::min<size_t>(out.grant_count, room.size()))) {
    return wrote_behind("plan", "grants");
  }
  if (!shown_.unchanged()) return wrote_into("plan", "sequences");
  if (!status.ok()) return status;
  if (out.grant_count > room.size()) {
    return broken_promise("plan", "made " + std::to_string(out.grant_count) + " grants",
                          "at most " + std::to_string(room.size()) + ", for which there was room");
  }
  if (out.idle_rows > kMostIdleRows) {
    return broken_promise("plan", "keeps " + std::to_string(out.idle_rows) + " rows idle",
                          "at most " + std::to_string(kMostIdleRows));
  }
  if (out.wake_ns < 0 || out.wake_ns - view.now_ns > kLongestWaitNs) {
    return broken_promise("plan", "wants to wait until " + std::to_string(out.wake_ns) + " ns",
                          "at most an hour from now, " + std::to_string(view.now_ns) + " ns");
  }
  return status;
}

}  // namespace tenon
