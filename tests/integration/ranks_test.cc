// Models cut over ranks: a rank is a thread here, with an executor of its own, and all of them
// share memory as processes do. What they compute together has the bits of one executor alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/exec/ranks/model_cut.h"
#include "core/exec/ranks/step_message.h"
#include "core/parallel/shared_collective.h"
#include "tests/support/executor_case.h"
#include "tests/support/folders.h"

namespace tenon::test {
namespace {

constexpr uint32_t kContext = 64;

// A prompt, one row, a few more.
Logits logits_of(StepDriver& driver, const Model& model) {
  const std::vector<TokenId> tokens = some_tokens(40, model.plan.vocabulary);
  if (model.plan.mask_token) return driver.feed(tokens, {40});
  return driver.feed(tokens, {35, 1, 4});
}

// One rank's model, kernels and executor.
Logits run_rank(const std::string& path, const ExecutorCase& executor_case, Collective& ranks,
                bool heads_are_cut, uint64_t& weight_bytes) {
  auto model = open_model(path);
  if (!model.ok()) return {};
  const ModelCut cut = cut_heads(**model, ranks.rank(), ranks.size(),
                                 heads_are_cut ? "" : "the test wants it whole");
  const ModelShapeStorage shape((*model)->plan, kContext);
  const std::unique_ptr<KernelSet> kernels = make_kernels(executor_case);
  const std::unique_ptr<Executor> executor = make_executor(executor_case);
  dynamic_cast<RankHost&>(*executor).join(ranks, cut);
  LoadOptions options;
  options.attention = {kernels->attention()};
  options.attention.prefill.chunks = options.attention.decode.chunks = kernels->chunks();
  options.state = {kernels->state(), "cpu"};
  options.linear = [&](const WeightView&) -> ChosenLinear {
    return {kernels->linear(), kernels->gate_finish()};
  };
  StepDriver driver(*executor, **model, shape.shape(), options);
  EXPECT_TRUE(driver.load_status().ok()) << driver.load_status().message();
  if (!driver.load_status().ok()) {
    ranks.fail("a rank could not load");
    return {};
  }
  weight_bytes = executor->weight_bytes();
  return logits_of(driver, **model);
}

// Of every rank.
struct RankRun {
  std::vector<Logits> logits;
  std::vector<uint64_t> weight_bytes;
};
RankRun run_all_ranks(const std::string& path, const ExecutorCase& executor_case, uint32_t ranks,
                      uint64_t slot_bytes, bool heads_are_cut = true) {
  auto memory = SharedMemory::create(ranks, slot_bytes);
  EXPECT_TRUE(memory.ok());
  const std::shared_ptr<SharedMemory> shared = *std::move(memory);
  RankRun run{std::vector<Logits>(ranks), std::vector<uint64_t>(ranks)};
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SharedCollective collective(
          shared, {.rank = rank, .places = std::vector<RankPlace>(ranks, {"here", 1, ranks})});
      run.logits[rank] =
          run_rank(path, executor_case, collective, heads_are_cut, run.weight_bytes[rank]);
    });
  }
  threads.clear();
  return run;
}
std::vector<Logits> run_ranks(const std::string& path, const ExecutorCase& executor_case,
                              uint32_t ranks, uint64_t slot_bytes, bool heads_are_cut = true) {
  return run_all_ranks(path, executor_case, ranks, slot_bytes, heads_are_cut).logits;
}

Logits run_alone(const std::string& path, const ExecutorCase& executor_case) {
  const auto model = open_model(path);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return {};
  const ModelShapeStorage shape((*model)->plan, kContext);
  Loaded executor(executor_case, **model, shape.shape());
  return logits_of(*executor.operator->(), **model);
}

// The plugins on the best instruction set of this machine.
ExecutorCase best_case(uint32_t threads) {
  ExecutorCase best = cpu_cases().back();
  best.threads = threads;
  return best;
}

constexpr uint64_t kWideSlot = uint64_t{1} << 20;
constexpr uint64_t kNarrowSlot = 4096;  // a row or two at once

std::vector<std::string> entries_of(const std::string& folder, const std::string& ending) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool is_model = ending.empty() ? entry.is_directory() : name.ends_with(ending);
    if (is_model && open_model(entry.path()).ok()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

void expect_equal_bits(const std::string& path, uint32_t ranks, uint64_t slot_bytes,
                       uint32_t threads = 1) {
  const Logits alone = run_alone(path, best_case(threads));
  ASSERT_FALSE(alone.empty());
  const std::vector<Logits> together = run_ranks(path, best_case(threads), ranks, slot_bytes);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(together[rank], alone) << path << ", rank " << rank << " of " << ranks;
  }
}

