// Schedulers, samplers and drafters that work, and then end or hang their process, each in its way.
#include <tenon/drafter.h>
#include <tenon/sampler.h>
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/sampler/draft_tree.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace {

using namespace tenon;

enum class Way { sound, is_killed, crashes, loops, is_hungry, throws, exits, grants_twice };

void misbehave(Way way) {
  switch (way) {
    case Way::sound:
    case Way::grants_twice:
      return;
    case Way::is_killed:
      std::raise(SIGKILL);
      return;
    case Way::crashes:
      std::raise(SIGSEGV);
      return;
    case Way::loops:
      for (;;) {
        const volatile int turn = 0;  // a loop without any effect may be left out
        static_cast<void>(turn);
      }
    case Way::is_hungry:
      // Ten billion bytes, each of them used.
      for (std::vector<char*> blocks; blocks.size() < 10'000;) {
        blocks.push_back(new char[1'000'000]);
        std::memset(blocks.back(), 1, 1'000'000);
      }
      return;
    case Way::throws:
      throw std::runtime_error("it had enough");
    case Way::exits:
      std::exit(3);
  }
}

template <Way way>
class FaultyScheduler {
 public:
  FaultyScheduler(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : host_(host) {}
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    host_.count(host_.context, "plans", 1);
    uint32_t tokens = view.limits.max_batch_tokens;
    for (const auto& list : {view.running, view.waiting}) {
      for (const SequenceView& sequence : list) {
        const uint32_t left = sequence.known_tokens - sequence.computed_tokens;
        if (left > tokens) continue;
        tokens -= left;
        if (ledger.try_grow(sequence.seq, left, left).granted == left) {
          out.push({sequence.seq, left, 0});
        }
      }
    }
    if (way == Way::grants_twice && plans_ >= 3 && out.grant_count > 1) {
      out.grants[1] = out.grants[0];
    }
    // With memory taken and grants made.
    if (++plans_ >= 4) misbehave(way);
  }

 private:
  HostServices host_;
  int plans_ = 0;
};

// Greedy; ends its process at every row of a prompt that begins with this token.
constexpr TokenId kPoison = 77;
class FaultySampler {
 public:
  FaultySampler(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void begin(SeqId, const SamplingParams&, SeqId) {}
  void end(SeqId) {}
  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].history.front() == kPoison) std::raise(SIGKILL);
      const float* logits = rows[i].logits;
      results[i].token =
          static_cast<TokenId>(std::max_element(logits, logits + rows[i].vocabulary) - logits);
    }
  }
};
constexpr Fact kNeverVerifies[] = {
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "none"},
    {.key = "sampler.stages", .op = FactOp::in, .number = 0, .words = "temperature"}};

// Drafts the last token again, and is killed over its fourth draft.
class FaultyDrafter {
 public:
  FaultyDrafter(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void offer(std::span<const DraftRequest> requests, std::span<uint32_t> offered) {
    for (size_t i = 0; i < requests.size(); ++i) offered[i] = std::min(requests[i].max_tokens, 2u);
  }
  void draft(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    if (++drafted_ == 4) std::raise(SIGKILL);
    for (size_t i = 0; i < requests.size(); ++i) {
      std::ranges::fill(drafts[i].tokens, requests[i].history.back());
      drafts[i].count = static_cast<uint32_t>(drafts[i].tokens.size());
    }
  }

 private:
  int drafted_ = 0;
};

constexpr PluginDescriptor named(std::string_view id) {
  PluginDescriptor base;
  base.id = id;
  base.version = "1.0.0";
  base.summary = "works, and then does not";
  base.license = "Apache-2.0";
  return base;
}
template <Way way>
constexpr PluginDescriptor scheduler(std::string_view id) {
  return sdk::descriptor<Scheduler, FaultyScheduler<way>>(named(id));
}
constexpr PluginDescriptor kSound = scheduler<Way::sound>("test.sound");
constexpr PluginDescriptor kIsKilled = scheduler<Way::is_killed>("test.is_killed");
constexpr PluginDescriptor kCrashes = scheduler<Way::crashes>("test.crashes");
constexpr PluginDescriptor kLoops = scheduler<Way::loops>("test.loops");
constexpr PluginDescriptor kIsHungry = scheduler<Way::is_hungry>("test.is_hungry");
constexpr PluginDescriptor kThrows = scheduler<Way::throws>("test.throws");
constexpr PluginDescriptor kExits = scheduler<Way::exits>("test.exits");
constexpr PluginDescriptor kGrantsTwice = scheduler<Way::grants_twice>("test.grants_twice");
constexpr PluginDescriptor kSampler = sdk::with_facts(
    sdk::descriptor<Sampler, FaultySampler>(named("test.poisoned")), kNeverVerifies);
constexpr PluginDescriptor kDrafter =
    sdk::descriptor<Drafter, FaultyDrafter>(named("test.is_killed"));

}  // namespace

TENON_PLUGIN_LIBRARY(&kSound, &kIsKilled, &kCrashes, &kLoops, &kIsHungry, &kThrows, &kExits,
                     &kGrantsTwice, &kSampler, &kDrafter)
