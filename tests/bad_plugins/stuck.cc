// Schedulers that plan soundly and do not let the program end, each in its own way.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>

#include <csignal>
#include <cstdlib>

namespace {

using namespace tenon;

enum class Way {
  plan_hangs,
  destroy_hangs,
  destroy_crashes,
  plan_exits,
  plan_recurses,
  plan_has_a_strange_instruction,
  plan_traps
};

void hang() {
  for (;;) {
    const volatile int turn = 0;  // a loop without any effect may be left out
    static_cast<void>(turn);
  }
}

[[gnu::noinline]] uint64_t deeper(const SchedulerView& view, uint64_t depth) {
  volatile char used[4096];
  used[depth % sizeof(used)] = 1;
  return view.step_id == 0 ? depth : deeper(view, depth + 1) + used[depth % 7];
}

// One that no processor has, and that is no compiler's trap.
void run_strange_instruction() {
#if defined(__x86_64__)
  asm volatile(".byte 0x06");
#elif defined(__aarch64__)
  asm volatile(".inst 0x0000dead");
#endif
}

template <Way way>
class Stuck {
 public:
  Stuck(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&) : host_(host) {}
  ~Stuck() {
    if constexpr (way == Way::destroy_hangs) hang();
    if constexpr (way == Way::destroy_crashes) std::raise(SIGSEGV);
  }
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    ++plans_;
    if (way == Way::plan_hangs && plans_ > 3) {
      host_.log(host_.context, LogLevel::error, "hangs from here on");
      hang();
    }
    if (way == Way::plan_exits && plans_ > 3) std::exit(0);
    if (way == Way::plan_recurses && plans_ > 3) out.idle_rows = deeper(view, 1) == 0 ? 1 : 0;
    if (way == Way::plan_has_a_strange_instruction && plans_ > 3) run_strange_instruction();
    if (way == Way::plan_traps && plans_ > 3) __builtin_trap();
    for (const auto& list : {view.running, view.waiting}) {
      for (const SequenceView& sequence : list) {
        const uint32_t left = sequence.known_tokens - sequence.computed_tokens;
        if (ledger.try_grow(sequence.seq, left, left).granted == left) {
          out.push({sequence.seq, left, 0});
        }
      }
    }
  }

 private:
  HostServices host_;
  int plans_ = 0;
};

constexpr PluginDescriptor described(std::string_view id) {
  PluginDescriptor base;
  base.id = id;
  base.version = "1.0.0";
  base.summary = "plans, and then does not let go";
  base.license = "Apache-2.0";
  return base;
}
constexpr PluginDescriptor kPlanHangs =
    sdk::descriptor<Scheduler, Stuck<Way::plan_hangs>>(described("test.plan_hangs"));
constexpr PluginDescriptor kDestroyHangs =
    sdk::descriptor<Scheduler, Stuck<Way::destroy_hangs>>(described("test.destroy_hangs"));
constexpr PluginDescriptor kDestroyCrashes =
    sdk::descriptor<Scheduler, Stuck<Way::destroy_crashes>>(described("test.destroy_crashes"));
constexpr PluginDescriptor kPlanRecurses =
    sdk::descriptor<Scheduler, Stuck<Way::plan_recurses>>(described("test.plan_recurses"));
constexpr PluginDescriptor kPlanHasAStrangeInstruction =
    sdk::descriptor<Scheduler, Stuck<Way::plan_has_a_strange_instruction>>(
        described("test.plan_has_a_strange_instruction"));
constexpr PluginDescriptor kPlanTraps =
    sdk::descriptor<Scheduler, Stuck<Way::plan_traps>>(described("test.plan_traps"));
constexpr PluginDescriptor kPlanExits =
    sdk::descriptor<Scheduler, Stuck<Way::plan_exits>>(described("test.plan_exits"));

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlanHangs, &kDestroyHangs, &kDestroyCrashes, &kPlanExits, &kPlanRecurses,
                     &kPlanHasAStrangeInstruction, &kPlanTraps)
