// Heads that are damaged, or made for another target: refused with a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "core/model/heads/head.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The golden head "plain" for a target of 40 tokens, 16 numbers and 4 layers, to be spoilt.
class BadHeads : public testing::Test {
 protected:
  BadHeads() {
    const std::string from = source_folder() + "/tests/golden/heads/plain/";
    config_ = read(from + "config.json");
    weights_ = read(from + "model.safetensors");
    target_.plan.vocabulary = 40;
    target_.plan.hidden = 16;
    target_.plan.layers.resize(4);
  }
  void in_config(const std::string& from, const std::string& to) { change(config_, from, to); }
  void in_weights(const std::string& from, const std::string& to) { change(weights_, from, to); }
  // The bytes of a tensor begin where the header says.
  template <typename Value>
  void put(const std::string& tensor, size_t index, Value value) {
    uint64_t header = 0;
    std::memcpy(&header, weights_.data(), sizeof(header));
    size_t at = weights_.find("\"" + tensor + "\"");
    ASSERT_NE(at, std::string::npos);
    at = weights_.find("data_offsets\":[", at) + std::strlen("data_offsets\":[");
    const size_t offset = 8 + header + std::stoul(weights_.substr(at)) + index * sizeof(value);
    std::memcpy(&weights_[offset], &value, sizeof(value));
  }
  // One more tensor, without a number in it.
  void add(const std::string& name) {
    uint64_t header = 0;
    std::memcpy(&header, weights_.data(), sizeof(header));
    const std::string entry =
        "\"" + name + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
    weights_.insert(sizeof(header) + 1, entry);
    header += entry.size();
    std::memcpy(weights_.data(), &header, sizeof(header));
  }
  std::string refusal() {
    folder_.write_file("config.json", config_);
    folder_.write_file("model.safetensors", weights_);
    const auto opened = open_head(folder_.path(), target_);
    return opened.ok() ? "none" : std::string(opened.status().message());
  }

  TemporaryFolder folder_;
  std::string config_, weights_;
  Model target_;

 private:
  static void change(std::string& text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
};

TEST_F(BadHeads, the_golden_one_is_taken) {
  EXPECT_EQ(refusal(), "none");
}

TEST_F(BadHeads, of_another_target) {
  target_.plan.hidden = 24;
  EXPECT_THAT(refusal(), HasSubstr("'fc.weight' reads 48 numbers, but 3 states of the target have "
                                   "72; it was made for another target"));
  target_.plan.hidden = 16;
  target_.plan.layers.resize(3);
  EXPECT_THAT(refusal(), HasSubstr("has 4, but the target has 3 layers"));
  target_.plan.vocabulary = 41;
  EXPECT_THAT(refusal(),
              HasSubstr("the head has a vocabulary of 40 tokens, but the target has 41"));
}

TEST_F(BadHeads, whose_target_hidden_size_is_another) {
  in_config("\"draft_vocab_size\"", "\"target_hidden_size\": 32, \"draft_vocab_size\"");
  EXPECT_THAT(refusal(), HasSubstr("'target_hidden_size' is 32, but the target's states have 16"));
}

TEST_F(BadHeads, with_ids_out_of_range_or_twice) {
  put("d2t", 23, int64_t{40});
  EXPECT_THAT(refusal(), HasSubstr("'d2t' names tokens twice or outside the target's 40"));
  put("d2t", 23, int64_t{-23});
  put("d2t", 0, int64_t{0});
  EXPECT_THAT(refusal(), HasSubstr("'d2t' names tokens twice or outside the target's 40"));
}

TEST_F(BadHeads, with_ids_in_another_type) {
  in_weights("\"I64\"", "\"F64\"");
  EXPECT_THAT(refusal(), HasSubstr("d2t"));
}

TEST_F(BadHeads, with_values_that_are_no_numbers) {
  put("fc.weight", 7, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(refusal(), HasSubstr("tensor 'fc.weight' has values that are no finite numbers"));
}

TEST_F(BadHeads, with_norms_that_are_no_numbers) {
  put("midlayer.hidden_norm.weight", 3, std::numeric_limits<float>::infinity());
  EXPECT_THAT(refusal(), HasSubstr("has values that are no finite numbers"));
}

// What nobody reads would be missing in what the head computes.
TEST_F(BadHeads, with_tensors_that_have_no_place) {
  for (const char* name : {"fc.bias", "norm.bias", "embed_tokens.bias", "hidden_norm.weight",
                           "markov_head.markov_w1.weight", "mask_hidden", "what.ever"}) {
    const std::string before = weights_;
    add(name);
    EXPECT_THAT(refusal(), HasSubstr("tensor '" + std::string(name) +
                                     "' has no place in the head that config.json describes"));
    weights_ = before;
  }
  add("verifier_lm_head.weight");
  EXPECT_EQ(refusal(), "none") << "the target's, which heads of speculators may have";
}

TEST_F(BadHeads, with_two_names_of_one_part) {
  add("layers.0.self_attn.q_proj.weight");
  EXPECT_THAT(refusal(), HasSubstr("'layers.0.self_attn.q_proj.weight' are names of the same part "
                                   "of a head; expected one of them"));
}

// Llama itself does not read the list, speculators' heads of its layers do.
TEST_F(BadHeads, with_windows_that_llamas_layers_have_not) {
  const std::string key = "\"draft_vocab_size\"";
  const std::string types = "\"layer_types\": [\"sliding_attention\"], ";
  in_config(key, types + key);
  EXPECT_THAT(refusal(), HasSubstr("layers of Llama have windows in heads of speculators alone"));
  in_config(key, "\"speculators_model_type\": \"eagle3\", " + key);
  EXPECT_THAT(refusal(), HasSubstr("sliding layers but there is no sliding window"));
  in_config(key, "\"sliding_window\": 5, " + key);
  EXPECT_EQ(refusal(), "none");
  const auto opened = open_head(folder_.path(), target_);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->model->plan.layers.front().attention.window_tokens, 5u);
}

TEST_F(BadHeads, that_are_cut) {
  weights_.resize(weights_.size() - 8);
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors"));
}

TEST_F(BadHeads, without_a_tensor) {
  in_weights("\"midlayer.hidden_norm.weight\"", "\"midlayer.hidden_worm.weight\"");
  EXPECT_THAT(refusal(), HasSubstr("hidden_norm.weight"));
}

TEST_F(BadHeads, of_another_kind) {
  in_config("LlamaForCausalLMEagle3", "HydraDraftModel");
  EXPECT_THAT(refusal(), HasSubstr("architecture \"HydraDraftModel\" is no head that is built"));
  in_config("HydraDraftModel", "DFlashDraftModel");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'block_size' is not there; a head that drafts blocks"),
                               HasSubstr("'mask_token_id' is not there; a head that drafts")));
}

TEST_F(BadHeads, that_read_states_in_no_order_or_the_embeddings) {
  in_config("   2,\n   4", "   4,\n   2");
  EXPECT_THAT(refusal(), HasSubstr("does not rise"));
  in_config("   1,\n   4,\n   2", "   0,\n   2,\n   4");
  EXPECT_THAT(refusal(), HasSubstr("has 0, the embeddings"));
  in_config("   0,\n   2,\n   4", "   \"1\",\n   \"2\"");
  EXPECT_THAT(refusal(), HasSubstr("'eagle_config.eagle_aux_hidden_state_layer_ids' has \"1\"; "
                                   "expected a list of numbers of layers"));
}

}  // namespace
}  // namespace tenon
