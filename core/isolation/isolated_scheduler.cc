#include "core/isolation/isolated_scheduler.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/log.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr LaneSizes kSchedulerLane{
    .lanes = 1, .call_bytes = uint64_t{64} << 20, .reply_bytes = uint64_t{64} << 20};

// In a row: sooner than the engine gives up on requests.
constexpr uint32_t kMostRefusedPlans = 2;

uint32_t block_tokens_in(const PipelineFacts& facts) {
  const ResolvedFact* fact = facts.find("kv.block_tokens");
  if (fact == nullptr || fact->number <= 0) return 0;
  return static_cast<uint32_t>(
      std::min<int64_t>(fact->number, std::numeric_limits<int32_t>::max()));
}

LedgerAnswer answer_of(const LedgerAsked& asked, KvLedger& ledger) {
  LedgerAnswer answer{};
  switch (asked.question) {
    case LedgerQuestion::cached:
      answer.cached = ledger.cached(asked.seq);
      break;
    case LedgerQuestion::cost:
      answer.cost = ledger.cost(asked.seq, asked.first);
      break;
    case LedgerQuestion::try_grow:
      answer.grown = ledger.try_grow(asked.seq, asked.first, asked.second);
      break;
    case LedgerQuestion::held:
      answer.held = ledger.held(asked.seq);
      break;
    case LedgerQuestion::release:
      // Ways that this host does not know are refused by the ledger.
      answer.released = ledger.release(
          asked.seq, static_cast<ReleaseHow>(std::min<uint32_t>(asked.first, UINT8_MAX)));
      break;
    case LedgerQuestion::none:
      break;
  }
  return answer;
}

}  // namespace

IsolatedScheduler::IsolatedScheduler(IsolatedOrigin origin)
    : plugin_(std::move(origin), kSchedulerLane),
      block_tokens_(block_tokens_in(*plugin_.origin().facts)) {}

Result<std::unique_ptr<IsolatedScheduler>> IsolatedScheduler::create(IsolatedOrigin origin) {
  std::unique_ptr<IsolatedScheduler> made(new IsolatedScheduler(std::move(origin)));
  TENON_RETURN_IF_ERROR(made->plugin_.start());
  return made;
}

void IsolatedScheduler::set_fallback(Scheduler* fallback, std::string name) {
  fallback_ = fallback;
  fallback_name_ = std::move(name);
}

void IsolatedScheduler::plan_refused() {
  refused_ = true;
  if (++refused_plans_ == kMostRefusedPlans && fallback_ != nullptr) {
    plugin_.stop(std::to_string(kMostRefusedPlans) + " plans in a row were refused");
  }
}

void IsolatedScheduler::remember(const SequenceEvent& event) {
  if (event.kind == EventKind::finished || event.kind == EventKind::aborted) {
    alive_.erase(event.seq);
  } else {
    alive_[event.seq] = event;
  }
}

Status IsolatedScheduler::on_event(const SequenceEvent& event) noexcept {
  if (fell_back_) return fallback_->on_event(event);
  if (event.kind != EventKind::arrived) {
    remember(event);
    events_.push_back(event);
    return {};
  }
  // In its turn after what happened before.
  for (const SequenceEvent& earlier : std::exchange(events_, {})) {
    const Status told = plugin_.call(0, GuestMethod::on_event, "on_event",
                                     [&](WireWriter& out) { out.put(earlier); });
    if (!told.ok() && plugin_.runs()) return copy(told);
  }
  Status status =
      plugin_.call(0, GuestMethod::on_event, "on_event", [&](WireWriter& out) { out.put(event); });
  const bool lives_on = !plugin_.runs() && fallback_ != nullptr;
  if (status.ok() || lives_on) remember(event);
  if (!lives_on) return status;
  log(LogLevel::error, "scheduler " + plugin_.id(), message_of(status));
  return fall_back();
}

// The other one is told of everybody, in the order of their arrival.
Status IsolatedScheduler::fall_back() {
  if (fallback_ == nullptr) {
    return failed("its process is gone, and no scheduler was named to go on in its place");
  }
  fell_back_ = true;
  events_.clear();
  const std::string sequel = in_quotes(fallback_name_) + " plans in its place";
  plugin_.note_sequel(sequel);
  log(LogLevel::warning, "scheduler " + plugin_.id(), "from here on " + sequel);
  for (const auto& [seq, latest] : alive_) {
    SequenceEvent arrived = latest;
    arrived.kind = EventKind::arrived;
    arrived.step_id = 0;
    TENON_RETURN_IF_ERROR(fallback_->on_event(arrived));
  }
  alive_.clear();
  return {};
}

