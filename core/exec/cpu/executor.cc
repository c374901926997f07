#include "core/exec/cpu/executor.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/machine/run_queue.h"
#include "core/base/threads/worker_governor.h"
#include "core/base/threads/worker_pool.h"
#include "core/exec/adapter_host.h"
#include "core/exec/batch_check.h"
#include "core/exec/cpu/step/step.h"
#include "core/exec/cpu/step/worker.h"
#include "core/exec/head_host.h"
#include "core/exec/host_kv.h"

namespace tenon {
namespace {

// Element types of K and V, masks and invariance are the kernels' to state.
constexpr Fact kProvides[] = {
    {.key = "device.space", .words = "host"},
    {.key = "kv.swap", .words = "no yes"},
};

// What is backed by memory before the first step, which would pay for it otherwise: the parts that
// first steps reach. Clearing them takes a few milliseconds a worker.
constexpr uint64_t kPrefaultBuffer = uint64_t{2} << 20;  // of each buffer
constexpr uint64_t kPrefaultKv = uint64_t{16} << 20;     // of all K and V

// Steps of up to so many rows read each weight once for few products.
constexpr uint32_t kFewRows = 16;
constexpr int64_t kPauseNs = 1'000'000'000;

class CpuExecutor final : public Executor, public HeadHost, public RankHost, public AdapterHost {
 public:
  CpuExecutor(std::shared_ptr<WorkerPool> pool, CpuFeatures isa)
      : pool_(std::move(pool)),
        isa_(isa),
        few_rows_(pool_->size()),
        many_rows_(pool_->size()),
        parts_(pool_->size()) {
    step_.pool = pool_.get();
    step_.ops = &row_ops(isa);
  }

  std::string_view name() const override { return "cpu"; }
  std::span<const Fact> provides() const override { return kProvides; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return true; }
  uint32_t workers() const override { return pool_->size(); }
  int64_t held_up_ns() override { return pool_->held_up_ns(); }
  bool takes_adapters() const override { return true; }
  bool scores_entries() const override { return true; }
  void share_out(uint32_t parts, const std::function<void(uint32_t part)>& function) override {
    const uint32_t workers = parts_.workers();
    pool_->run(parts_, [&](uint32_t worker) {
      for (uint32_t part = worker; part < parts; part += workers) function(part);
    });
  }

  void take_head(const Head& head) override { step_.head = &head; }
  void join(Collective& ranks, const ModelCut& cut) override {
    // The stages of a pipeline exchange nothing within a step.
    step_.ranks = cut.stages.empty() ? &ranks : nullptr;
    step_.cut = cut;
  }
  float* stage_rows() override { return step_.buffers.hidden.floats(); }
  void add_places(uint32_t count) override;
  Result<std::string> put_adapter(uint32_t place, const Adapter& adapter) override;
  void drop_adapter(uint32_t place) override;
  Status load(const ExecutorSetup& setup) override;
  Result<std::unique_ptr<Executor>> sibling() const override {
    return std::unique_ptr<Executor>(std::make_unique<CpuExecutor>(pool_, isa_));
  }
  KvBytes* kv_blocks() override { return &kv_; }
  Status apply(std::span<const KvMove> moves) override { return kv_.apply(moves); }
  Status launch(const BatchView& batch) override;
  Result<StepOutput> collect(uint64_t step_id) override;

  std::string numerics() const override;
  uint64_t weight_bytes() const override { return step_.weights.bytes() + later_bytes_; }
  uint64_t shared_weight_bytes() const override { return step_.weights.shared_bytes(); }
  uint64_t kv_bytes() const override { return kv_.bytes(); }

 private:
  Status load_workers(uint32_t max_rows);
  Status grow_for_adapters();
  Status check_rooms() const;
  void prefault_memory();
  Status run_workers(uint32_t rows);
  void look_around();

