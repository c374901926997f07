// The smallest scheduler that works: one waiting sequence is drawn by lot into the batch each
// step, everything that runs goes on. Built against installed headers alone; see CMakeLists.txt.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <cstdint>

namespace {

using namespace tenon;

struct Options {
  int64_t lot = 1;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::lot>("lot", 1, 0, 1'000'000, "", "number that the draws start from"),
};
TENON_CHECK_OPTIONS(kOptions);

// A plain class: the SDK makes a Scheduler of it, and a Status of what it throws. It listens to no
// events, so it has no `on_event`.
class LotteryScheduler {
 public:
  LotteryScheduler(const HostServices&, const PipelineFacts&, const Options& options)
      : lot_(options.lot) {}

  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    uint32_t budget = view.limits.max_batch_tokens;
    for (const SequenceView& running : view.running) grant(running, ledger, budget, out);
    const bool room = view.running.size() < view.limits.max_sequences;
    if (room && !view.waiting.empty()) {
      const size_t drawn = (view.step_id + lot_) % view.waiting.size();
      grant(view.waiting[drawn], ledger, budget, out);
    }
    // Nobody could grow: take the memory of the youngest back, so that the others can.
    if (out.grant_count == 0 && view.running.size() > 1) {
      ledger.release(view.running.back().seq, ReleaseHow::recompute);
    }
  }

 private:
  static void grant(const SequenceView& sequence, KvLedger& ledger, uint32_t& budget,
                    PlanOut& out) {
    const uint32_t left = sequence.known_tokens - sequence.computed_tokens;
    const uint32_t wanted = std::min(left, budget);
    if (wanted == 0) return;
    const GrowResult grown = ledger.try_grow(sequence.seq, 1, wanted);
    if (grown.granted == 0) return;
    budget -= grown.granted;
    out.push({sequence.seq, grown.granted, 0});
  }

  uint64_t lot_;
};

constexpr Fact kProvides[] = {{"sched.emits", FactOp::in, 0, "chunks preemption"}};
constexpr PluginDescriptor kLottery =
    sdk::with_facts(sdk::descriptor<Scheduler, LotteryScheduler, Options>(
                        {.id = "example.lottery",
                         .version = "1.0.0",
                         .summary = "admits one waiting sequence a step, drawn by lot",
                         .license = "Apache-2.0"},
                        kOptions),
                    kProvides);

}  // namespace

TENON_PLUGIN_LIBRARY(&kLottery)
