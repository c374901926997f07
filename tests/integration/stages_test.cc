// Models whose layers are shared out: a rank is a thread here, with an executor that runs some of
// the layers. Logits that come back to rank 0 have the bits of one executor alone.
#include "core/exec/ranks/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "core/exec/ranks/leading_executor.h"
#include "core/model/tensors/tensor_values.h"
#include "core/parallel/message.h"
#include "core/parallel/shared_collective.h"
#include "tests/support/models/model_runs.h"

namespace tenon::test {
namespace {

// Loads an executor, and is the stage that it becomes from then on.
class LateStage final : public Executor {
 public:
  LateStage(std::unique_ptr<Executor> inner, Collective& ranks, const ModelCut& cut,
            uint32_t hidden)
      : now_(std::move(inner)), ranks_(ranks), cut_(cut), hidden_(hidden) {}

  std::string_view name() const override { return now_->name(); }
  std::span<const Fact> provides() const override { return now_->provides(); }
  std::span<const Fact> requirements() const override { return now_->requirements(); }
  bool uses_kernels() const override { return now_->uses_kernels(); }
  uint32_t workers() const override { return now_->workers(); }
  Status load(const ExecutorSetup& setup) override {
    TENON_RETURN_IF_ERROR(now_->load(setup));
    weight_bytes_ = now_->weight_bytes();
    numerics_ = now_->numerics();
    now_ = make_staged_executor(std::move(now_), ranks_, cut_, hidden_);
    if (ranks_.rank() == 0) now_ = make_leading_executor(std::move(now_), ranks_, 1);
    return {};
  }
  Status apply(std::span<const KvMove> moves) override { return now_->apply(moves); }
  Status launch(const BatchView& batch) override { return now_->launch(batch); }
  Result<StepOutput> collect(uint64_t step_id) override { return now_->collect(step_id); }
  std::string numerics() const override { return numerics_; }
  uint64_t weight_bytes() const override { return weight_bytes_; }
  uint64_t kv_bytes() const override { return now_->kv_bytes(); }

