// Models over several devices: whatever the family, the format and the number of ranks, logits are
// the bits of one device.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda/ranks/rank_rig.h"
#include "tests/cuda/rig/on_device.h"
#include "tests/support/folders.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::make_tiny_model;
using tenon::test::tiny_config;

ModelMaker opens(const std::string& path) {
  return [path] {
    auto model = open_model(path);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? *std::move(model) : nullptr;
  };
}

LoadOptions few_rows(DType kv_dtype = DType::f32) {
  LoadOptions options;
  options.block_tokens = 4;
  options.max_rows = 16;
  options.max_sequences = 4;
  options.kv_dtype = kv_dtype;
  return options;
}

// A prompt, then tokens one by one.
Logits answer(RankDevice& device) {
  return device.steps->feed(some_tokens(9, device.model->plan.vocabulary, 3), {7, 1});
}

Logits answer_alone(RankCase c) {
  c.ranks = 1;
  return run_ranks<Logits>(c, answer)[0];
}

void expect_bits(const RankCase& c, const Logits& expected) {
  ASSERT_FALSE(expected.empty());
  for (const Logits& logits : run_ranks<Logits>(c, answer)) {
    EXPECT_EQ(logits, expected) << c.ranks << " ranks";
  }
}

bool runs_alone(const std::string& path) {
  auto opened = open_model(path);
  // Rows that see what is behind them, and zero points that are fractions, are refused.
  if (!opened.ok() || (*opened)->plan.mask_token || path.find("hqq") != std::string::npos) {
    return false;
  }
  const std::unique_ptr<Model> model = *std::move(opened);
  const ModelShapeStorage shape(model->plan, 64);
  const auto executor = make_cuda_executor(std::make_shared<EmulatedDriver>());
  return StepDriver(*executor, *model, shape.shape(), few_rows()).load_status().ok();
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> entries;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    entries.push_back(entry.path().string());
  }
  std::ranges::sort(entries);
  return entries;
}

// All models that one device runs, over numbers of ranks in turn.
void expect_every_model(const std::string& folder, size_t at_least) {
  size_t tried = 0;
  for (const std::string& path : entries_of(folder)) {
    if (!runs_alone(path)) continue;
    SCOPED_TRACE(path);
    RankCase c{.model = opens(path), .options = few_rows()};
    const Logits alone = answer_alone(c);
    c.ranks = 2 + static_cast<uint32_t>(tried % 3);
    c.reach_peers = tried++ % 4 == 0;
    expect_bits(c, alone);
  }
  EXPECT_GE(tried, at_least);
}

TEST(CudaRanks, dense_models_have_the_same_bits_on_two_three_and_four_ranks) {
  for (const char* name : {"llama_gqa", "qwen3", "gpt2"}) {
    SCOPED_TRACE(name);
    RankCase c{.model = opens(golden_models() + name), .options = few_rows()};
    const Logits alone = answer_alone(c);
    for (c.ranks = 2; c.ranks <= 4; ++c.ranks) {
      for (const bool reach : {false, true}) {
        c.reach_peers = reach;
        expect_bits(c, alone);
      }
    }
  }
}

TEST(CudaRanks, every_family_has_the_same_bits) {
  expect_every_model(golden_models(), 60);
}

TEST(CudaRanks, published_weights_have_the_same_bits) {
  expect_every_model(source_folder() + "/tests/golden/published", 3);
}

// Of which a rank cannot know whether another one widens them.
TEST(CudaRanks, zero_points_that_are_fractions_are_refused_by_name) {
  const RankCase c{.model = opens(source_folder() + "/tests/golden/published/hqq_4bit"),
                   .ranks = 2,
                   .options = few_rows()};
  const RankWorld world(2);
  on_ranks(2, [&](Collective& all) {
    const RankDevice device(c, all, world);
    EXPECT_NE(device.steps->load_status().message().find("has zero points that are no whole"),
              std::string::npos)
        << device.steps->load_status().message();
  });
}

// Products on tensor cores; a vocabulary that ranks share out unevenly.
TEST(CudaRanks, matrices_of_bf16_have_the_same_bits) {
  for (const char* name : {"llama_gqa", "gemma2", "mixtral", "deepseek_v2_experts"}) {
    SCOPED_TRACE(name);
    const auto storage = std::make_shared<std::deque<std::vector<std::vector<BFloat16>>>>();
    const auto guard = std::make_shared<std::mutex>();
    RankCase c{.model =
                   [=] {
                     auto model = opens(golden_models() + name)();
                     const std::lock_guard lock(*guard);
                     narrow(*model, storage->emplace_back());
                     return model;
                   },
               .options = few_rows(DType::bf16)};
    const Logits alone = answer_alone(c);
    for (c.ranks = 2; c.ranks <= 3; ++c.ranks) {
      c.reach_peers = c.ranks == 3;
      expect_bits(c, alone);
    }
  }
}

