// Medusa heads: what they compute, in whole pipelines, and damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/exec/cpu/executor.h"
#include "core/exec/head_products.h"
#include "core/model/tensors/tensor_values.h"
#include "tests/pipeline/heads/head_pipelines.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::HasSubstr;

using test::kHeads;
using test::Outcome;
using test::Overrides;

Model target(uint32_t vocabulary = 40, uint32_t hidden = 16) {
  Model model;
  model.plan.vocabulary = vocabulary;
  model.plan.hidden = hidden;
  model.plan.layers.resize(4);
  return model;
}

TEST(Medusa, states_and_logits_are_those_of_the_paper) {
  const std::string folder = kHeads + "medusa";
  auto file = open_safetensors(folder + "/golden.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const TensorView &hidden = *(*file)->find("hidden"), &states = *(*file)->find("states"),
                   &logits = *(*file)->find("logits");
  const Model of = target();
  auto opened = open_head(folder, of);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ASSERT_EQ(opened->head->medusa.size(), 2u);
  auto executor = make_cpu_executor({2, kCpuPortable});
  ASSERT_TRUE(executor.ok());
  for (size_t head = 0; head < 2; ++head) {
    std::vector<float> x, made;
    for (uint64_t i = 0; i < element_count(hidden); ++i) x.push_back(element(hidden, i));
    run_medusa_head(**executor, opened->head->medusa[head], x, made);
    ASSERT_EQ(made.size(), element_count(logits) / 2);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(x[i], element(states, head * x.size() + i), 1e-4f);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      EXPECT_NEAR(made[i], element(logits, head * made.size() + i), 1e-4f);
    }
  }
}

class BadMedusa : public testing::Test {
 protected:
  BadMedusa() {
    std::filesystem::copy(kHeads + "medusa", folder_.path(),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  }
  std::string refusal(const Model& of = target()) {
    const auto opened = open_head(folder_.path(), of);
    return opened.ok() ? "none" : std::string(opened.status().message());
  }
  std::string weights() const { return folder_.path() + "/medusa_lm_head.safetensors"; }
  TemporaryFolder folder_;
};

TEST_F(BadMedusa, the_golden_one_is_taken) {
  EXPECT_EQ(refusal(), "none");
}

TEST_F(BadMedusa, of_another_target) {
  EXPECT_THAT(refusal(target(41, 16)), HasSubstr("is no matrix of 41 rows and 16 columns"));
  EXPECT_THAT(refusal(target(40, 24)), HasSubstr("is no matrix of 24 rows and 24 columns"));
}

TEST_F(BadMedusa, with_fewer_heads_than_it_says) {
  folder_.write_file("config.json", "{\"medusa_num_heads\": 3, \"medusa_num_layers\": 2}");
  EXPECT_THAT(refusal(), HasSubstr("there is no tensor '2.0.linear.weight'"));
  folder_.write_file("config.json", "{\"medusa_num_heads\": 0}");
  EXPECT_THAT(refusal(), HasSubstr("expected one or more of each"));
}

TEST_F(BadMedusa, that_are_cut) {
  std::filesystem::resize_file(weights(), std::filesystem::file_size(weights()) - 4);
  EXPECT_THAT(refusal(), HasSubstr("medusa_lm_head.safetensors"));
}

TEST_F(BadMedusa, with_values_that_are_no_numbers) {
  std::fstream file(weights(), std::ios::in | std::ios::out | std::ios::binary);
  const uint32_t nan = 0x7fc00000;
  file.seekp(-4, std::ios::end);
  file.write(reinterpret_cast<const char*>(&nan), 4);
  file.close();
  EXPECT_THAT(refusal(), HasSubstr("has values that are no finite numbers"));
}

TEST_F(BadMedusa, in_a_pickle) {
  std::filesystem::rename(weights(), folder_.path() + "/medusa_lm_head.pt");
  EXPECT_THAT(refusal(), HasSubstr("is a pickle, which may run programs when it is read; store its "
                                   "tensors as medusa_lm_head.safetensors"));
}

class MedusaPipelines : public test::HeadPipelinesOn {
 protected:
  MedusaPipelines()
      : HeadPipelinesOn({"drafter.plugin=medusa", "drafter.model=" + kHeads + "medusa_llama_tied",
                         "drafter.options.adaptive=false"}) {}
};

INSTANTIATE_TEST_SUITE_P(Models, MedusaPipelines, testing::Values("llama_tied"));

TEST_P(MedusaPipelines, every_scheduler_gives_the_same_tokens_with_every_manager) {
  expect_the_same_with_every_scheduler_and_manager();
}

// The heads read the last state alone, so what a prefix cache has is no hindrance.
TEST_P(MedusaPipelines, prompts_that_begin_alike_change_no_token) {
  EXPECT_GT(expect_the_same_of_prompts_that_begin_alike(), 0u);
}

TEST_P(MedusaPipelines, the_oracle_drafts_the_same) {
  const Outcome alone = run({"executor.plugin=ref", "limits.max_sequences=2"}, requests());
  const Outcome outcome =
      run(with_head({"executor.plugin=ref", "limits.max_sequences=2"}), requests());
  EXPECT_EQ(outcome.samples, alone.samples);
  EXPECT_GT(outcome.totals.drafts.accepted, 0u);
}

// Typical acceptance keeps more drafts than were drawn alike, changes tokens, and says so.
TEST_P(MedusaPipelines, typical_acceptance_has_a_numerics_id_of_its_own) {
  auto exact = build(with_head());
  auto typical = build(with_head({"drafter.verify=typical"}));
  ASSERT_TRUE(exact.ok() && typical.ok()) << typical.status().message();
  EXPECT_EQ((*typical)->numerics, (*exact)->numerics + " verify=typical");
  const Outcome all = run(with_head(), requests());
  const Outcome outcome = run(with_head({"drafter.verify=typical"}), requests());
  ASSERT_EQ(outcome.samples.size(), all.samples.size());
  size_t changed = 0;
  for (size_t i = 0; i < all.samples.size(); ++i) {
    // Every other request is greedy: its tokens stay.
    if (i % 2 == 0) {
      EXPECT_EQ(outcome.samples[i], all.samples[i]) << i;
    }
    changed += outcome.samples[i] == all.samples[i] ? 0 : 1;
  }
  EXPECT_GE(outcome.totals.drafts.accepted, all.totals.drafts.accepted);
  RecordProperty("changed", static_cast<int>(changed));
}

TEST_P(MedusaPipelines, heads_of_another_target_are_refused) {
  EXPECT_THAT(refusal({"drafter.plugin=medusa", "drafter.model=" + kHeads + "medusa"}),
              HasSubstr("the head was made for another target"));
}

}  // namespace
}  // namespace tenon
