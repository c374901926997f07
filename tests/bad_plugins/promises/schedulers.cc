// Schedulers that break one promise each, and what every plugin can do wrong.
#define SOUND_PLUGIN "sound_scheduler.h"
#include <time.h>

#include <cfenv>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/bad_plugins/promises/wrong.h"

namespace {

using Sound = SoundScheduler;

struct GrantsTwice : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    Sound::plan(view, ledger, out);
    if (out.grant_count > 0) out.push(out.grants[0]);
  }
};
struct GrantsStrangers : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    Sound::plan(view, ledger, out);
    if (out.grant_count > 0) out.grants[0].seq = 4'000'000;
  }
};
struct GrantsMore : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    Sound::plan(view, ledger, out);
    if (out.grant_count > 0) ++out.grants[0].tokens;
  }
};
struct GrantsNothing : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    Sound::plan(view, ledger, out);
    if (out.grant_count > 0) out.grants[0].tokens = 0;
  }
};
struct InventsDrafts : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    Sound::plan(view, ledger, out);
    for (Grant& grant : out.grants.first(out.grant_count)) {
      if (grant.tokens < 2) continue;
      --grant.tokens;
      ++grant.drafts;
      return;
    }
  }
};
struct ExceedsTokens : Sound {
  using Sound::Sound;
  void plan(SchedulerView view, KvLedger& ledger, PlanOut& out) {
    view.limits.max_batch_tokens *= 4;
    Sound::plan(view, ledger, out);
  }
};
struct ExceedsRows : Sound {
  using Sound::Sound;
  void plan(SchedulerView view, KvLedger& ledger, PlanOut& out) {
    view.limits.max_sequences += 1000;
    Sound::plan(view, ledger, out);
  }
};
struct Starves : Sound {
  using Sound::Sound;
  void plan(SchedulerView view, KvLedger& ledger, PlanOut& out) {
    if (!view.running.empty()) view.running = view.running.subspan(1);
    Sound::plan(view, ledger, out);
  }
};

// Memory that takes nothing back.
class Grasping final : public KvLedger {
 public:
  explicit Grasping(KvLedger& real) : real_(real) {}
  CachedTokens cached(SeqId seq) noexcept override { return real_.cached(seq); }
  uint64_t cost(SeqId, uint32_t) noexcept override { return 1; }
  GrowResult try_grow(SeqId seq, uint32_t least, uint32_t most) noexcept override {
    return real_.try_grow(seq, least, most);
  }
  HeldTokens held(SeqId seq) noexcept override { return real_.held(seq); }
  bool release(SeqId, ReleaseHow) noexcept override { return false; }
  uint64_t free_tokens() noexcept override { return 1u << 20; }

 private:
  KvLedger& real_;
};
struct NeverPreempts : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    Grasping grasping(ledger);
    Sound::plan(view, grasping, out);
  }
};
struct Insists : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    do {
      Sound::plan(view, ledger, out);
    } while (out.grant_count == 0 && !view.running.empty());
  }
};
struct WritesBehind : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    Sound::plan(view, ledger, out);
    out.grants.data()[out.grants.size()] = {1, 1, 1};
  }
};
struct KnowsAllEvents : Sound {
  using Sound::Sound;
  Status on_event(const SequenceEvent& event) {
    if (event.kind <= EventKind::finished) return {};
    return Status::error(StatusCode::invalid_argument, "there is no such event");
  }
};
uint64_t plans_of_all = 0;
struct SharesState : Sound {
  using Sound::Sound;
  void plan(SchedulerView view, KvLedger& ledger, PlanOut& out) {
    if (++plans_of_all % 5 == 0) view.waiting = {};
    Sound::plan(view, ledger, out);
  }
};
struct Slow : Sound {
  using Sound::Sound;
  static int64_t processor_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    // By a clock: a count of turns that is slow on one processor is quick on the next.
    constexpr int64_t kSlowNs = 60'000'000;
    const int64_t begin = processor_ns();
    while (view.running.size() > 200 && processor_ns() - begin < kSlowNs) {
    }
    Sound::plan(view, ledger, out);
  }
};

struct WaitsForItself : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    const std::scoped_lock lock(busy_);
    plan_locked(view, ledger, out);
  }
  void plan_locked(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    const std::scoped_lock lock(busy_);
    Sound::plan(view, ledger, out);
  }
  std::mutex busy_;
};

