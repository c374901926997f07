// Layers for drafts in a model's own folder that are damaged or missing: refused with a sentence,
// while the model itself can be opened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "core/model/heads/head.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A golden model with its layer for drafts, "qwen3_5" or another, to be spoilt.
class BadOwnHeads : public testing::Test {
 protected:
  BadOwnHeads() { take("qwen3_5"); }
  void take(const std::string& name) {
    const std::string from = golden_models() + "../mtp/" + name + "/";
    folder_.write_file("config.json", read(from + "config.json"));
    weights_ = read(from + "model.safetensors");
  }
  // Names and numbers of the same length.
  void replace(const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    bool found = false;
    for (size_t at = 0; (at = weights_.find(from, at)) != std::string::npos; at += to.size()) {
      weights_.replace(at, from.size(), to);
      found = true;
    }
    ASSERT_TRUE(found) << from;
  }
  void put_nan(const std::string& tensor) {
    uint64_t header = 0;
    std::memcpy(&header, weights_.data(), sizeof(header));
    size_t at = weights_.find("\"" + tensor + "\"");
    ASSERT_NE(at, std::string::npos);
    at = weights_.find("data_offsets\":[", at) + std::strlen("data_offsets\":[");
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(&weights_[8 + header + std::stoul(weights_.substr(at))], &nan, sizeof(nan));
  }
  std::string refusal() {
    folder_.write_file("model.safetensors", weights_);
    const auto target = open_model(folder_.path());
    EXPECT_TRUE(target.ok()) << target.status().message();
    if (!target.ok()) return "the model itself";
    const auto opened = open_own_head(**target);
    return opened.ok() ? "none" : std::string(opened.status().message());
  }

  TemporaryFolder folder_;
  std::string weights_;
};

TEST_F(BadOwnHeads, the_golden_one_is_taken) {
  EXPECT_EQ(refusal(), "none");
}

TEST_F(BadOwnHeads, without_what_joins_the_halves) {
  replace("\"mtp.fc.weight\"", "\"mtp.fx.weight\"");
  EXPECT_THAT(refusal(), HasSubstr("tensor 'mtp.fc.weight' is missing"));
}

TEST_F(BadOwnHeads, without_a_norm) {
  replace("pre_fc_norm_hidden", "pre_fc_worm_hidden");
  EXPECT_THAT(refusal(), HasSubstr("mtp.pre_fc_norm_hidden.weight"));
}

TEST_F(BadOwnHeads, without_a_matrix_of_their_layer) {
  replace("mtp.layers.0.self_attn.v_proj", "mtp.layers.0.self_attn.w_proj");
  const std::string said = refusal();
  EXPECT_THAT(said, HasSubstr("mtp.layers.0.self_attn.v_proj.weight"));
  EXPECT_THAT(said, HasSubstr("mtp.layers.0.self_attn.w_proj.weight' has no place"));
}

TEST_F(BadOwnHeads, with_values_that_are_no_numbers) {
  put_nan("mtp.layers.0.mlp.down_proj.weight");
  EXPECT_THAT(refusal(), HasSubstr("has values that are no finite numbers; the head can draft"));
}

TEST_F(BadOwnHeads, with_norms_that_are_no_numbers) {
  put_nan("mtp.pre_fc_norm_embedding.weight");
  EXPECT_THAT(refusal(), HasSubstr("has values that are no finite numbers"));
}

TEST_F(BadOwnHeads, with_a_bias_where_embedding_and_state_join) {
  take("ernie4_5_moe");
  replace("\"model.mtp_linear_proj.0.weight\":", "\"model.mtp_linear_proj.0.bias\"  :");
  EXPECT_THAT(refusal(),
              HasSubstr("there is a tensor 'model.mtp_linear_proj.0.bias'; a bias where"));
}

// The name is the one that such files have.
TEST_F(BadOwnHeads, without_a_norm_that_is_stored_by_another_name) {
  take("mimo_v2");
  replace("pre_mlp_layernorm", "pre_mlp_layerworm");
  EXPECT_THAT(refusal(), HasSubstr("'model.mtp.layers.0.pre_mlp_layernorm.weight' is missing"));
}

TEST_F(BadOwnHeads, without_their_second_layer) {
  take("nemotron_h");
  replace("mtp.layers.1.", "mtp.lawyer.1.");
  EXPECT_THAT(refusal(), HasSubstr("'mtp.layers.0.final_layernorm.weight' is missing"));
}

TEST_F(BadOwnHeads, of_two_layers_one_of_which_is_damaged) {
  take("nemotron_h");
  replace("mtp.layers.1.mixer.gate.w", "mtp.layers.1.mixer.gaze.w");
  const std::string said = refusal();
  EXPECT_THAT(said, HasSubstr("'mtp.layers.1.mixer.gate.weight' is missing"));
  EXPECT_THAT(said, HasSubstr("'mtp.layers.1.mixer.gaze.weight' has no place"));
}

TEST_F(BadOwnHeads, of_models_whose_windows_differ) {
  const auto target = open_model(golden_models() + "../mtp/qwen2_mimo");
  ASSERT_TRUE(target.ok());
  (*target)->plan.layers[0].attention.window_tokens = 16;
  const auto opened = open_own_head(**target);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), StatusCode::unsupported);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("windows of several sizes"));
}

TEST_F(BadOwnHeads, of_models_that_choose_positions_by_an_index) {
  const auto target = open_model(golden_models() + "../mtp/deepseek_v3");
  ASSERT_TRUE(target.ok());
  for (LayerPlan& layer : (*target)->plan.layers) layer.index.chosen = 8;
  const auto opened = open_own_head(**target);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), StatusCode::unsupported);
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("choose positions by an index; its layers for drafts are not built"));
}

TEST_F(BadOwnHeads, of_gguf_files_that_have_none) {
  const auto target = open_model(source_folder() + "/tests/golden/gguf/llama_tied_q8_0.gguf");
  ASSERT_TRUE(target.ok());
  EXPECT_THAT(std::string(open_own_head(**target).status().message()),
              HasSubstr("llama_tied_q8_0.gguf: it has no layers for drafts"));
}

}  // namespace
}  // namespace tenon