 private:
  std::unique_ptr<Executor> now_;
  Collective& ranks_;
  const ModelCut& cut_;
  uint32_t hidden_;
  uint64_t weight_bytes_ = 0;
  std::string numerics_;
};

struct StageRun {
  Logits logits;  // rank 0's
  std::vector<Logits> hidden;
  std::vector<uint64_t> weight_bytes, kv_bytes;  // [ranks]
  std::vector<std::string> numerics;
};

void follow(Collective& ranks, Executor& executor) {
  StepFollower steps(executor);
  for (;;) {
    const auto bytes = ranks.receive();
    if (!bytes.ok()) return;
    MessageReader message(*bytes);
    const auto kind = message.number<RankMessage>();
    message.number<uint64_t>();
    if (kind == RankMessage::close) return;
    EXPECT_TRUE(steps.follow(kind, message).ok());
  }
}

void run_stage(const std::string& path, const ExecutorCase& executor_case, Collective& ranks,
               bool wants_hidden, StageRun& run) {
  const uint32_t rank = ranks.rank();
  auto model = open_model(path);
  const auto cut = cut_layers(**model, rank, ranks.size());
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  const ModelShapeStorage shape((*model)->plan, kContext);
  const std::unique_ptr<KernelSet> kernels = make_kernels(executor_case);
  std::unique_ptr<Executor> inner = make_executor(executor_case);
  dynamic_cast<RankHost&>(*inner).join(ranks, *cut);
  LateStage stage(std::move(inner), ranks, *cut, (*model)->plan.hidden);
  LoadOptions options;
  options.attention = {kernels->attention()};
  options.attention.prefill.chunks = options.attention.decode.chunks = kernels->chunks();
  options.state = {kernels->state(), "cpu"};
  options.linear = [&](const WeightView&) -> ChosenLinear {
    return {kernels->linear(), kernels->gate_finish()};
  };
  StepDriver driver(stage, **model, shape.shape(), options);
  EXPECT_TRUE(driver.load_status().ok()) << driver.load_status().message();
  if (!driver.load_status().ok()) return ranks.fail("a rank could not load");
  run.weight_bytes[rank] = stage.weight_bytes();
  run.kv_bytes[rank] = stage.kv_bytes();
  run.numerics[rank] = stage.numerics();
  if (rank > 0) return follow(ranks, stage);
  if (wants_hidden) {
    driver.want_hidden({0}, {static_cast<LayerId>((*model)->plan.layers.size())});
  }
  run.logits = logits_of(driver, **model);
  run.hidden = driver.hidden();
}

StageRun run_stages(const std::string& path, uint32_t ranks, uint64_t slot_bytes,
                    bool wants_hidden = false, uint32_t threads = 1) {
  auto memory = SharedMemory::create(ranks, slot_bytes);
  EXPECT_TRUE(memory.ok());
  const std::shared_ptr<SharedMemory> shared = *std::move(memory);
  StageRun run;
  run.weight_bytes.resize(ranks);
  run.kv_bytes.resize(ranks);
  run.numerics.resize(ranks);
  std::vector<std::jthread> threads_of_ranks;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads_of_ranks.emplace_back([&, rank] {
      SharedCollective collective(
          shared, {.rank = rank, .places = std::vector<RankPlace>(ranks, {"here", 1, ranks})});
      run_stage(path, best_case(threads), collective, wants_hidden, run);
    });
  }
  threads_of_ranks.clear();
  return run;
}

constexpr uint64_t kWideSlot = uint64_t{1} << 20;
constexpr uint64_t kNarrowSlot = 1024;

// Stages that the model can be cut into, two at most where `most` is 2.
uint32_t stages_of(const std::string& path, uint32_t most) {
  const auto model = open_model(path);
  for (uint32_t stages = most; stages > 1; --stages) {
    if (cut_stages(**model, stages).ok()) return stages;
  }
  return 1;
}

TEST(StagesTest, every_family_that_can_be_cut_has_the_same_bits_on_two_and_three_stages) {
  uint32_t turn = 0, tried = 0;
  for (const std::string& path : entries_of(golden_models(), "")) {
    const uint32_t stages = stages_of(path, 2 + turn++ % 2);
    if (stages == 1) continue;
    ++tried;
    const StageRun run = run_stages(path, stages, kWideSlot);
    EXPECT_EQ(run.logits, run_alone(path, best_case(1))) << path << ", " << stages << " stages";
    for (const std::string& numerics : run.numerics) EXPECT_EQ(numerics, run.numerics[0]) << path;
  }
  EXPECT_GT(tried, 40u);
}

TEST(StagesTest, rows_that_do_not_fit_into_a_slot_are_handed_on_in_pieces) {
  const std::string path = golden_models() + "llama_gqa";
  EXPECT_EQ(run_stages(path, 2, kNarrowSlot, false, 2).logits, run_alone(path, best_case(2)));
}

TEST(StagesTest, hidden_states_of_the_end_come_back_with_the_logits) {
  const std::string path = golden_models() + "llama_gqa";
  const StageRun run = run_stages(path, 2, kWideSlot, true);
  const auto model = open_model(path);
  const ModelShapeStorage shape((*model)->plan, kContext);
  Loaded alone(best_case(1), **model, shape.shape());
  alone->want_hidden({0}, {static_cast<LayerId>((*model)->plan.layers.size())});
  logits_of(*alone.operator->(), **model);
  ASSERT_FALSE(run.hidden.empty());
  EXPECT_EQ(run.hidden, alone->hidden());
}

TEST(StagesTest, a_stage_has_the_memory_of_its_layers_alone) {
  const std::string path = source_folder() + "/configs/models/tale";
  const auto model = open_model(path);
  const ModelShapeStorage shape((*model)->plan, kContext);
  Loaded alone(best_case(1), **model, shape.shape());
  const StageRun run = run_stages(path, 3, kWideSlot);
  const uint64_t kv = std::accumulate(run.kv_bytes.begin(), run.kv_bytes.end(), uint64_t{0});
  EXPECT_EQ(kv, alone.executor().kv_bytes());
  uint64_t weights = std::accumulate(run.weight_bytes.begin(), run.weight_bytes.end(), uint64_t{0});
  // The head is the embedding, which the first stage has as well.
  if ((*model)->plan.tied_embeddings) {
    weights -= uint64_t{(*model)->head.n_out} * (*model)->head.k_in * 2;
  }
  EXPECT_NEAR(static_cast<double>(weights), static_cast<double>(alone.executor().weight_bytes()),
              static_cast<double>(weights) * 0.02);
  for (const uint64_t bytes : run.kv_bytes) EXPECT_LT(bytes, kv);
}

TEST(CutStagesTest, the_slowest_stage_costs_as_little_as_it_can) {
  for (const std::string& path : entries_of(golden_models(), "")) {
    const auto model = open_model(path);
    const std::vector<uint64_t> costs = layer_costs(**model);
    const auto starts = cut_stages(**model, 2);
    if (!starts.ok()) continue;
    uint64_t head = 0;
    for (const TensorView& part : (*model)->head.parts) head += bytes_of(part).size();
    const auto slowest = [&](uint32_t cut) {
      const uint64_t first = std::accumulate(costs.begin(), costs.begin() + cut, uint64_t{0});
      const uint64_t second = std::accumulate(costs.begin() + cut, costs.end(), head);
      return std::max(first, second);
    };
    EXPECT_EQ(starts->front(), 0u);
    EXPECT_EQ(starts->back(), costs.size());
    // Where nothing ties layers together, and all of them have a mixer, any place will do.
    const bool is_free = std::ranges::all_of((*model)->plan.layers, [](const LayerPlan& layer) {
      return layer.attends() && layer.attention.kv_from_layer < 0 && !layer.index;
    });
    for (uint32_t cut = 1; is_free && cut < costs.size(); ++cut) {
      EXPECT_LE(slowest((*starts)[1]), slowest(cut)) << path;
    }
  }
}

TEST(CutStagesTest, more_stages_than_layers_are_refused_with_how_many_there_may_be) {
  const auto model = open_model(golden_models() + "llama_gqa");
  const auto cut = cut_stages(**model, 64);
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.status().message(), "the " + std::to_string((*model)->plan.layers.size()) +
                                        " layers of this llama model can be shared out to " +
                                        std::to_string((*model)->plan.layers.size()) +
                                        " processes at most");
}

}  // namespace
}  // namespace tenon::test
