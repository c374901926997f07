// Layers for drafts of the model's own in whole pipelines: whatever composes one, they change no
// token and no digest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/models/host_executors.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon {
namespace {

using testing::HasSubstr;

using test::kManagers;
using test::Outcome;
using test::Overrides;

// Vocabularies of these models have 47 tokens, or 19.
std::vector<Request> in_vocabulary(std::vector<Request> requests, TokenId tokens = 44) {
  for (Request& request : requests) {
    for (TokenId& token : request.prompt) token = 3 + token % tokens;
  }
  return requests;
}

class MtpPipelines : public test::RecurrentPipelinesOn {
 protected:
  MtpPipelines() : RecurrentPipelinesOn(test::host_executors()) { digests_ = true; }

  static Overrides with_mtp(Overrides more = {}) {
    Overrides all = {"drafter.plugin=mtp", "drafter.options.adaptive=false"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<Request> asked() { return in_vocabulary(requests()); }
};

INSTANTIATE_TEST_SUITE_P(Models, MtpPipelines,
                         testing::Values("../mtp/qwen3_5", "../mtp/deepseek_v3", "../mtp/glm4_moe"),
                         [](const auto& one) { return std::string(one.param + 7); });

TEST_P(MtpPipelines, every_scheduler_gives_the_same_tokens_with_every_manager) {
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, asked());
  ASSERT_EQ(all.samples.size(), 8u);
  ASSERT_NE(all.samples.front().second, 0u) << "the digest";
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    for (const char* manager : kManagers) {
      SCOPED_TRACE(std::string(scheduler) + " " + manager);
      const Outcome outcome = run(with_mtp({std::string("scheduler.plugin=") + scheduler,
                                            std::string("kv_cache.plugin=") + manager}),
                                  asked());
      EXPECT_EQ(outcome.samples, all.samples);
      EXPECT_GT(outcome.totals.drafts.tokens, 100u);
      EXPECT_GT(outcome.totals.drafts.accepted, 0u);
    }
  }
}

TEST_P(MtpPipelines, prompts_that_begin_alike_change_no_token) {
  const std::vector<Request> alike = in_vocabulary(with_a_common_beginning());
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, alike);
  for (const char* manager : {"prefix", "radix"}) {
    SCOPED_TRACE(manager);
    const Outcome outcome = run(with_mtp({std::string("kv_cache.plugin=") + manager,
                                          "kv_cache.block_tokens=8", "limits.max_sequences=1"}),
                                alike);
    EXPECT_EQ(outcome.samples, all.samples);
    EXPECT_GT(outcome.totals.reused_tokens, 0u);
  }
}

// What a module proposes follows from a history alone, so it does not matter who else is there.
TEST_P(MtpPipelines, drafts_are_the_same_alone_in_batches_and_in_chunks) {
  const Outcome together = run(with_mtp({"kv_cache.plugin=paged"}), asked());
  for (const char* way :
       {"limits.max_sequences=1", "scheduler.options.chunk_tokens=3", "kv_cache.block_tokens=1"}) {
    SCOPED_TRACE(way);
    const Outcome other = run(with_mtp({"kv_cache.plugin=paged", way}), asked());
    EXPECT_EQ(other.samples, together.samples);
    EXPECT_EQ(other.totals.drafts.tokens, together.totals.drafts.tokens);
    EXPECT_EQ(other.totals.drafts.accepted_at, together.totals.drafts.accepted_at);
  }
}

TEST_P(MtpPipelines, sequences_that_make_room_for_others_go_on_with_the_same_tokens) {
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, asked());
  const Outcome outcome = run(
      with_mtp({"kv_cache.plugin=paged", "kv_cache.block_tokens=4", memory_for(6, 220)}), asked());
  EXPECT_EQ(outcome.samples, all.samples);
  EXPECT_GT(outcome.totals.preemptions, 0u);
}

TEST_P(MtpPipelines, every_type_of_the_cache_gives_the_tokens_that_it_gives_without_drafts) {
  for (const char* dtype : {"bf16", "f16", "i8"}) {
    SCOPED_TRACE(dtype);
    const std::string type = std::string("kv_cache.dtype=") + dtype;
    const Outcome alone = run({type}, asked());
    EXPECT_EQ(run(with_mtp({type}), asked()).samples, alone.samples);
  }
}

TEST_P(MtpPipelines, the_oracle_drafts_the_same) {
  const Outcome alone = run({"executor.plugin=ref", "limits.max_sequences=2"}, asked());
  const Outcome outcome = run(with_mtp({"executor.plugin=ref", "limits.max_sequences=2"}), asked());
  EXPECT_EQ(outcome.samples, alone.samples);
  EXPECT_GT(outcome.totals.drafts.tokens, 100u);
}

