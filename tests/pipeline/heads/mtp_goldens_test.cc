// Layers for drafts that lie in the model's own folder, on every executor that runs heads: what
// they draft is what tests/golden/make_mtp_goldens.py and make_module_goldens.py computed.
#include <gmock/gmock.h>

#include "tests/pipeline/heads/head_driver.h"

namespace tenon::test {
namespace {

class MtpGoldens : public testing::TestWithParam<std::tuple<ExecutorCase, const char*>> {};

TEST_P(MtpGoldens, chains_have_the_logits_of_the_published_layouts) {
  const auto& [executor, name] = GetParam();
  const Golden golden = read_golden(source_folder() + "/tests/golden/mtp/" + name);
  const auto target = open_model(golden_models() + "../mtp/" + name);
  ASSERT_TRUE(target.ok()) << target.status().message();
  const auto head = open_own_head(**target);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(head->head->features, golden.width);
  EXPECT_LE(worst_of_chains(executor, *head, golden), 1e-4f);
}

INSTANTIATE_TEST_SUITE_P(Folders, MtpGoldens,
                         testing::Combine(testing::ValuesIn(executor_cases()),
                                          testing::Values("qwen3_5", "deepseek_v3", "glm4_moe",
                                                          "qwen2_mimo", "ernie4_5_moe", "mimo_v2",
                                                          "nemotron_h", "step3p5", "longcat")),
                         [](const auto& one) {
                           return std::get<0>(one.param).name() + "_" + std::get<1>(one.param);
                         });

class MtpGgufGolden : public testing::TestWithParam<ExecutorCase> {};

TEST_P(MtpGgufGolden, files_of_converters_draft_the_same) {
  const std::string folder = source_folder() + "/tests/golden/mtp/qwen3_5";
  const auto target = open_model(folder + ".gguf");
  ASSERT_TRUE(target.ok()) << target.status().message();
  const auto head = open_own_head(**target);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_LE(worst_of_chains(GetParam(), *head, read_golden(folder)), 1e-4f);
}

INSTANTIATE_TEST_SUITE_P(Executors, MtpGgufGolden, testing::ValuesIn(executor_cases()),
                         [](const auto& one) { return one.param.name(); });

// Any of these would only show in fewer drafts that are kept.
TEST(MtpGolden, differ_where_a_norm_an_order_or_an_embedding_is_another) {
  const Golden golden = read_golden(source_folder() + "/tests/golden/mtp/deepseek_v3");
  const auto target = open_model(golden_models() + "../mtp/deepseek_v3");
  ASSERT_TRUE(target.ok());
  const ExecutorCase executor = executor_cases().front();
  const auto worst_with = [&](auto change) {
    auto head = open_own_head(**target);
    EXPECT_TRUE(head.ok());
    change(*head);
    return worst_of_chains(executor, *head, golden);
  };
  EXPECT_GT(worst_with([](OpenedHead& head) { head.head->state_first = true; }), 1e-2f);
  EXPECT_GT(worst_with([](OpenedHead& head) { head.head->norm_output = false; }), 1e-2f);
  EXPECT_GT(worst_with([&](OpenedHead& head) { head.model->embedding = (*target)->embedding; }),
            1e-2f);
  EXPECT_GT(worst_with([&](OpenedHead& head) { head.model->head = (*target)->head; }), 1e-2f);
}

// Of families whose programs go on from states before the last norm the head asks for those.
TEST(MtpGolden, raw_states_are_read_where_the_family_has_them) {
  for (const char* name : {"mimo_v2", "step3p5", "nemotron_h", "ernie4_5_moe"}) {
    SCOPED_TRACE(name);
    const auto target = open_model(golden_models() + "../mtp/" + name);
    ASSERT_TRUE(target.ok()) << target.status().message();
    const auto head = open_own_head(**target);
    ASSERT_TRUE(head.ok()) << head.status().message();
    const auto layers = static_cast<LayerId>((*target)->plan.layers.size());
    const bool raw = name == std::string("mimo_v2") || name == std::string("step3p5");
    EXPECT_EQ(head->head->state_layers, std::vector<LayerId>{raw ? layers - 1 : layers});
    EXPECT_EQ(head->head->norm_output, !raw);
  }
}

TEST(MtpGolden, a_model_without_such_layers_has_none) {
  const auto target = open_model(golden_models() + "llama_tied");
  ASSERT_TRUE(target.ok());
  const auto head = open_own_head(**target);
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(head.status().code(), StatusCode::not_found);
  EXPECT_THAT(std::string(head.status().message()),
              testing::HasSubstr("llama_tied: it has no layers for drafts"));
}

}  // namespace
}  // namespace tenon::test
