// Kernels and drafters that compute nothing, for tests of what fits what. By score `tiny_cache` is
// the first attention kernel, but it takes only an i8 cache; `sixteens` wants blocks of 16. The
// scheduler `whole` computes prompts whole, and the KV manager `vague` evicts it does not say what.
#include <tenon/attention.h>
#include <tenon/drafter.h>
#include <tenon/linear.h>
#include <tenon/scheduler.h>
#include <tenon/sdk/kv_cache/block_manager.h>
#include <tenon/sdk/kv_cache/facts.h>
#include <tenon/sdk/plugin.h>

#include <string_view>

namespace {

using namespace tenon;

// `any_block` says other numerics than the others.
template <bool other>
class NoAttention final : public AttentionKernel {
 public:
  NoAttention(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  Status bind(const AttentionBinding&) noexcept override { return {}; }
  uint64_t plan_bytes(GroupId) const noexcept override { return 0; }
  uint64_t workspace_bytes(GroupId) const noexcept override { return 0; }
  Status plan(const AttentionPlan&, KernelPlanOut&) noexcept override { return {}; }
  Status run(const AttentionCall&, uint32_t, Slice) noexcept override { return {}; }
  std::string_view numerics() const noexcept override { return other ? "other" : "none"; }
};

// `narrow` refuses weights with more columns than it likes.
template <uint32_t most_columns>
class NoLinear final : public LinearKernel {
 public:
  NoLinear(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  Status bind(const LinearLimits&) noexcept override { return {}; }
  EpilogueMask epilogues() const noexcept override { return epilogue_bit(Epilogue::store); }
  Status accepts(const WeightView& weight) const noexcept override {
    if (weight.k_in <= most_columns) return {};
    return Status::error(StatusCode::unsupported, "the rows are too long");
  }
  uint64_t packed_bytes(const WeightView&) const noexcept override { return 0; }
  Status pack(const WeightView&, void*, Slice) noexcept override { return {}; }
  Status gather(const GatherCall&, Slice) noexcept override { return {}; }
  Preparation preparation(const WeightView& weight) const noexcept override {
    return {0, weight.k_in};
  }
  uint64_t prepared_bytes(Preparation, uint32_t) const noexcept override { return 0; }
  Status prepare(const PrepareCall&, Slice) noexcept override { return {}; }
  Status run(std::span<const LinearJob>, WorkRange, DeviceQueue) noexcept override { return {}; }
  std::string_view numerics() const noexcept override { return "none"; }
};

class NoDrafter {
 public:
  NoDrafter(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void offer(std::span<const DraftRequest>, std::span<uint32_t>) {}
  void draft(std::span<const DraftRequest>, std::span<DraftOut>) {}
};

class NoScheduler {
 public:
  NoScheduler(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void plan(const SchedulerView&, KvLedger&, PlanOut&) {}
};

class VagueManager final : public sdk::BlockManager {
 public:
  VagueManager(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : BlockManager("vague", host) {}
  const void* extension(std::string_view id) const {
    return id == kKvEviction ? &kEviction : nullptr;
  }

 private:
  static constexpr KvEviction kEviction{
      .first = 64, .every = 0, .most_tokens = 64, .numerics = "vague"};
};

template <uint32_t value>
uint32_t score(const HostFacts&) noexcept {
  return value;
}

constexpr PluginDescriptor base(std::string_view id, decltype(&score<1>) scored) {
  PluginDescriptor made;
  made.id = id;
  made.version = "1.0.0";
  made.summary = "computes nothing";
  made.license = "Apache-2.0";
  made.score = scored;
  return made;
}

constexpr Fact kAnyHead = {"attn.head_dim", FactOp::at_least, 1, {}};
constexpr Fact kAnyGroup = {"attn.group", FactOp::at_least, 1, {}};
constexpr Fact kTinyCache[] = {{"kv.dtype", FactOp::in, 0, "u8"},
                               {"kv.block_tokens", FactOp::at_least, 1, {}},
                               kAnyHead,
                               kAnyGroup};
constexpr Fact kSixteens[] = {{"kv.dtype", FactOp::in, 0, "f32 bf16"},
                              {"kv.block_tokens", FactOp::multiple_of, 16, {}},
                              {"attn.mask.sliding", FactOp::in, 0, "no"},
                              kAnyHead,
                              kAnyGroup};
constexpr Fact kAnyBlock[] = {{"kv.dtype", FactOp::in, 0, "f32 bf16"},
                              {"kv.block_tokens", FactOp::at_least, 1, {}},
                              kAnyHead,
                              kAnyGroup};
constexpr PluginDescriptor kAttention[] = {
    sdk::with_facts(
        sdk::descriptor<AttentionKernel, NoAttention<false>>(base("tiny_cache", &score<30>)),
        kTinyCache),
    sdk::with_facts(
        sdk::descriptor<AttentionKernel, NoAttention<false>>(base("sixteens", &score<20>)),
        kSixteens),
    sdk::with_facts(
        sdk::descriptor<AttentionKernel, NoAttention<true>>(base("any_block", &score<10>)),
        kAnyBlock)};

constexpr Fact kFloats[] = {{"weight.format", FactOp::in, 0, "f32 f16 bf16"}};
constexpr Fact kBatched[] = {{"weight.format", FactOp::in, 0, "f32 f16 bf16"},
                             {"numerics.rows", FactOp::in, 0, "batch"}};
constexpr Fact kQuantised[] = {{"weight.format", FactOp::in, 0, "q8_0"}};
constexpr PluginDescriptor kLinear[] = {
    sdk::with_facts(sdk::descriptor<LinearKernel, NoLinear<256>>(base("narrow", &score<90>)),
                    kFloats),
    sdk::with_facts(sdk::descriptor<LinearKernel, NoLinear<0xffffffff>>(base("wide", &score<80>)),
                    kFloats),
    sdk::with_facts(
        sdk::descriptor<LinearKernel, NoLinear<0xffffffff>>(base("quantised", &score<70>)),
        kQuantised),
    sdk::with_facts(sdk::descriptor<LinearKernel, NoLinear<0xffffffff>>(base("batched", &score<1>)),
                    kBatched)};

constexpr Fact kRewinds[] = {{"kv.rollback", FactOp::in, 0, "yes"},
                             {"draft.needs", FactOp::in, 0, "nothing"},
                             {"sampler.verify", FactOp::in, 0, "exact rejection"}};
constexpr Fact kReadsHidden[] = {{"draft.needs", FactOp::in, 0, "hidden"}};
constexpr Fact kForesees[] = {{"draft.needs", FactOp::in, 0, "foresight"}};
constexpr PluginDescriptor kDrafters[] = {
    sdk::with_requirements(sdk::descriptor<Drafter, NoDrafter>(base("rewinder", &score<10>)),
                           kRewinds),
    sdk::with_requirements(sdk::descriptor<Drafter, NoDrafter>(base("hidden_reader", &score<5>)),
                           kReadsHidden),
    sdk::with_requirements(sdk::descriptor<Drafter, NoDrafter>(base("foreseer", &score<1>)),
                           kForesees)};

constexpr Fact kWhole[] = {{"sched.emits", FactOp::in, 0, "whole_prompts"}};
constexpr PluginDescriptor kWholeScheduler =
    sdk::with_facts(sdk::descriptor<Scheduler, NoScheduler>(base("whole", &score<1>)), kWhole);
constexpr PluginDescriptor kVague =
    sdk::with_facts(sdk::descriptor<KVCacheManager, VagueManager>(base("vague", &score<1>)),
                    sdk::kBlockManager.facts);

}  // namespace

TENON_PLUGIN_LIBRARY(&kAttention[0], &kAttention[1], &kAttention[2], &kLinear[0], &kLinear[1],
                     &kLinear[2], &kLinear[3], &kDrafters[0], &kDrafters[1], &kDrafters[2],
                     &kWholeScheduler, &kVague)
