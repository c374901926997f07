// What <tenon/scheduler.h> promises.
#include <algorithm>
#include <ctime>

#include "core/base/quote.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/watch/heap_growth.h"
#include "core/conformance/watch/import_watch.h"
#include "core/conformance/worlds/scheduler_world.h"
#include "core/contract/checked_scheduler.h"

namespace tenon {
namespace {

// A scheduler under test behind the host's own checks.
struct Checked {
  PluginInstance<Scheduler> plugin;
  std::unique_ptr<CheckedScheduler> scheduler;

  static Result<Checked> make(Subject& subject) {
    Checked made;
    TENON_ASSIGN_OR_RETURN(made.plugin, subject.make<Scheduler>());
    made.scheduler =
        std::make_unique<CheckedScheduler>(*made.plugin, subject.name(), subject.checks());
    return made;
  }
};

bool keeps_spans(const Subject& subject) {
  return subject.provides("sched.whole_spans", "yes");
}

WorldSize usual_world(const Subject& subject) {
  WorldSize size;
  size.whole_spans = keeps_spans(subject);
  return size;
}

Finding run_world(Subject& subject, const WorldSize& size, uint64_t seed) {
  auto made = Checked::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  SchedulerWorld world(*made->scheduler, size, seed);
  while (world.step()) {
  }
  if (!world.problem().empty()) return broke(world.problem());
  return {};
}

// Several worlds of one kind.
Finding run_worlds(Subject& subject, const WorldSize& size) {
  for (uint32_t i = 0; i < 4 * subject.effort(); ++i) {
    Finding found = run_world(subject, size, subject.seed() + i);
    if (found.verdict != CaseVerdict::pass) return found;
  }
  return {};
}

Finding serves_everyone(Subject& subject) {
  return run_worlds(subject, usual_world(subject));
}

Finding serves_everyone_in_scarce_memory(Subject& subject) {
  WorldSize size = usual_world(subject);
  size.memory_tokens = size.most_prompt + size.most_answer + 8;  // for one, and hardly more
  return run_worlds(subject, size);
}

Finding serves_everyone_in_narrow_steps(Subject& subject) {
  WorldSize size = usual_world(subject);
  size.whole_spans = false;
  size.max_sequences = 2;
  size.max_batch_tokens = 3;
  return run_worlds(subject, size);
}

// Counts beyond 16 bits.
Finding serves_long_prompts(Subject& subject) {
  WorldSize size = usual_world(subject);
  size.sequences = 3;
  size.most_prompt = 200'000;
  size.memory_tokens = 1u << 20;
  size.max_batch_tokens = 30'000;
  return run_world(subject, size, subject.seed());
}

// Views and ledgers that no engine makes in this order, but each of which it could make.
class RandomViews {
 public:
  RandomViews(Scheduler& scheduler, uint64_t seed, bool whole_spans)
      : scheduler_(scheduler), random_(seed), whole_spans_(whole_spans) {}

  std::string plan_one() {
    const uint32_t limit = 64 + random_.below(1000);
    std::vector<SequenceView> running, waiting;
    RecordingLedger ledger(random_.below(3000));
    ledger.refuses = random_.one_in(3);
    for (uint32_t i = random_.below(30); i > 0; --i) running.push_back(runner(limit, ledger));
    for (uint32_t i = random_.below(10); i > 0; --i) waiting.push_back(waiter(limit, ledger));
    SchedulerView view;
    view.step_id = ++step_;
    view.limits = {40, limit, 4096};
    view.kv_tokens = 1u << 20;
    view.running = running;
    view.waiting = waiting;
    std::vector<Grant> grants(running.size() + waiting.size());
    PlanOut out;
    out.grants = grants;
    for (const auto* list : {&running, &waiting}) {
      for (const SequenceView& one : *list) tell(EventKind::arrived, one);
    }
    const Status status = scheduler_.plan(view, ledger, out);
    if (!status.ok()) return "plan fails: " + message_of(status);
    std::string wrong = broken_by(view, ledger, out, whole_spans_);
    for (const auto* list : {&running, &waiting}) {
      for (const SequenceView& one : *list) {
        tell(one.seq % 2 == 0 ? EventKind::finished : EventKind::aborted, one);
      }
    }
    return wrong;
  }