// Verified by rejection, drafts change which tokens come, but not how often each does.
TEST_P(MtpPipelines, rejection_leaves_the_distribution_of_tokens_as_it_is) {
  constexpr uint32_t kTexts = 3000, kVocabulary = 47;
  const auto counts = [&](Overrides overrides, uint64_t seed) {
    std::vector<Request> all;
    for (uint32_t i = 0; i < kTexts; ++i) {
      Request request;
      request.prompt = {5, 9, 30, 5, 9, 12};
      request.max_tokens = 4;
      request.ignore_eos = true;
      request.sampling.temperature = 1.0f;
      request.sampling.seed = seed + i;
      all.push_back(std::move(request));
    }
    overrides.push_back("limits.max_sequences=16");
    const Outcome outcome = run(std::move(overrides), std::move(all));
    EXPECT_EQ(outcome.totals.drafts.accepted > 0, seed > 0);
    std::vector<double> tokens(2 * kVocabulary);  // the second and the third of each text
    for (const auto& [text, digest] : outcome.samples) {
      for (size_t at : {1u, 2u}) ++tokens[(at - 1) * kVocabulary + static_cast<size_t>(text[at])];
    }
    return tokens;
  };
  const std::vector<double> alone = counts({}, 0);
  const std::vector<double> drafted = counts(with_mtp({"drafter.verify=rejection"}), 1'000'000);
  for (uint32_t place = 0; place < 2; ++place) {
    double chi_square = 0.0;
    for (uint32_t token = 0; token < kVocabulary; ++token) {
      const double a = alone[place * kVocabulary + token], b = drafted[place * kVocabulary + token];
      if (a + b > 0) chi_square += (a - b) * (a - b) / (a + b);
    }
    // 46 degrees of freedom at most: above 92 less than once in ten thousand.
    EXPECT_LT(chi_square, 92.0) << place;
  }
}

TEST_P(MtpPipelines, a_whole_model_is_no_layer_for_drafts) {
  EXPECT_THAT(refusal(with_mtp({"drafter.model=" + golden_models() + "llama_tied"})),
              HasSubstr("drafts need the same vocabulary"));
  // Of a recurrent one something else is said first.
  EXPECT_THAT(refusal(with_mtp({"drafter.model=" + golden_models() + GetParam()})),
              testing::AnyOf(HasSubstr("there is no head to draft with"),
                             HasSubstr("has recurrent layers")));
  EXPECT_THAT(refusal({"drafter.plugin=eagle3"}), HasSubstr("or of a head"));
}

class MtpTrees : public MtpPipelines {};
INSTANTIATE_TEST_SUITE_P(Models, MtpTrees, testing::Values("../mtp/deepseek_v3", "../mtp/glm4_moe"),
                         [](const auto& one) { return std::string(one.param + 7); });

TEST_P(MtpTrees, trees_change_no_token) {
  const Outcome all = run({}, asked());
  for (const char* tree : {"2,2", "grow"}) {
    SCOPED_TRACE(tree);
    const Outcome outcome = run(with_mtp({std::string("drafter.options.tree=") + tree}), asked());
    EXPECT_EQ(outcome.samples, all.samples);
    EXPECT_GT(outcome.totals.drafts.tokens, 100u);
    EXPECT_GT(outcome.totals.drafts.accepted, 0u);
  }
}

class MtpRecurrent : public MtpPipelines {};
INSTANTIATE_TEST_SUITE_P(Models, MtpRecurrent, testing::Values("../mtp/qwen3_5"),
                         [](const auto& one) { return std::string(one.param + 7); });

// Siblings of a tree share a position, which states are told apart by.
TEST_P(MtpRecurrent, trees_are_refused) {
  EXPECT_THAT(refusal(with_mtp({"drafter.options.tree=2,2"})), HasSubstr("draft.shape"));
}

// Families with layers for drafts of their own kind: a window, two layers, half a layer.
class MtpKinds : public MtpPipelines {
 protected:
  static std::vector<Request> asked() { return in_vocabulary(requests(), 16); }
  static std::vector<Request> alike() { return in_vocabulary(with_a_common_beginning(), 16); }
};
INSTANTIATE_TEST_SUITE_P(Models, MtpKinds,
                         testing::Values("../mtp/ernie4_5_moe", "../mtp/mimo_v2",
                                         "../mtp/nemotron_h", "../mtp/step3p5", "../mtp/longcat"),
                         [](const auto& one) { return std::string(one.param + 7); });

TEST_P(MtpKinds, drafts_change_no_token_with_any_manager_in_chunks_or_in_little_memory) {
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, asked());
  ASSERT_NE(all.samples.front().second, 0u) << "the digest";
  for (const char* manager : kManagers) {
    for (const char* way : {"limits.max_sequences=8", "scheduler.options.chunk_tokens=3"}) {
      SCOPED_TRACE(std::string(manager) + " " + way);
      const Outcome outcome =
          run(with_mtp({std::string("kv_cache.plugin=") + manager, way}), asked());
      EXPECT_EQ(outcome.samples, all.samples);
      EXPECT_GT(outcome.totals.drafts.tokens, 100u);
      EXPECT_GT(outcome.totals.drafts.accepted, 0u);
    }
  }
  const Outcome little = run(
      with_mtp({"kv_cache.plugin=paged", "kv_cache.block_tokens=4", memory_for(6, 220)}), asked());
  EXPECT_EQ(little.samples, all.samples);
  EXPECT_GT(little.totals.preemptions, 0u);
}