TEST(CudaRanks, attention_that_is_whole_at_every_rank_has_the_same_bits) {
  RankCase c{.model = opens(golden_models() + "llama_gqa"), .options = few_rows()};
  const Logits alone = answer_alone(c);
  c.ranks = 2;
  c.whole = "the test wants it whole";
  expect_bits(c, alone);
}

TEST(CudaRanks, more_ranks_than_some_matrices_have_columns_for_have_the_same_bits) {
  RankCase c{.model = [] { return make_tiny_model({.config = tiny_config()}); },
             .options = few_rows()};
  const Logits alone = answer_alone(c);
  c.ranks = 5;  // a stream of 32, heads for four
  expect_bits(c, alone);
}

// Several sequences, a token each a step, of which one joins and one leaves on the way.
std::vector<Logits> decode(RankDevice& device) {
  const uint32_t vocabulary = device.model->plan.vocabulary;
  std::vector<Logits> all;
  std::vector<size_t> running;
  for (uint32_t step = 0; step < 8; ++step) {
    if (step == 0 || step == 1 || step == 3) {
      running.push_back(device.steps->begin());
      all.push_back(
          device.steps->step({{running.back(), some_tokens(3 + step, vocabulary, step)}}));
    }
    if (step == 5) running.erase(running.begin());
    std::vector<StepDriver::Feed> feeds;
    for (const size_t sequence : running) {
      feeds.push_back(
          {sequence, some_tokens(1, vocabulary, step * 8 + static_cast<uint32_t>(sequence))});
    }
    all.push_back(device.steps->step(feeds));
  }
  return all;
}

TEST(CudaRanks, captured_steps_have_the_same_bits) {
  for (const char* name : {"llama_gqa", "qwen3_moe"}) {
    SCOPED_TRACE(name);
    RankCase c{.model = opens(golden_models() + name), .options = few_rows()};
    const auto alone = run_ranks<std::vector<Logits>>(c, decode)[0];
    ASSERT_FALSE(alone.empty());
    c.options.graph_bytes = uint64_t{1} << 20;
    c.ranks = 2;
    for (const bool reach : {false, true}) {
      c.reach_peers = reach;
      const auto replays = std::make_shared<std::atomic<uint64_t>>(0);
      const auto together = run_ranks<std::vector<Logits>>(c, [&](RankDevice& device) {
        auto logits = decode(device);
        *replays += device.driver->replays();
        return logits;
      });
      for (const auto& logits : together) EXPECT_EQ(logits, alone);
      EXPECT_GE(*replays, 4u);
    }
  }
}

// All ranks have to gather the same rows, whoever of them can capture.
TEST(CudaRanks, a_rank_that_cannot_capture_pads_as_the_others_do) {
  RankCase c{.model = opens(golden_models() + "llama_gqa"), .options = few_rows()};
  const auto alone = run_ranks<std::vector<Logits>>(c, decode)[0];
  c.options.graph_bytes = uint64_t{1} << 20;
  c.ranks = 2;
  const auto together = run_ranks<std::vector<Logits>>(c, [](RankDevice& device) {
    if (device.cut.rank == 1) device.driver->refuse_captures();
    return decode(device);
  });
  for (const auto& logits : together) EXPECT_EQ(logits, alone);
}

TEST(CudaRanks, a_rank_has_its_part_of_the_weights_alone) {
  const std::string path = source_folder() + "/configs/models/tale";
  const std::function<uint64_t(RankDevice&)> bytes = [](RankDevice& device) {
    return device.executor->weight_bytes();
  };
  RankCase c{.model = opens(path), .options = few_rows(DType::bf16)};
  const uint64_t alone = run_ranks(c, bytes)[0];
  c.ranks = 2;
  for (const uint64_t part : run_ranks(c, bytes)) {
    EXPECT_LE(part, alone / 2 * 102 / 100);
    EXPECT_GE(part, alone / 2 * 98 / 100);
  }
}

TEST(CudaRanks, few_bytes_go_through_other_devices_memory_where_it_is_reached) {
  const std::function<uint64_t(RankDevice&)> gathers = [](RankDevice& device) {
    answer(device);
    return device.nccl->gathers();
  };
  RankCase c{.model = opens(golden_models() + "llama_gqa"), .ranks = 2, .options = few_rows()};
  const auto by_nccl = run_ranks(c, gathers);
  c.reach_peers = true;
  const auto beside = run_ranks(c, gathers);
  const auto steps = 1u + 2u;  // the prompt, and tokens
  EXPECT_EQ(beside[0], steps) << "those of embeddings";
  EXPECT_GT(by_nccl[0], 4 * beside[0]);
}

}  // namespace
}  // namespace tenon::cuda::test