 private:
  SequenceView runner(uint32_t limit, RecordingLedger& ledger) {
    SequenceView view = sequence(2 + random_.below(700));
    view.computed_tokens =
        random_.one_in(2) ? view.known_tokens - 1 : random_.below(view.known_tokens);
    const uint32_t left = view.known_tokens - view.computed_tokens;
    if (random_.one_in(3)) view.whole_tokens = random_.below(std::min(left, limit) + 1);
    if (random_.one_in(2)) view.in_flight_tokens = random_.below(view.computed_tokens + 1);
    if (left == 1) view.offered_drafts = random_.below(6);
    ledger.running[view.seq] = view.in_flight_tokens;
    return view;
  }
  SequenceView waiter(uint32_t limit, RecordingLedger& ledger) {
    SequenceView view = sequence(2 + random_.below(700));
    if (random_.one_in(4))
      view.whole_tokens = random_.below(std::min(view.known_tokens, limit) + 1);
    if (random_.one_in(2)) ledger.ready[view.seq] = random_.below(view.known_tokens);
    return view;
  }
  SequenceView sequence(uint32_t known) {
    SequenceView view;
    view.seq = next_++;
    view.prompt_tokens = view.known_tokens = known;
    view.limit_tokens = known + 100;
    view.arrival_ns = static_cast<int64_t>(view.seq);
    view.tenant = random_.below(3);
    view.priority = static_cast<int32_t>(random_.below(3));
    return view;
  }
  void tell(EventKind kind, const SequenceView& view) {
    SequenceEvent event;
    event.kind = kind;
    event.seq = view.seq;
    event.tenant = view.tenant;
    event.prompt_tokens = view.prompt_tokens;
    event.known_tokens = view.known_tokens;
    static_cast<void>(scheduler_.on_event(event).ok());  // worlds look at these
  }