Status IsolatedScheduler::plan_elsewhere(const SchedulerView& view, KvLedger& ledger,
                                         PlanOut& out) {
  if (!fell_back_) TENON_RETURN_IF_ERROR(fall_back());
  return fallback_->plan(view, ledger, out);
}

Status IsolatedScheduler::plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept {
  if (!plugin_.runs()) return plan_elsewhere(view, ledger, out);
  if (!std::exchange(refused_, false)) refused_plans_ = 0;
  kept_.clear();
  running_ = view.running.size();
  const uint64_t free_tokens = ledger.free_tokens();
  Status status = plugin_.call(
      0, GuestMethod::plan, "plan", [&](WireWriter& wire) { write_plan(view, free_tokens, wire); },
      [&](WireReader& in) { read_plan(in, ledger, out); },
      [&](const Lane& lane) { answer(lane, ledger); });
  events_.clear();
  if (exact_plans_ > 0) --exact_plans_;
  if (!status.ok()) return status;
  if (!kept_.empty()) drop_broken(out);
  return {};
}

void IsolatedScheduler::write_plan(const SchedulerView& view, uint64_t free_tokens,
                                   WireWriter& out) {
  out.put(PlanHead{view.step_id, view.now_ns, view.limits, view.kv_tokens, view.last_step,
                   free_tokens, exact_plans_ > 0 ? 0 : block_tokens_});
  out.put_list(std::span<const SequenceEvent>(events_));
  out.put_list(view.waiting);
  out.put_list(view.running);
}

void IsolatedScheduler::read_plan(WireReader& in, KvLedger& ledger, PlanOut& out) {
  const auto tail = in.get<PlanTail>();
  const std::span<const Grant> grants = in.get_list<Grant>();
  std::copy_n(grants.begin(), std::min(grants.size(), out.grants.size()), out.grants.begin());
  // More than there was room for is a broken promise, which whoever asked for the plan sees.
  out.grant_count = tail.grant_count;
  out.idle_rows = tail.idle_rows;
  out.wake_ns = tail.wake_ns;
  make_true(in.get_list<Foreseen>(), ledger);
}

void IsolatedScheduler::make_true(std::span<const Foreseen> foreseen, KvLedger& ledger) {
  // Each running sequence once: what a process says beyond that nobody needs to look at.
  for (const Foreseen& shared : foreseen.first(std::min(foreseen.size(), running_))) {
    const Foreseen growth = shared;  // read once
    const GrowResult grown = ledger.try_grow(growth.seq, growth.at_least, growth.at_most);
    const bool as_foreseen = grown.granted >= growth.granted && grown.reused == 0;
    if (!as_foreseen) kept_.emplace_back(growth.seq, grown.reused == 0 ? grown.granted : 0);
  }
}

void IsolatedScheduler::answer(const Lane& lane, KvLedger& ledger) {
  WireReader in(lane.said());
  make_true(in.get_list<Foreseen>(), ledger);
  const auto asked = in.get<LedgerAsked>();
  const LedgerAnswer answered = answer_of(asked, ledger);
  LedgerReply reply;
  std::memcpy(reply.words, &answered, sizeof(answered));
  reply.free_tokens = ledger.free_tokens();
  std::memcpy(lane.header().answer, &reply, sizeof(reply));
}

void IsolatedScheduler::drop_broken(PlanOut& out) {
  const size_t count = std::min<size_t>(out.grant_count, out.grants.size());
  const auto broken = [&](const Grant& grant) {
    return std::ranges::any_of(kept_, [&](const auto& kept) {
      return kept.first == grant.seq && uint64_t{grant.tokens} + grant.drafts > kept.second;
    });
  };
  const auto end = std::remove_if(out.grants.begin(), out.grants.begin() + count, broken);
  const auto left = static_cast<uint32_t>(end - out.grants.begin());
  if (out.grant_count == count) out.grant_count = left;
  exact_plans_ = next_exact_plans_;
  next_exact_plans_ = std::min<uint64_t>(next_exact_plans_ * 2, uint64_t{1} << 40);
}

}  // namespace tenon