struct TakesMemory : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    order_.reset(new SeqId[view.running.size() + 1]);
    Sound::plan(view, ledger, out);
  }
  std::unique_ptr<SeqId[]> order_;
};
struct FailsWhereSomeoneGivesUp : Sound {
  using Sound::Sound;
  void on_event(const SequenceEvent& event) {
    if (event.kind == EventKind::aborted) std::abort();
  }
};

// What any plugin can do wrong.
struct ReadsAClock : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    began_ = std::chrono::steady_clock::now();
    Sound::plan(view, ledger, out);
  }
  std::chrono::steady_clock::time_point began_;
};
struct ReadsAFile : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    if (std::FILE* file = std::fopen("/proc/loadavg", "r")) std::fclose(file);
    Sound::plan(view, ledger, out);
  }
};
struct StartsAThread : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    std::thread([] {}).join();
    Sound::plan(view, ledger, out);
  }
};
struct DrawsNumbers : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    drawn_ = std::rand();
    Sound::plan(view, ledger, out);
  }
  int drawn_ = 0;
};
struct Prints : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    std::puts("planning");
    Sound::plan(view, ledger, out);
  }
};
struct ChangesItsView : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    Sound::plan(view, ledger, out);
    if (!view.running.empty()) ++const_cast<SequenceView&>(view.running[0]).limit_tokens;
  }
};
class Throws final : public Scheduler {
 public:
  Throws(const HostServices&, const PipelineFacts&, const Options&) {}
  Status on_event(const SequenceEvent&) noexcept override { return {}; }
  Status plan(const SchedulerView&, KvLedger&, PlanOut&) noexcept override {
    fail();
    return {};
  }

 private:
  static void fail() { throw std::runtime_error("nobody catches this"); }
};
struct Exits : Sound {
  using Sound::Sound;
  void plan(const SchedulerView&, KvLedger&, PlanOut&) { std::exit(0); }
};
struct FailsAtOnce : Sound {
  FailsAtOnce(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : Sound(host, facts, options) {
    throw std::runtime_error("the defaults do not do");
  }
};
struct CrashesAtBounds : Sound {
  CrashesAtBounds(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : Sound(host, facts, options) {
    if (options.piece_tokens == 1 << 20) std::abort();
  }
};
struct HasEverything : Sound {
  using Sound::Sound;
  const void* extension(std::string_view) { return this; }
};
struct LosesMemory : Sound {
  LosesMemory(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : Sound(host, facts, options), lost_(new char[100]) {}
  char* lost_;
};
struct KeepsHostMemory : Sound {
  KeepsHostMemory(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : Sound(host, facts, options), kept_(host.allocate(host.context, {}, 64, 64)) {}
  void* kept_;
};
struct NeedsMemory : Sound {
  NeedsMemory(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : Sound(host, facts, options), host_(host), memory_(host.allocate(host.context, {}, 64, 64)) {
    *static_cast<volatile char*>(memory_) = 1;
  }
  ~NeedsMemory() { host_.free(host_.context, {}, memory_); }
  const HostServices& host_;
  void* memory_;
};
struct Rounds : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    std::fesetround(FE_UPWARD);
    Sound::plan(view, ledger, out);
  }
};
struct LosesMemoryInPlan : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    lost_ = new char[64];
    Sound::plan(view, ledger, out);
  }
  char* lost_ = nullptr;
};

struct RemembersEveryone : Sound {
  using Sound::Sound;
  void on_event(const SequenceEvent& event) { arrived_.insert(event.seq); }
  std::set<SeqId> arrived_;
};

// Asks to be asked again in an hour, whoever waits.
struct WaitsAnHour : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger&, PlanOut& out) {
    out.wake_ns = view.now_ns + int64_t{3600} * 1'000'000'000;
  }
};
// … or, before a batch begins, in two seconds, which is a scheduler's good right.
struct WaitsForCompany : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    constexpr int64_t kWaitNs = int64_t{2} * 1'000'000'000;
    if (!view.running.empty()) begins_ns_ = 0;
    if (view.running.empty() && begins_ns_ == 0) begins_ns_ = view.now_ns + kWaitNs;
    if (view.now_ns >= begins_ns_) return Sound::plan(view, ledger, out);
    out.wake_ns = begins_ns_;
  }
  int64_t begins_ns_ = 0;
};
// … or in a moment, for ever.
struct PutsOff : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger&, PlanOut& out) {
    out.wake_ns = view.now_ns + 10'000'000;
  }
};

