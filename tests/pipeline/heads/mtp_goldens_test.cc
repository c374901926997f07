// Layers for drafts that lie in the model's own folder, on every executor that runs heads: what
// they draft is what tests/golden/make_mtp_goldens.py and make_module_goldens.py computed.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/pipeline/heads/head_driver.h"
#include "tests/support/models/model_folder.h"
#include "tests/support/temporary_folder.h"

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

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As speculators takes the module out of a model: under names of its own, next to the config of the
// whole model, whose layers are not the module's.
TEST(MtpGolden, a_folder_that_speculators_made_of_the_model_drafts_the_same) {
  const std::string of = golden_models() + "../mtp/qwen3_5";
  const std::string file = read(of + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  std::string header = file.substr(sizeof(length), length);
  const std::pair<std::string, std::string> names[] = {
      {"\"mtp.fc.", "\"mtp_layers.0.input_proj."},
      {"\"mtp.norm.", "\"mtp_layers.0.final_layernorm."},
      {"\"mtp.pre_fc_norm_hidden.", "\"mtp_layers.0.hidden_layernorm."},
      {"\"mtp.pre_fc_norm_embedding.", "\"mtp_layers.0.token_layernorm."},
      {"\"mtp.layers.0.", "\"mtp_layers.0."}};
  for (const auto& [from, to] : names) {
    ASSERT_NE(header.find(from), std::string::npos) << from;
    for (size_t at = 0; (at = header.find(from, at)) != std::string::npos;) {
      header.replace(at, from.size(), to);
    }
  }
  TemporaryFolder folder;
  folder.write_file("model.safetensors",
                    safetensors_file(header, file.substr(sizeof(length) + length)));
  folder.write_file("config.json",
                    R"({"speculators_model_type": "mtp", "architectures": ["MTPDraftModel"],)"
                    R"( "num_nextn_predict_layers": 1, "transformer_layer_config": )" +
                        read(of + "/config.json") + "}");
  const auto target = open_model(of);
  ASSERT_TRUE(target.ok()) << target.status().message();
  const auto head = open_head(folder.path(), **target);
  ASSERT_TRUE(head.ok()) << head.status().message();
  const Golden golden = read_golden(source_folder() + "/tests/golden/mtp/qwen3_5");
  EXPECT_LE(worst_of_chains(executor_cases().front(), *head, golden), 1e-4f);
}

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
