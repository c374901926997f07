// Models cut over ranks: a rank is a thread here, with an executor of its own, and all of them share
// memory as processes do. What they compute together has the bits of one executor alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/exec/ranks/model_cut.h"
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
                bool heads_are_cut) {
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
  return logits_of(driver, **model);
}

// Of every rank.
std::vector<Logits> run_ranks(const std::string& path, const ExecutorCase& executor_case,
                              uint32_t ranks, uint64_t slot_bytes, bool heads_are_cut = true) {
  auto memory = SharedMemory::create(ranks, slot_bytes);
  EXPECT_TRUE(memory.ok());
  const std::shared_ptr<SharedMemory> shared = *std::move(memory);
  std::vector<Logits> logits(ranks);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SharedCollective collective(
          shared, {.rank = rank, .places = std::vector<RankPlace>(ranks, {"here", 1, ranks})});
      logits[rank] = run_rank(path, executor_case, collective, heads_are_cut);
    });
  }
  threads.clear();
  return logits;
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

}  // namespace
}  // namespace tenon::test
