// Models cut over ranks: a rank is a thread here, with an executor of its own, and all of them
// share memory as processes do. What they compute together has the bits of one executor alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/exec/ranks/model_cut.h"
#include "core/exec/ranks/step_message.h"
#include "core/model/tensors/weight_rows.h"
#include "core/parallel/shared_collective.h"
#include "tests/support/models/model_runs.h"

namespace tenon::test {
namespace {

enum class Cut : uint8_t { columns, columns_alone, sums, experts };

// One rank's model, kernels and executor.
Logits run_rank(const std::string& path, const ExecutorCase& executor_case, Collective& ranks,
                Cut how, uint64_t& weight_bytes) {
  auto model = open_model(path);
  if (!model.ok()) return {};
  const ModelCut cut =
      cut_model(**model, {.rank = ranks.rank(),
                          .ranks = ranks.size(),
                          .whole = how == Cut::columns_alone ? "the test wants it whole" : "",
                          .reduce = how == Cut::sums,
                          .experts = how == Cut::experts});
  const ModelShapeStorage shape((*model)->plan, kContext);
  const std::unique_ptr<KernelSet> kernels = make_kernels(executor_case);
  const std::unique_ptr<Executor> executor = make_executor(executor_case);
  dynamic_cast<RankHost&>(*executor).join(ranks, cut);
  LoadOptions options;
  options.attention = {kernels->attention()};
  options.attention.prefill.chunks = options.attention.decode.chunks = kernels->chunks();
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
                      uint64_t slot_bytes, Cut how = Cut::columns) {
  auto memory = SharedMemory::create(ranks, slot_bytes);
  EXPECT_TRUE(memory.ok());
  const std::shared_ptr<SharedMemory> shared = *std::move(memory);
  RankRun run{std::vector<Logits>(ranks), std::vector<uint64_t>(ranks)};
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SharedCollective collective(
          shared, {.rank = rank, .places = std::vector<RankPlace>(ranks, {"here", 1, ranks})});
      run.logits[rank] = run_rank(path, executor_case, collective, how, run.weight_bytes[rank]);
    });
  }
  threads.clear();
  return run;
}
std::vector<Logits> run_ranks(const std::string& path, const ExecutorCase& executor_case,
                              uint32_t ranks, uint64_t slot_bytes, Cut how = Cut::columns) {
  return run_all_ranks(path, executor_case, ranks, slot_bytes, how).logits;
}

constexpr uint64_t kWideSlot = uint64_t{1} << 20;
constexpr uint64_t kNarrowSlot = 4096;  // a row or two at once

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
  for (const std::string& path : entries_of(golden_ggufs(), ".gguf")) {
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
  EXPECT_EQ(run_ranks(path, best_case(1), 2, kWideSlot, Cut::columns_alone)[0], alone);
}

TEST(RanksTest, kernels_without_epilogues_have_the_same_bits_on_three_ranks) {
  ExecutorCase plain = cpu_cases().front();
  plain.threads = 1;
  for (const char* name : {"llama_gqa", "qwen3", "deepseek_v2_experts"}) {
    const std::string path = golden_models() + name;
    EXPECT_EQ(run_ranks(path, plain, 3, kWideSlot)[0], run_alone(path, plain)) << name;
  }
}

// Largest distance of two runs' logits, over the largest of their values.
double distance(const Logits& a, const Logits& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0, size = 1e-30;
  for (size_t row = 0; row < std::min(a.size(), b.size()); ++row) {
    for (size_t i = 0; i < a[row].size(); ++i) {
      most = std::max(most, std::abs(double{a[row][i]} - double{b[row][i]}));
      size = std::max(size, std::abs(double{a[row][i]}));
    }
  }
  return most / size;
}

bool adds_any(const std::string& path, uint32_t ranks) {
  const auto model = open_model(path);
  return cut_model(**model, {.ranks = ranks, .reduce = true}).adds();
}

