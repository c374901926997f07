// A model grown into a larger shape says what it said before.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/files/npy.h"
#include "core/model/synth/synth.h"
#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/temporary_folder.h"

namespace tenon::test {
namespace {

std::unique_ptr<Model> grow(const std::string& source, const std::string& shape,
                            const TemporaryFolder& folder) {
  const std::string out = folder.path() + "/grown";
  const Status grown = grow_model(source, shape, {out, {}, {}});
  if (!grown.ok()) ADD_FAILURE() << grown.message();
  auto model = open_model(out);
  if (!model.ok()) ADD_FAILURE() << model.status().message();
  return model.ok() ? *std::move(model) : nullptr;
}

struct GrowthCase {
  std::string golden;
  std::string shape;
};
class GrownModelTest : public testing::TestWithParam<GrowthCase> {};

void expect_golden_logits(const Model& model, const std::string& source) {
  const auto tokens = read_npy_i32(source + "/tokens.npy");
  const auto golden = read_npy_f32(source + "/logits.npy");
  ASSERT_TRUE(tokens.ok() && golden.ok());
  Logits expected;
  for (size_t row = 0; row < golden->shape[0]; ++row) {
    const auto at = golden->values.begin() + static_cast<ptrdiff_t>(row * golden->shape[1]);
    expected.emplace_back(at, at + static_cast<ptrdiff_t>(golden->shape[1]));
  }
  const ModelShapeStorage shape(model.plan, model.plan.context_tokens);
  Loaded executor({}, model, shape.shape());
  EXPECT_LE(largest_difference(executor->feed(tokens->values, {40}), expected), 1e-4);
}

TEST_P(GrownModelTest, logits_are_those_of_the_source) {
  const std::string source = golden_models() + GetParam().golden;
  const TemporaryFolder folder;
  const auto model = grow(source, GetParam().shape, folder);
  ASSERT_NE(model, nullptr);
  expect_golden_logits(*model, source);
}

// As its own files have it, which outweigh the names of Llama's.
TEST(GrownModel, a_config_keeps_its_own_names_of_layers_and_epsilon) {
  const std::string golden = golden_models() + "exaone";
  const TemporaryFolder folder;
  const std::string source = folder.path() + "/source";
  std::filesystem::copy(golden, source);
  auto config = nlohmann::json::parse(*read_text_file(golden + "/config.json"));
  config["num_layers"] = config["num_hidden_layers"];
  config["layer_norm_epsilon"] = config["rms_norm_eps"];
  std::filesystem::remove(source + "/config.json");
  folder.write_file("source/config.json", config.dump());
  const auto model = grow(source, "stories-260k", folder);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->plan.layers.size(), 5u);
  expect_golden_logits(*model, golden);
}

TEST(GrownModel, what_zeros_would_change_is_refused) {
  for (const char* golden : {"bitnet", "lfm2", "nanochat"}) {
    const TemporaryFolder folder;
    const Status grown =
        grow_model(golden_models() + golden, "stories-260k", {folder.path() + "/grown", {}, {}});
    EXPECT_NE(grown.message().find("cannot be grown by zeros"), std::string::npos)
        << golden << ": " << grown.message();
  }
}

// stories-260k has more query heads a KV head, or as many; stories-15m has one, so that KV heads
// are repeated.
INSTANTIATE_TEST_SUITE_P(Growth, GrownModelTest,
                         testing::Values(GrowthCase{"llama_gqa", "stories-260k"},
                                         GrowthCase{"llama_mha", "stories-260k"},
                                         GrowthCase{"llama_gqa", "stories-15m"},
                                         GrowthCase{"llama_biases", "stories-260k"},
                                         GrowthCase{"llama_rope_llama3", "stories-260k"},
                                         GrowthCase{"mistral_window", "stories-260k"},
                                         GrowthCase{"qwen2", "stories-260k"},
                                         GrowthCase{"qwen2_sliding_layers", "stories-260k"},
                                         GrowthCase{"qwen3", "stories-260k"},
                                         GrowthCase{"llama_bf16", "stories-260k"},
                                         GrowthCase{"llama_sharded", "stories-260k"}),
                         [](const auto& test) {
                           std::string name = test.param.golden + "_in_" + test.param.shape;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

std::vector<TokenId> greedy_text(const Model& model, size_t length) {
  const ModelShapeStorage shape(model.plan, 64);
  Loaded executor({}, model, shape.shape());
  const size_t sequence = executor->begin();
  std::vector<TokenId> text = {20};
  while (text.size() < length) {
    const Row row = executor->step({{sequence, {text.back()}}})[0];
    text.push_back(static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  return text;
}

TEST(GrownModel, the_demo_model_tells_the_same_story_in_a_larger_shape) {
  const std::string source = source_folder() + "/configs/models/tale";
  const TemporaryFolder folder;
  const auto grown = grow(source, "stories-42m", folder);
  const auto small = open_model(source);
  ASSERT_TRUE(grown != nullptr && small.ok());
  EXPECT_EQ(grown->plan.hidden, 512u);
  EXPECT_EQ(greedy_text(*grown, 24), greedy_text(**small, 24));
}

}  // namespace
}  // namespace tenon::test
