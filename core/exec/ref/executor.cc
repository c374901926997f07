#include "core/exec/ref/executor.h"

#include <string>
#include <utility>

#include "core/exec/adapter_host.h"
#include "core/exec/head_host.h"
#include "core/exec/ref/step.h"

namespace tenon {
namespace {

constexpr Fact kProvides[] = {
    {.key = "device.space", .words = "host"},
    {.key = "kv.dtype", .words = "f32 f16 bf16 i8 i4"},
    {.key = "attn.head_dim", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.group", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.mask.sliding", .words = "no yes"},
    {.key = "attn.mask.tree", .words = "no yes"},
    {.key = "attn.mask.spans", .words = "no yes"},
    {.key = "attn.latent", .words = "no yes"},
    {.key = "attn.chosen", .words = "no yes"},
    {.key = "attn.soft_cap", .words = "no yes"},
    {.key = "attn.sinks", .words = "no yes"},
    {.key = "attn.alibi", .words = "no yes"},
    {.key = "kv.swap", .words = "no yes"},
    {.key = "numerics.rows", .words = "invariant"},
};

class RefExecutor final : public Executor, public HeadHost, public AdapterHost {
 public:
  explicit RefExecutor(ref::Multiply multiply) : step_(std::move(multiply)) {}

  std::string_view name() const override { return "ref"; }
  std::span<const Fact> provides() const override { return kProvides; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return false; }
  uint32_t workers() const override { return 1; }
  bool takes_adapters() const override { return true; }
  bool scores_entries() const override { return true; }

  void add_places(uint32_t count) override { step_.add_places(count); }
  Result<std::string> put_adapter(uint32_t place, const Adapter& adapter) override {
    if (Status status = step_.put_adapter(place, adapter); !status.ok()) return status;
    return std::string();
  }
  void drop_adapter(uint32_t place) override { step_.drop_adapter(place); }

  void take_head(const Head& head) override { step_.take_head(head); }
  Status load(const ExecutorSetup& setup) override { return step_.load(setup); }
  Result<std::unique_ptr<Executor>> sibling() const override {
    return make_ref_executor(step_.products());
  }
  KvBytes* kv_blocks() override { return &step_.kv(); }
  Status apply(std::span<const KvMove> moves) override { return step_.kv().apply(moves); }
  Status launch(const BatchView& batch) override { return step_.run(batch); }
  Result<StepOutput> collect(uint64_t step_id) override;

  std::string numerics() const override { return "ref"; }
  uint64_t weight_bytes() const override {
    return step_.model() != nullptr ? step_.model()->weight_bytes() : 0;
  }
  uint64_t kv_bytes() const override { return step_.kv().bytes(); }

 private:
  RefStep step_;
};

Result<StepOutput> RefExecutor::collect(uint64_t step_id) {
  const StepOutput* output = step_.output();
  if (output == nullptr || output->step_id != step_id) {
    return internal("step " + std::to_string(step_id) + " was not the last one launched");
  }
  return *output;
}

}  // namespace

std::unique_ptr<Executor> make_ref_executor(ref::Multiply multiply) {
  return std::make_unique<RefExecutor>(std::move(multiply));
}

}  // namespace tenon
