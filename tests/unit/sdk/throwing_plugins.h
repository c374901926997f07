// A plain class for each interface whose methods all throw, "<method> went wrong", and one for each
// that has only what it must. Listed and registered in adaptor_test.cc.
#pragma once

#include <tenon/sdk/plugin.h>

#include <stdexcept>
#include <string>

namespace tenon::test {

[[noreturn]] inline void fail(const char* method) {
  throw std::runtime_error(std::string(method) + " went wrong");
}

struct Plain {
  Plain(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
};

struct ThrowingScheduler : Plain {
  using Plain::Plain;
  Status on_event(const SequenceEvent&) { fail("on_event"); }
  void plan(const SchedulerView&, KvLedger&, PlanOut&) { fail("plan"); }
};
struct BareScheduler : Plain {
  using Plain::Plain;
  void plan(const SchedulerView&, KvLedger&, PlanOut& out) { out.idle_rows = 3; }
  const void* extension(std::string_view id) { return id == "acme.rows/1" ? this : nullptr; }
};

struct ThrowingCache : Plain {
  using Plain::Plain;
  void bind(const ModelShape&, const KvGeometry&) { fail("bind"); }
  void begin(const KvSequence&) { fail("begin"); }
  void match(SeqId, std::span<const TokenId>, uint32_t, KvMatch&) { fail("match"); }
  void grow(const KvRequest&, KvGrant&) { fail("grow"); }
  void trim(SeqId, uint32_t) { fail("trim"); }
  void resolve(const KvOutcome&) { fail("resolve"); }
  void release(SeqId, ReleaseHow) { fail("release"); }
  void table(SeqId, GroupId, KvTableView&) { fail("table"); }
  void take_moves(KvMovesOut&) { fail("take_moves"); }
  void step_begin(uint64_t) { fail("step_begin"); }
  void step_done(uint64_t) { fail("step_done"); }
  void usage(GroupId, KvUsage&) const { fail("usage"); }
  void check() const { fail("check"); }
};

struct ThrowingSampler : Plain {
  using Plain::Plain;
  void begin(SeqId, const SamplingParams&, SeqId) { fail("begin"); }
  void end(SeqId) { fail("end"); }
  void sample(std::span<const SampleRow>, std::span<SampleResult>) { fail("sample"); }
  void verify(std::span<const VerifyRows>, std::span<VerifyResult>) { fail("verify"); }
  void distribution(const SampleRow&, std::span<float>) { fail("distribution"); }
};
struct BareSampler : Plain {
  using Plain::Plain;
  void sample(std::span<const SampleRow>, std::span<SampleResult> results) { results[0].token = 4; }
};

struct ThrowingDrafter : Plain {
  using Plain::Plain;
  void bind(const ModelShape&, HiddenLayersOut&) { fail("bind"); }
  void begin(SeqId, SeqId) { fail("begin"); }
  void end(SeqId) { fail("end"); }
  void offer(std::span<const DraftRequest>, std::span<uint32_t>) { fail("offer"); }
  void draft(std::span<const DraftRequest>, std::span<DraftOut>) { fail("draft"); }
  void accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) { fail("accept"); }
  void measured(const DraftStepCost&) { fail("measured"); }
  void observe(std::span<const HiddenView>) { fail("observe"); }
};
struct BareDrafter : Plain {
  using Plain::Plain;
  void offer(std::span<const DraftRequest>, std::span<uint32_t> offered) { offered[0] = 2; }
  Status draft(std::span<const DraftRequest>, std::span<DraftOut>) { return {}; }
};

struct ThrowingLinear : Plain {
  using Plain::Plain;
  void bind(const LinearLimits&) { fail("bind"); }
  EpilogueMask epilogues() const { fail("epilogues"); }
  Status accepts(const WeightView&) const { fail("accepts"); }
  uint64_t packed_bytes(const WeightView&) const { fail("packed_bytes"); }
  void pack(const WeightView&, void*, Slice) { fail("pack"); }
  void gather(const GatherCall&, Slice) { fail("gather"); }
  Preparation preparation(const WeightView&) const { fail("preparation"); }
  uint64_t prepared_bytes(Preparation, uint32_t) const { fail("prepared_bytes"); }
  void prepare(const PrepareCall&, Slice) { fail("prepare"); }
  void run(std::span<const LinearJob>, WorkRange, DeviceQueue) { fail("run"); }
  std::string_view numerics() const { fail("numerics"); }
};
struct BareLinear : Plain {
  using Plain::Plain;
  Status accepts(const WeightView&) const { return {}; }
  uint64_t packed_bytes(const WeightView& weight) const { return weight.k_in; }
  void pack(const WeightView&, void*, Slice) {}
  void gather(const GatherCall&, Slice) {}
  void run(std::span<const LinearJob>, WorkRange, DeviceQueue) {}
  std::string_view numerics() const { return "bare"; }
};

struct ThrowingAttention : Plain {
  using Plain::Plain;
  void bind(const AttentionBinding&) { fail("bind"); }
  uint64_t plan_bytes(GroupId) const { fail("plan_bytes"); }
  uint64_t workspace_bytes(GroupId) const { fail("workspace_bytes"); }
  void plan(const AttentionPlan&, KernelPlanOut&) { fail("plan"); }
  void run(const AttentionCall&, uint32_t, Slice) { fail("run"); }
  std::string_view numerics() const { fail("numerics"); }
};
struct BareAttention : Plain {
  using Plain::Plain;
  void bind(const AttentionBinding&) {}
  void run(const AttentionCall&, uint32_t, Slice) {}
  std::string_view numerics() const { return "bare"; }
};

struct ThrowingState : Plain {
  using Plain::Plain;
  Status accepts(const LayerShape&) const { fail("accepts"); }
  void bind(const StateBinding&) { fail("bind"); }
  uint64_t plan_bytes(GroupId) const { fail("plan_bytes"); }
  uint64_t workspace_bytes(GroupId) const { fail("workspace_bytes"); }
  void plan(const StatePlan&, KernelPlanOut&) { fail("plan"); }
  void run(const StateCall&, uint32_t, Slice) { fail("run"); }
  std::string_view numerics() const { fail("numerics"); }
};
struct BareState : Plain {
  using Plain::Plain;
  Status accepts(const LayerShape&) const { return {}; }
  void bind(const StateBinding&) {}
  void run(const StateCall&, uint32_t, Slice) {}
  std::string_view numerics() const { return "bare"; }
};

// Derives from its interface, as plugins may, and is taken as it is.
class DerivedScheduler final : public Scheduler {
 public:
  DerivedScheduler(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  Status on_event(const SequenceEvent&) noexcept override { return {}; }
  Status plan(const SchedulerView&, KvLedger&, PlanOut& out) noexcept override {
    out.idle_rows = 5;
    return {};
  }
};

struct ThrowingConstructor {
  ThrowingConstructor(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {
    fail("the constructor");
  }
  void plan(const SchedulerView&, KvLedger&, PlanOut&) {}
};

// Throws what is no exception, or has no memory, as the step's id says.
struct OddScheduler : Plain {
  using Plain::Plain;
  void plan(const SchedulerView& view, KvLedger&, PlanOut&) {
    if (view.step_id == 1) throw 7;
    throw std::bad_alloc();
  }
};

}  // namespace tenon::test
