#include "core/contract/checked_scheduler.h"

#include <algorithm>

#include "core/base/text.h"

namespace tenon {
namespace {

constexpr uint32_t kMostIdleRows = 1u << 20;  // nobody keeps more

}  // namespace

std::string approximate_duration(int64_t ns) {
  constexpr int64_t kMillisecond = 1'000'000, kSecond = 1000 * kMillisecond;
  const int64_t unit = ns >= 10 * kSecond ? kSecond : kMillisecond;
  return format_duration(ns / unit * unit);
}

CheckedScheduler::CheckedScheduler(Scheduler& plugin, const std::string& name, CallChecks checks,
                                   int64_t longest_wait_ns)
    : plugin_(plugin),
      checks_(checks),
      longest_wait_ns_(longest_wait_ns),
      on_event_(name_call("on_event", "scheduler '" + name + "'")),
      plan_(name_call("plan", "scheduler '" + name + "'")),
      pass_(name_call("steady_plans pass", "scheduler '" + name + "'")),
      first_(name_call("decodes_first", "scheduler '" + name + "'")),
      rest_(name_call("decodes_first plan", "scheduler '" + name + "'")) {}

Status CheckedScheduler::on_event(const SequenceEvent& event) noexcept {
  CheckedCall call(on_event_, checks_);
  return call.readable(plugin_.on_event(event));
}

Status CheckedScheduler::plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept {
  return checked_plan(plan_, view, out, [&] { return plugin_.plan(view, ledger, out); });
}

Status CheckedScheduler::plan_rest(const DecodesFirst& offered, const SchedulerView& view,
                                   uint32_t decoding, KvLedger& ledger, PlanOut& out) {
  return checked_plan(rest_, view, out,
                      [&] { return offered.plan(offered.self, view, decoding, ledger, out); });
}

template <typename Plan>
Status CheckedScheduler::checked_plan(CallName name, const SchedulerView& view, PlanOut& out,
                                      Plan plan) {
  const std::span<Grant> room = out.grants;
  out.grants = grants_.give(room);
  shown_.begin();
  if (checks_ == CallChecks::more) {
    shown_.add(view.waiting);
    shown_.add(view.running);
  }
  Status status;
  {
    CheckedCall call(name, checks_);
    status = call.readable(plan());
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
  return check_wish(out, view.now_ns);
}

// If there are grants, the wish means nothing.
Status CheckedScheduler::check_wish(const PlanOut& out, int64_t now_ns) const {
  if (out.wake_ns < 0) {
    return broken_promise("plan",
                          "wants to be asked again at " + std::to_string(out.wake_ns) + " ns",
                          "a time of the view's clock, or 0 for at once");
  }
  if (out.grant_count > 0 || out.wake_ns - now_ns <= longest_wait_ns_) return {};
  return broken_promise(
      "plan", "grants nothing and wants to wait for " + approximate_duration(out.wake_ns - now_ns),
      "at most " + format_duration(longest_wait_ns_) + " (engine.wait_limit) while sequences wait");
}

}  // namespace tenon