  std::shared_ptr<WorkerPool> pool_;
  CpuFeatures isa_;
  HostKv kv_;
  std::vector<KvGroupGeometry> groups_;
  BatchLimits limits_;
  CpuStep step_;
  LinearResolver linear_;                   // the setup's
  std::atomic<uint64_t> later_bytes_ = {};  // of adapters that came later; others look at it
  std::vector<std::unique_ptr<CpuWorker>> workers_;
  // Steps of few rows and of many meet at barriers so unlike in pace that each kind is governed by
  // itself; so are the parts that `share_out` is given.
  WorkerGovernor few_rows_, many_rows_, parts_;
  LoadAverages load_averages_;
  int64_t last_run_ns_ = -kPauseNs;  // of `WallClock`; so long ago that nothing is known
  bool loaded_ = false;
  bool launched_ = false;
  StepOutput output_;
};

Status CpuExecutor::load(const ExecutorSetup& setup) {
  if (setup.model == nullptr || setup.shape == nullptr || !setup.linear) {
    return internal("the executor 'cpu' was loaded without a model or without kernels");
  }
  step_.model = setup.model;
  step_.shape = setup.shape;
  linear_ = setup.linear;
  groups_.assign(setup.geometry.groups, setup.geometry.groups + setup.geometry.group_count);
  step_.adapters = static_cast<uint32_t>(setup.adapters.size());
  limits_ = {setup.shape, groups_.data(), setup.max_rows, setup.max_sequences, step_.adapters};
  limits_.needs_tokens = static_cast<bool>(setup.model->plan.input());
  if (step_.head != nullptr) {
    limits_.features = step_.head->features;
    limits_.enters_alone = step_.head->kind == HeadKind::dflash;
  }
  TENON_RETURN_IF_ERROR(check_decoder_shape(*setup.shape));
  TENON_RETURN_IF_ERROR(kv_.allocate(*setup.shape, setup.geometry, step_.cut.range));
  step_.kv = kv_.storage();
  step_.kv_blocks = &kv_;
  TENON_RETURN_IF_ERROR(step_.indexed.load(setup.model->plan, *setup.shape));
  TENON_RETURN_IF_ERROR(step_.attention.load(setup.attention, *setup.shape, kv_.storage(),
                                             step_.indexed,
                                             {setup.max_rows, setup.max_sequences, pool_->size(),
                                              chunked_groups(setup.model->plan, *setup.shape)}));
  step_.scores.load(*setup.shape, setup.scored);
  TENON_RETURN_IF_ERROR(step_.states.load(setup.state, *setup.model, *setup.shape, kv_.states(),
                                          {setup.max_rows, setup.max_sequences, pool_->size()}));
  TENON_RETURN_IF_ERROR(step_.weights.load(
      *setup.model, setup.adapters, setup.linear, *pool_, setup.progress, setup.sharing,
      step_.head == nullptr ? nullptr : &step_.head->fc, step_.cut));
  TENON_RETURN_IF_ERROR(load_workers(setup.max_rows));
  prefault_memory();
  loaded_ = true;
  return {};
}

Status CpuExecutor::load_workers(uint32_t max_rows) {
  TENON_RETURN_IF_ERROR(
      step_.buffers.allocate(*step_.model, step_.head, step_.weights, max_rows, step_.cut));
  step_.by_all = {};
  // Adapters change products after they were gathered.
  if (step_.ranks != nullptr && step_.adapters == 0) {
    TENON_RETURN_IF_ERROR(
        step_.by_all.allocate(*step_.model, step_.weights, max_rows, step_.cut, *step_.ranks));
  }
  TENON_RETURN_IF_ERROR(step_.index.allocate(*step_.model, *step_.shape, kv_.storage(),
                                             step_.indexed, max_rows, pool_->size()));
  step_.reserve(max_rows);
  step_.make_ropes();
  workers_.clear();
  step_.queue = std::make_unique<WorkQueue>(pool_->size());
  for (uint32_t worker = 0; worker < pool_->size(); ++worker) {
    workers_.push_back(std::make_unique<CpuWorker>(step_, worker));
    TENON_RETURN_IF_ERROR(workers_.back()->allocate());
  }
  return {};
}

// Errors: out_of_memory.
Status CpuExecutor::grow_for_adapters() {
  TENON_RETURN_IF_ERROR(
      step_.buffers.grow_for_adapters(step_.model->plan, step_.weights, step_.max_rows));
  step_.reserve(step_.max_rows);
  for (const auto& worker : workers_) TENON_RETURN_IF_ERROR(worker->grow_for_adapters());
  return {};
}

void CpuExecutor::add_places(uint32_t count) {
  step_.adapters += count;
  limits_.adapters = step_.adapters;
  step_.weights.set_places(step_.adapters);
  step_.reserve(step_.max_rows);
}

Result<std::string> CpuExecutor::put_adapter(uint32_t place, const Adapter& adapter) {
  TENON_RETURN_IF_ERROR(step_.weights.put(place, adapter, *step_.model, linear_, *pool_));
  if (Status status = grow_for_adapters(); !status.ok()) {
    step_.weights.drop(place);
    return status;
  }
  later_bytes_ += step_.weights.bytes_at(place);
  std::string numerics;
  for (const LinearKernel* kernel : step_.weights.kernels_at(place)) {
    numerics += std::string(kernel->numerics()) + "+";
  }
  return numerics;
}

void CpuExecutor::drop_adapter(uint32_t place) {
  later_bytes_ -= step_.weights.bytes_at(place);
  step_.weights.drop(place);
}

void CpuExecutor::prefault_memory() {
  std::vector<MemoryPart> parts = step_.attention.workspaces();
  const std::vector<MemoryPart> of_states = step_.states.workspaces();
  parts.insert(parts.end(), of_states.begin(), of_states.end());
  for (const HostMemory* memory : step_.buffers.all()) {
    parts.push_back({memory->data(), memory->bytes()});
  }
  for (float* const shared : {step_.by_all.attended, step_.by_all.inner, step_.by_all.logits}) {
    if (shared == nullptr) continue;
    auto* const data = reinterpret_cast<std::byte*>(shared);
    const auto before = static_cast<uint64_t>(data - step_.by_all.room->data());
    parts.push_back({data, step_.by_all.room->bytes() - before});
  }
  for (MemoryPart& part : parts) part.bytes = std::min(part.bytes, kPrefaultBuffer);
  const std::vector<MemoryPart> kv = parts_to_back(kv_.parts(), kPrefaultKv);
  parts.insert(parts.end(), kv.begin(), kv.end());
  pool_->run([&](uint32_t worker) {
    for (size_t i = worker; i < parts.size(); i += pool_->size()) {
      prefault(parts[i].data, parts[i].bytes);
    }
  });
}

Status CpuExecutor::launch(const BatchView& batch) {
  if (!loaded_) return internal("a step was launched before the executor was loaded");
  launched_ = false;
  TENON_RETURN_IF_ERROR(check_batch(batch, limits_));
  if (batch.rows > 0) {
    TENON_RETURN_IF_ERROR(step_.attention.plan(batch));
    TENON_RETURN_IF_ERROR(step_.states.plan(batch));
    step_.begin(batch);
    TENON_RETURN_IF_ERROR(run_workers(batch.rows));
    TENON_RETURN_IF_ERROR(check_rooms());
    TENON_RETURN_IF_ERROR(step_.attention.named(step_.scores.check()));
  }
  output_ = {batch.step_id,
             step_.logits(),
             static_cast<uint32_t>(batch.logits_rows.size()),
             step_.model->head.n_out,
             step_.hidden_out.arrays(),
             static_cast<uint32_t>(batch.hidden_rows.size()),
             batch.rows > 0 ? step_.choice->used_bytes : 0,
             batch.rows > 0 ? &step_.scores : nullptr};
  launched_ = true;
  return {};
}

Status CpuExecutor::run_workers(uint32_t rows) {
  look_around();
  WorkerGovernor& governor = rows <= kFewRows ? few_rows_ : many_rows_;
  const uint32_t workers = governor.workers();
  const uint32_t linear_calls = workers_[0]->linear_calls();
  step_.queue->share_between(workers);
  pool_->run(governor, [&](uint32_t worker) { workers_[worker]->run(workers, linear_calls); });
  for (uint32_t worker = 0; worker < workers; ++worker) {
    if (!workers_[worker]->status().ok()) return copy(workers_[worker]->status());
  }
  if (pool_->size() > 1) last_run_ns_ = WallClock().now_ns();
  return {};
}

// After a pause nobody knows how busy the machine is. The run queue tells before the first step
// has to find out, which can cost it a time slice at each barrier. (Many rows mean much work
// between two barriers.) A lone worker meets nobody.
void CpuExecutor::look_around() {
  if (pool_->size() == 1 || WallClock().now_ns() - last_run_ns_ < kPauseNs) return;
  const uint32_t runnable = load_averages_.runnable_threads();
  few_rows_.expect(runnable > 0 ? runnable - 1 : 0, pool_->cores());
}

// Somebody's memory is overwritten where a kernel wrote behind its own, so no later step succeeds.
Status CpuExecutor::check_rooms() const {
  TENON_RETURN_IF_ERROR(step_.attention.check_rooms());
  if (!step_.buffers.attended.intact()) return step_.attention.wrote_behind("its output");
  if (!kv_.intact()) return step_.attention.wrote_behind("the KV cache");
  const auto intact = [](const auto& worker) { return worker->intact(); };
  if (step_.buffers.intact() && std::ranges::all_of(workers_, intact)) return {};
  return step_.weights.wrote_behind("its output or what it prepares");
}

Result<StepOutput> CpuExecutor::collect(uint64_t step_id) {
  if (!launched_ || output_.step_id != step_id) {
    return internal("step " + std::to_string(step_id) + " was not the last one launched");
  }
  return output_;
}

std::string CpuExecutor::numerics() const {
  std::string text = "cpu.2/";  // of its own sums and curves (RowOps); cpu/ had libm's curves
  for (const LinearKernel* kernel : step_.weights.kernels()) {
    text += std::string(kernel->numerics()) + "+";
  }
  const std::string states = step_.states.numerics();
  if (states.empty() || step_.attention.serves()) text += step_.attention.numerics();
  if (!states.empty()) text += (step_.attention.serves() ? "+" : "") + states;
  // What is added up depends on how many ranks there are.
  if (step_.cut.adds()) text += "+reduce" + std::to_string(step_.cut.ranks);
  return text;
}

}  // namespace

Result<std::unique_ptr<Executor>> make_cpu_executor(const CpuExecutorOptions& options) {
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<WorkerPool> pool,
                         WorkerPool::start({.threads = options.threads}));
  return std::unique_ptr<Executor>(std::make_unique<CpuExecutor>(std::move(pool), options.isa));
}

}  // namespace tenon