// Windows of the module: three tokens, of prompts that have twenty and more.
class MtpWindows : public MtpKinds {};
INSTANTIATE_TEST_SUITE_P(Models, MtpWindows, testing::Values("../mtp/mimo_v2", "../mtp/step3p5"),
                         [](const auto& one) { return std::string(one.param + 7); });

TEST_P(MtpWindows, managers_keep_one_entry_more_than_a_row_of_the_module_sees) {
  auto pipeline = build(with_mtp());
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  const ModelShape& shape = (*pipeline)->kv_shape();
  const KvGroup& kept = shape.groups[shape.group_count - 1];
  EXPECT_EQ(kept.owner, KvOwner::draft);
  EXPECT_EQ(kept.window_tokens, 4u);
}

// One block holds a whole text, so nothing is dropped there: what is proposed is the same where K/V
// is dropped behind the window, in small blocks and in large ones.
TEST_P(MtpWindows, what_is_proposed_does_not_depend_on_what_was_dropped) {
  const Outcome whole = run(with_mtp({"kv_cache.plugin=naive", "limits.max_sequences=4"}), asked());
  ASSERT_GT(whole.totals.drafts.accepted, 0u);
  for (const char* manager : {"paged", "prefix", "radix"}) {
    for (const char* way :
         {"kv_cache.block_tokens=1", "kv_cache.block_tokens=4", "kv_cache.block_tokens=16",
          "scheduler.options.chunk_tokens=3", "engine.plan_ahead=1", "limits.max_sequences=1"}) {
      SCOPED_TRACE(std::string(manager) + " " + way);
      Overrides overrides = {std::string("kv_cache.plugin=") + manager, "limits.max_sequences=4"};
      overrides.emplace_back(way);
      const Outcome other = run(with_mtp(std::move(overrides)), asked());
      EXPECT_EQ(other.samples, whole.samples);
      EXPECT_EQ(other.totals.drafts.tokens, whole.totals.drafts.tokens);
      EXPECT_EQ(other.totals.drafts.accepted_at, whole.totals.drafts.accepted_at);
    }
  }
}

TEST_P(MtpWindows, prompts_that_begin_alike_change_no_token) {
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, alike());
  for (const char* manager : {"prefix", "radix"}) {
    SCOPED_TRACE(manager);
    const Outcome outcome = run(with_mtp({std::string("kv_cache.plugin=") + manager,
                                          "kv_cache.block_tokens=4", "limits.max_sequences=1"}),
                                alike());
    EXPECT_EQ(outcome.samples, all.samples);
    EXPECT_GT(outcome.totals.reused_tokens, 0u);
    EXPECT_GT(outcome.totals.drafts.tokens, 0u);
  }
}

TEST_P(MtpWindows, trees_change_no_token) {
  const Outcome all = run({}, asked());
  for (const char* tree : {"2,2", "grow"}) {
    for (const char* manager : {"naive", "paged"}) {
      SCOPED_TRACE(std::string(tree) + " " + manager);
      const Outcome outcome = run(with_mtp({std::string("drafter.options.tree=") + tree,
                                            std::string("kv_cache.plugin=") + manager}),
                                  asked());
      EXPECT_EQ(outcome.samples, all.samples);
      EXPECT_GT(outcome.totals.drafts.accepted, 0u);
    }
  }
}

TEST_P(MtpWindows, every_type_of_the_cache_and_swapping_give_the_tokens_without_drafts) {
  for (const char* dtype : {"f32", "bf16", "f16", "i8"}) {
    SCOPED_TRACE(dtype);
    const std::string type = std::string("kv_cache.dtype=") + dtype;
    EXPECT_EQ(run(with_mtp({type}), asked()).samples, run({type}, asked()).samples);
  }
  const Outcome swapped = run(with_mtp({"kv_cache.plugin=paged", "kv_cache.block_tokens=4",
                                        memory_for(6, 160), "kv_cache.swap_memory=1MiB"}),
                              asked());
  EXPECT_EQ(swapped.samples, run({}, asked()).samples);
  EXPECT_GT(swapped.totals.preemptions, 0u);
}

class MtpRefusals : public MtpPipelines {};
INSTANTIATE_TEST_SUITE_P(Models, MtpRefusals, testing::Values("llama_tied"));

TEST_P(MtpRefusals, a_model_without_such_layers_is_refused) {
  EXPECT_THAT(refusal(with_mtp()), HasSubstr("it has no layers for drafts"));
}

}  // namespace
}  // namespace tenon