TEST(RanksTest, every_family_has_the_same_bits_on_two_to_four_ranks) {
  uint32_t turn = 0;
  for (const std::string& path : entries_of(golden_models(), "")) {
    expect_equal_bits(path, 2 + turn++ % 3, kWideSlot);
  }
  EXPECT_GT(turn, 50u);
}

TEST(RanksTest, every_format_of_gguf_files_has_the_same_bits_on_two_to_four_ranks) {
  uint32_t turn = 0;
  for (const std::string& path : entries_of(source_folder() + "/tests/golden/gguf", ".gguf")) {
    expect_equal_bits(path, 2 + turn++ % 3, kWideSlot);
  }
  EXPECT_GT(turn, 10u);
}

TEST(RanksTest, published_weights_have_the_same_bits_on_two_to_four_ranks) {
  uint32_t turn = 0;
  for (const std::string& path : entries_of(source_folder() + "/tests/golden/published", "")) {
    expect_equal_bits(path, 2 + turn++ % 3, kWideSlot);
  }
  EXPECT_GT(turn, 3u);
}

TEST(RanksTest, rows_that_do_not_fit_into_one_exchange_are_gathered_in_several) {
  for (const char* name : {"llama_gqa", "deepseek_v2_experts"}) {
    expect_equal_bits(golden_models() + name, 3, kNarrowSlot, 2);
  }
}

TEST(RanksTest, attention_that_is_whole_at_every_rank_has_the_same_bits) {
  const std::string path = golden_models() + "llama_gqa";
  const Logits alone = run_alone(path, best_case(1));
  EXPECT_EQ(run_ranks(path, best_case(1), 2, kWideSlot, false)[0], alone);
}

TEST(RanksTest, kernels_without_epilogues_have_the_same_bits_on_three_ranks) {
  ExecutorCase plain = cpu_cases().front();
  plain.threads = 1;
  for (const char* name : {"llama_gqa", "qwen3", "deepseek_v2_experts"}) {
    const std::string path = golden_models() + name;
    EXPECT_EQ(run_ranks(path, plain, 3, kWideSlot)[0], run_alone(path, plain)) << name;
  }
}

TEST(RanksTest, a_rank_packs_its_part_alone) {
  const std::string path = source_folder() + "/configs/models/tale";
  const uint64_t alone = run_all_ranks(path, best_case(1), 1, kWideSlot).weight_bytes[0];
  // Its two KV heads are one for each of two ranks; of four, two share one.
  const auto model = open_model(path);
  ASSERT_TRUE(model.ok());
  uint64_t one_kv_head = 0;  // its part of k and v, bf16
  for (const LayerWeights& layer : (*model)->layers) {
    one_kv_head += uint64_t{layer.k.n_out} * layer.k.k_in * 2;
  }
  for (const uint32_t ranks : {2u, 4u}) {
    const uint64_t shared = ranks == 4 ? one_kv_head / 2 : 0;
    for (const uint64_t bytes : run_all_ranks(path, best_case(1), ranks, kWideSlot).weight_bytes) {
      EXPECT_LE(bytes, alone / ranks * 102 / 100 + shared) << ranks;
      EXPECT_GE(bytes, alone / ranks * 98 / 100) << ranks;
    }
  }
}

TEST(ModelCutTest, queries_are_divided_once_among_ranks_that_keep_what_they_read) {
  for (const char* name : {"llama_gqa", "qwen3", "deepseek_v2_experts"}) {
    const auto whole = open_model(golden_models() + name);
    ASSERT_TRUE(whole.ok());
    const SelfAttentionPlan& all = (*whole)->plan.layers[0].attention;
    for (uint32_t ranks = 2; ranks <= all.heads; ++ranks) {
      uint32_t heads = 0;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const auto model = open_model(golden_models() + name);
        const ModelCut cut = cut_heads(**model, rank, ranks);
        ASSERT_TRUE(cut.by_heads(0)) << cut.layers[0].whole_because;
        const LayerPlan& own = (*model)->plan.layers[0];
        EXPECT_EQ(own.attention.heads % own.attention.kv_heads, 0u);
        EXPECT_EQ(cut.layers[0].attended[rank], heads * own.attended_width() / own.attention.heads);
        EXPECT_EQ((*model)->layers[0].q.n_out * all.heads,
                  (*whole)->layers[0].q.n_out * own.attention.heads);
        EXPECT_LE(own.attention.kv_heads, (all.kv_heads + ranks - 1) / ranks);
        heads += own.attention.heads;
      }
      EXPECT_EQ(heads, all.heads) << name << " over " << ranks;
    }
  }
}