// In f32 the order of sums alone differs. Where a part of K has another kernel's rounding, or
// experts are chosen by a hair, more does.
TEST(RanksTest, sums_over_ranks_are_equal_at_all_ranks_and_near_those_of_one_process) {
  ExecutorCase plain = cpu_cases().front();
  plain.threads = 2;
  uint32_t tried = 0, turn = 0;
  for (const std::string& path : entries_of(golden_models(), "")) {
    const uint32_t ranks = 2 + turn++ % 3;
    if (!adds_any(path, ranks)) continue;
    ++tried;
    const std::vector<Logits> together = run_ranks(path, plain, ranks, kWideSlot, Cut::sums);
    for (const Logits& logits : together) EXPECT_EQ(logits, together[0]) << path;
    EXPECT_LT(distance(together[0], run_alone(path, plain)), 1e-3) << path << ", " << ranks;
  }
  EXPECT_GT(tried, 20u);
}

TEST(RanksTest, sums_have_the_same_bits_whatever_fits_into_an_exchange_and_however_many_workers) {
  const std::string path = golden_models() + "llama_gqa";
  ASSERT_TRUE(adds_any(path, 3));
  const Logits wide = run_ranks(path, best_case(1), 3, kWideSlot, Cut::sums)[0];
  ASSERT_FALSE(wide.empty());
  EXPECT_EQ(run_ranks(path, best_case(2), 3, kNarrowSlot, Cut::sums)[2], wide);
}

TEST(RanksTest, experts_that_are_shared_out_have_the_same_bits) {
  uint32_t tried = 0, turn = 0;
  for (const std::string& path : entries_of(golden_models(), "")) {
    const uint32_t ranks = 2 + turn++ % 3;
    const auto model = open_model(path);
    if (!cut_model(**model, {.ranks = ranks, .experts = true}).shares_experts()) continue;
    ++tried;
    const Logits alone = run_alone(path, best_case(1));
    for (const Logits& logits : run_ranks(path, best_case(1), ranks, kWideSlot, Cut::experts)) {
      EXPECT_EQ(logits, alone) << path << " over " << ranks;
    }
  }
  EXPECT_GT(tried, 10u);
}

TEST(RanksTest, results_of_experts_that_do_not_fit_at_once_are_exchanged_in_pieces) {
  for (const char* name : {"deepseek_v2_experts", "deepseek_v3_experts"}) {
    const std::string path = golden_models() + name;
    EXPECT_EQ(run_ranks(path, best_case(2), 2, 4 * kNarrowSlot, Cut::experts)[1],
              run_alone(path, best_case(2)))
        << name;
  }
}

TEST(RanksTest, a_rank_packs_its_part_alone_where_parts_are_added_up) {
  const std::string path = source_folder() + "/configs/models/tale";
  const uint64_t alone = run_all_ranks(path, best_case(1), 1, kWideSlot).weight_bytes[0];
  for (const uint64_t bytes :
       run_all_ranks(path, best_case(1), 2, kWideSlot, Cut::sums).weight_bytes) {
    EXPECT_LE(bytes, alone / 2 * 102 / 100);
    EXPECT_GE(bytes, alone / 2 * 98 / 100);
  }
}

TEST(ModelCutTest, what_is_added_up_is_cut_at_blocks_and_both_ways) {
  const auto whole = open_model(golden_models() + "llama_gqa");
  const auto part = open_model(golden_models() + "llama_gqa");
  ASSERT_TRUE(whole.ok() && part.ok());
  const ModelCut cut = cut_model(**part, {.rank = 1, .ranks = 2, .reduce = true});
  ASSERT_TRUE(cut.layers[0].adds_attention && cut.layers[0].adds_mlp());
  const LayerWeights& all = (*whole)->layers[0];
  const LayerWeights& own = (*part)->layers[0];
  const uint32_t width = cut.layers[0].mlp[2] - cut.layers[0].mlp[1];
  EXPECT_EQ((*part)->plan.layers[0].mlp.width, width);
  EXPECT_EQ(own.up.n_out, width);
  EXPECT_EQ(own.down.k_in, width);
  EXPECT_EQ(own.down.n_out, all.down.n_out);
  EXPECT_EQ(own.output.k_in, own.q.n_out);
  // Element [3, 1] of the part is element [3, first + 1] of the whole.
  std::vector<float> of_all(all.down.k_in), of_own(width);
  read_row(all.down, 3, of_all.data());
  read_row(own.down, 3, of_own.data());
  EXPECT_EQ(of_own[1], of_all[cut.layers[0].mlp[1] + 1]);
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
        const ModelCut cut = cut_model(**model, {.rank = rank, .ranks = ranks});
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
    const ModelCut cut = cut_model(**model, {.rank = 0, .ranks = ranks});
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