  Scheduler& scheduler_;
  CaseRandom random_;
  bool whole_spans_;
  SeqId next_ = 1;
  uint64_t step_ = 0;
};

Finding random_views(Subject& subject) {
  auto made = Checked::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  RandomViews views(*made->scheduler, subject.seed(), keeps_spans(subject));
  for (uint32_t i = 0; i < 150 * subject.effort(); ++i) {
    if (std::string wrong = views.plan_one(); !wrong.empty()) {
      return broke("plan " + std::to_string(i + 1) + ": " + wrong);
    }
  }
  return {};
}

SequenceView decoding(SeqId seq) {
  SequenceView view;
  view.seq = seq;
  view.prompt_tokens = 10;
  view.known_tokens = 15;
  view.computed_tokens = 14;
  view.limit_tokens = 100;
  view.arrival_ns = seq;
  return view;
}

// A step over sequences that decode; what was granted, or the error.
Result<uint32_t> plan_decoding(Scheduler& scheduler, std::span<const SequenceView> running,
                               RecordingLedger& ledger, uint64_t step) {
  SchedulerView view;
  view.step_id = step;
  view.limits = {512, 1024, 4096};
  view.kv_tokens = 1u << 20;
  view.running = running;
  std::vector<Grant> grants(running.size());
  PlanOut out;
  out.grants = grants;
  ledger.begin_plan();
  TENON_RETURN_IF_ERROR(scheduler.plan(view, ledger, out));
  return out.grant_count;
}

Finding takes_refusals(Subject& subject) {
  auto made = Checked::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  RecordingLedger ledger(0);
  ledger.refuses = true;
  std::vector<SequenceView> running;
  for (SeqId seq = 1; seq <= 40; ++seq) {
    running.push_back(decoding(seq));
    ledger.running[seq] = 0;
    SequenceEvent event;
    event.seq = seq;
    event.prompt_tokens = 10;
    event.known_tokens = 15;
    if (const Status status = made->scheduler->on_event(event); !status.ok()) {
      return broke("on_event fails: " + message_of(status));
    }
  }
  for (uint64_t step = 1; step <= 100; ++step) {
    const auto granted = plan_decoding(*made->scheduler, running, ledger, step);
    if (!granted.ok()) return broke("plan fails: " + message_of(granted.status()));
    if (*granted > 0) return broke("grants what the ledger refused");
    if (ledger.calls() > 20000) {
      return broke("asks the ledger " + std::to_string(ledger.calls()) +
                   " times in a plan for 40 sequences");
    }
  }
  return {};
}

Finding nothing_to_do(Subject& subject) {
  auto made = Checked::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  RecordingLedger ledger(100);
  const auto granted = plan_decoding(*made->scheduler, {}, ledger, 1);
  if (!granted.ok()) return broke("plan fails: " + message_of(granted.status()));
  return {};
}

Finding unknown_events(Subject& subject) {
  auto made = Checked::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  SequenceEvent event;
  event.kind = static_cast<EventKind>(200);
  event.seq = 7;
  const Status status = made->scheduler->on_event(event);
  if (!status.ok()) return broke("an event of kind 200 is refused: " + message_of(status));
  return {};
}

Finding state_of_its_own(Subject& subject) {
  const auto alone = exercise_scheduler(subject, subject.seed());
  if (!alone.ok()) return broke(message_of(alone.status()));
  auto one = Checked::make(subject), other = Checked::make(subject);
  if (!one.ok() || !other.ok()) return broke("a second instance cannot be created");
  SchedulerWorld world(*one->scheduler, usual_world(subject), subject.seed());
  SchedulerWorld beside(*other->scheduler, usual_world(subject), subject.seed() + 99);
  bool more = true;
  while (more) {
    static_cast<void>(beside.step());
    more = world.step();
  }
  if (world.transcript() != *alone) {
    return broke("an instance plans otherwise when another instance plans beside it");
  }
  return {};
}

// Processor time of this thread: others that use the machine make no plan slow.
int64_t thread_time_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Finding plans_in_time(Subject& subject) {
  constexpr int64_t kTooSlowNs = 20'000'000;
  auto made = Checked::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  RecordingLedger ledger(1u << 20);
  std::vector<SequenceView> running;
  for (SeqId seq = 1; seq <= 256; ++seq) {
    running.push_back(decoding(seq));
    ledger.running[seq] = 0;
  }
  std::vector<int64_t> durations;
  for (uint64_t step = 1; step <= 21; ++step) {
    const int64_t begin = thread_time_ns();
    const auto granted = plan_decoding(*made->scheduler, running, ledger, step);
    durations.push_back(thread_time_ns() - begin);
    if (!granted.ok()) return broke("plan fails: " + message_of(granted.status()));
  }
  std::nth_element(durations.begin(), durations.begin() + 10, durations.end());
  if (durations[10] <= kTooSlowNs) return {};
  return {CaseVerdict::too_slow,
          "a plan for 256 sequences takes " + std::to_string(durations[10] / 1000) + " µs"};
}

Finding plans_without_allocating(Subject& subject) {
  constexpr uint64_t kWarmUp = 64, kSteps = 64;
  auto made = Checked::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  RecordingLedger ledger(1u << 20);
  std::vector<SequenceView> running;
  for (SeqId seq = 1; seq <= 32; ++seq) {
    running.push_back(decoding(seq));
    ledger.running[seq] = 0;
    SequenceEvent event;
    event.seq = seq;
    event.prompt_tokens = running.back().prompt_tokens;
    event.known_tokens = running.back().known_tokens;
    if (const Status status = made->scheduler->on_event(event); !status.ok()) {
      return broke("on_event fails: " + message_of(status));
    }
  }
  ImportWatch watch(reinterpret_cast<const void*>(subject.descriptor().create));
  for (uint64_t step = 1; step <= kWarmUp + kSteps; ++step) {
    watch.begin();
    const auto granted = plan_decoding(*made->scheduler, running, ledger, step);
    if (!granted.ok()) return broke("plan fails: " + message_of(granted.status()));
    const auto call = watch.seen(WatchedCall::memory);
    if (step <= kWarmUp || !call) continue;
    return broke("after " + std::to_string(step - 1) +
                 " steps of the same sequences, `plan` takes memory by " +
                 std::string(call->function));
  }
  return {};
}

// A sequence that arrives, is computed once, and ends; every third is aborted before that.
Status live_once(Scheduler& scheduler, SeqId seq) {
  SequenceView view = decoding(seq);
  view.computed_tokens = 0;
  SequenceEvent event;
  event.seq = seq;
  event.prompt_tokens = view.prompt_tokens;
  event.known_tokens = view.known_tokens;
  TENON_RETURN_IF_ERROR(scheduler.on_event(event));
  event.kind = EventKind::aborted;
  if (seq % 3 == 0) return scheduler.on_event(event);
  // A ledger of its own: this one keeps what it has heard.
  RecordingLedger ledger(1u << 20);
  ledger.begin_plan();
  SchedulerView world;
  world.step_id = seq;
  world.limits = {512, 1024, 4096};
  world.kv_tokens = 1u << 20;
  world.waiting = {&view, 1};
  Grant grant;
  PlanOut out;
  out.grants = {&grant, 1};
  TENON_RETURN_IF_ERROR(scheduler.plan(world, ledger, out));
  event.kind = EventKind::progressed;
  event.step_id = seq;
  event.computed_tokens = event.known_tokens++;
  TENON_RETURN_IF_ERROR(scheduler.on_event(event));
  event.kind = EventKind::finished;
  return scheduler.on_event(event);
}

Finding forgets_sequences(Subject& subject) {
  auto made = Checked::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  return forgets_the_ended(subject.effort(),
                           [&](SeqId seq) { return live_once(*made->scheduler, seq); });
}

}  // namespace

Result<Transcript> exercise_scheduler(Subject& subject, uint64_t seed) {
  TENON_ASSIGN_OR_RETURN(const Checked made, Checked::make(subject));
  SchedulerWorld world(*made.scheduler, usual_world(subject), seed);
  while (world.step()) {
  }
  if (!world.problem().empty()) return failed(world.problem());
  return world.transcript();
}

Result<Transcript> exercise_scheduler_widely(Subject& subject, uint64_t seed) {
  TENON_ASSIGN_OR_RETURN(Transcript all, exercise_scheduler(subject, seed));
  WorldSize measured = usual_world(subject), scarce = measured;
  measured.measures = true;
  measured.max_sequences = 16;
  measured.max_batch_tokens = 200;
  scarce.swaps = true;
  scarce.memory_tokens = 2 * (scarce.most_prompt + scarce.most_answer);
  for (const WorldSize& size : {measured, scarce}) {
    TENON_ASSIGN_OR_RETURN(const Checked made, Checked::make(subject));
    SchedulerWorld world(*made.scheduler, size, seed);
    while (world.step()) {
    }
    if (!world.problem().empty()) return failed(world.problem());
    all.insert(all.end(), world.transcript().begin(), world.transcript().end());
  }
  return all;
}

// Hundreds of sequences that come and go for an hour.
Result<Transcript> exercise_scheduler_at_length(Subject& subject, uint64_t seed) {
  WorldSize size = usual_world(subject);
  size.sequences = 300;
  size.measures = true;
  size.step_ns = 1'000'000'000;
  TENON_ASSIGN_OR_RETURN(const Checked made, Checked::make(subject));
  SchedulerWorld world(*made.scheduler, size, seed);
  while (world.step()) {
  }
  if (!world.problem().empty()) return failed(world.problem());
  return world.transcript();
}

CaseList scheduler_cases() {
  constexpr std::string_view kOf = "scheduler", kHeader = "scheduler.h";
  return {
      {"scheduler.nothing_to_do", kOf, kHeader,
       "to grant only sequences of the view, each at most once", &nothing_to_do},
      {"scheduler.random_views", kOf, kHeader,
       "to grant only sequences of the view, each at most once, and only what the ledger granted;",
       &random_views},
      {"scheduler.serves_everyone", kOf, kHeader,
       "tokens that were not granted wait for another step.", &serves_everyone},
      {"scheduler.scarce_memory", kOf, kHeader,
       "to accept a refusal of the ledger: tokens that were not granted wait for another step.",
       &serves_everyone_in_scarce_memory},
      {"scheduler.narrow_steps", kOf, kHeader,
       "to keep within `max_sequences` and `max_batch_tokens`;", &serves_everyone_in_narrow_steps},
      {"scheduler.long_prompts", kOf, kHeader,
       "tokens that were not granted wait for another step.", &serves_long_prompts},
      {"scheduler.refusals", kOf, kHeader, "to accept a refusal of the ledger", &takes_refusals},
      {"scheduler.unknown_events", kOf, kHeader, "to ignore event kinds that it does not know;",
       &unknown_events},
      {"scheduler.state_of_its_own", kOf, kHeader,
       "to decide from its arguments alone: no clock, no randomness, no state outside `this`;",
       &state_of_its_own},
      {"scheduler.memory", kOf, kHeader, "not to allocate in `plan` after warm-up",
       &plans_without_allocating},
      {"scheduler.ended_sequences", kOf, "types.h", "Nothing is kept across calls",
       &forgets_sequences},
      {"scheduler.speed", kOf, kHeader,
       "decides, once a step, which sequence computes how many tokens.", &plans_in_time},
  };
}

}  // namespace tenon