TEST(ModelCutTest, attention_that_cannot_be_cut_is_whole_and_says_why) {
  const auto reason = [](const std::string& name, uint32_t ranks) {
    const auto model = open_model(golden_models() + name);
    const uint32_t heads = (*model)->plan.layers[0].attention.heads;
    const ModelCut cut = cut_heads(**model, 0, ranks);
    EXPECT_FALSE(cut.by_heads(0));
    EXPECT_EQ((*model)->plan.layers[0].attention.heads, heads);
    return cut.layers[0].whole_because;
  };
  EXPECT_EQ(reason("olmo2", 2), "its norm of q and k spans all heads");
  EXPECT_EQ(reason("mpt", 2), "its biases by distance follow from all heads");
  EXPECT_EQ(reason("llama_gqa", 64), "it has too few heads for every rank to have one");
}

TEST(StepMessageTest, a_batch_arrives_with_all_its_arrays) {
  const std::vector<TokenId> tokens = {5, kNoToken, 7};
  const std::vector<uint32_t> positions = {3, 4, 0}, slots = {3, 4, 0}, kv_tokens = {5, 1},
                              logits_rows = {1, 2}, ends = {2, 5};
  const std::vector<int32_t> parents = {-1, 0, -1};
  const std::vector<BatchSequence> sequences = {{.seq = 4, .first_row = 0, .rows = 2, .drafts = 1},
                                                {.seq = 9, .first_row = 2, .rows = 1}};
  const std::vector<BlockId> blocks = {8, 2};
  const std::vector<KvTableView> tables = {{blocks, ends, 3}, {std::span(blocks).first(1), {}, 0}};
  const std::vector<BatchGroup> groups = {{slots, kv_tokens, tables}};
  const std::vector<float> inputs = {1, 2, 3, 4, 5, 6, 7, 8, 9};  // rows of two, three apart
  BatchView batch;
  batch.step_id = 41;
  batch.rows = 3;
  batch.tokens = tokens;
  batch.positions = positions;
  batch.tree_parents = parents;
  batch.sequences = sequences;
  batch.groups = groups;
  batch.logits_rows = logits_rows;
  batch.inputs.data = inputs.data();
  batch.inputs.rank = 2;
  batch.inputs.shape[0] = 3;
  batch.inputs.shape[1] = 2;
  batch.inputs.stride[0] = 3;
  MessageWriter writer;
  write_step(writer, batch);
  MessageReader reader(writer.bytes());
  const ReceivedStep step(reader);
  EXPECT_TRUE(reader.is_whole());
  const BatchView& got = step.batch();
  EXPECT_EQ(got.step_id, 41u);
  EXPECT_TRUE(std::ranges::equal(got.tokens, tokens));
  EXPECT_TRUE(std::ranges::equal(got.tree_parents, parents));
  EXPECT_TRUE(std::ranges::equal(got.logits_rows, logits_rows));
  EXPECT_EQ(got.sequences[0].drafts, 1u);
  EXPECT_EQ(got.sequences[1].seq, 9u);
  ASSERT_EQ(got.groups.size(), 1u);
  EXPECT_TRUE(std::ranges::equal(got.groups[0].slots, slots));
  EXPECT_TRUE(std::ranges::equal(got.groups[0].tables[0].blocks, blocks));
  EXPECT_TRUE(std::ranges::equal(got.groups[0].tables[0].ends, ends));
  EXPECT_EQ(got.groups[0].tables[0].evicted, 3u);
  EXPECT_EQ(got.groups[0].tables[1].blocks.size(), 1u);
  const auto* rows = static_cast<const float*>(got.inputs.data);
  EXPECT_EQ(std::vector<float>(rows, rows + 6), (std::vector<float>{1, 2, 4, 5, 7, 8}));
}

}  // namespace
}  // namespace tenon::test