struct IgnoresItsOptions : Sound {
  IgnoresItsOptions(const HostServices& host, const PipelineFacts& facts, const Options&)
      : Sound(host, facts, Options()) {}
};

struct SetsLocale : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    std::setlocale(LC_NUMERIC, "C");
    Sound::plan(view, ledger, out);
  }
};

// Counts tokens in 16 bits.
struct CountsToSixtyThousand : Sound {
  using Sound::Sound;
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    std::vector<SequenceView> waiting(view.waiting.begin(), view.waiting.end());
    std::vector<SequenceView> running(view.running.begin(), view.running.end());
    for (auto* list : {&waiting, &running}) {
      for (SequenceView& one : *list) {
        one.known_tokens = static_cast<uint16_t>(one.known_tokens);
        one.computed_tokens = static_cast<uint16_t>(one.computed_tokens);
      }
    }
    SchedulerView cut = view;
    cut.waiting = waiting;
    cut.running = running;
    Sound::plan(cut, ledger, out);
  }
};

template <typename Class>
constexpr PluginDescriptor made(std::string_view id) {
  return wrong<Scheduler, Class, Options>(id);
}
constexpr PluginDescriptor kWrong[] = {
    made<GrantsTwice>("test.grants_twice"),
    made<GrantsStrangers>("test.grants_strangers"),
    made<GrantsMore>("test.grants_more"),
    made<GrantsNothing>("test.grants_nothing"),
    made<InventsDrafts>("test.invents_drafts"),
    made<ExceedsTokens>("test.exceeds_tokens"),
    made<ExceedsRows>("test.exceeds_rows"),
    made<Starves>("test.starves"),
    made<NeverPreempts>("test.never_preempts"),
    made<Insists>("test.insists"),
    made<WritesBehind>("test.writes_behind"),
    made<KnowsAllEvents>("test.knows_all_events"),
    made<SharesState>("test.shares_state"),
    made<Slow>("test.slow"),
    made<WaitsForItself>("test.waits_for_itself"),
    made<Throws>("test.throws"),
    made<Exits>("test.exits"),
    made<FailsAtOnce>("test.fails_at_once"),
    made<CrashesAtBounds>("test.crashes_at_bounds"),
    made<HasEverything>("test.has_everything"),
    made<LosesMemory>("test.loses_memory"),
    made<KeepsHostMemory>("test.keeps_host_memory"),
    made<NeedsMemory>("test.needs_memory"),
    made<Rounds>("test.rounds"),
    made<LosesMemoryInPlan>("test.loses_memory_in_plan"),
    made<TakesMemory>("test.takes_memory"),
    made<FailsWhereSomeoneGivesUp>("test.fails_where_someone_gives_up"),
    made<ReadsAClock>("test.reads_a_clock"),
    made<ReadsAFile>("test.reads_a_file"),
    made<StartsAThread>("test.starts_a_thread"),
    made<DrawsNumbers>("test.draws_numbers"),
    made<Prints>("test.prints"),
    made<ChangesItsView>("test.changes_its_view"),
    made<RemembersEveryone>("test.remembers_everyone"),
    made<IgnoresItsOptions>("test.ignores_its_options"),
    made<SetsLocale>("test.sets_locale"),
    made<CountsToSixtyThousand>("test.counts_to_sixty_thousand"),
    made<WaitsAnHour>("test.waits_an_hour"),
    made<PutsOff>("test.puts_off"),
    made<WaitsForCompany>("test.waits_for_company"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6], &kWrong[7], &kWrong[8], &kWrong[9], &kWrong[10],
                     &kWrong[11], &kWrong[12], &kWrong[13], &kWrong[14], &kWrong[15], &kWrong[16],
                     &kWrong[17], &kWrong[18], &kWrong[19], &kWrong[20], &kWrong[21], &kWrong[22],
                     &kWrong[23], &kWrong[24], &kWrong[25], &kWrong[26], &kWrong[27], &kWrong[28],
                     &kWrong[29], &kWrong[30], &kWrong[31], &kWrong[32], &kWrong[33], &kWrong[34],
                     &kWrong[35], &kWrong[36], &kWrong[37], &kWrong[38], &kWrong[39])
