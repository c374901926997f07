// Heads that draft blocks and are damaged, or made for another target: refused with a sentence.
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

// The golden head "dspark" for a target of 40 tokens, 16 numbers and 4 layers, to be spoilt.
class BadBlocks : public testing::Test {
 protected:
  BadBlocks() {
    const std::string from = source_folder() + "/tests/golden/heads/dspark/";
    config_ = read(from + "config.json");
    weights_ = read(from + "model.safetensors");
    target_.plan.vocabulary = 40;
    target_.plan.hidden = 16;
    target_.plan.layers.resize(4);
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void in_config(const std::string& from, const std::string& to) {
    const size_t at = config_.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    config_.replace(at, from.size(), to);
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
    folder_.write_file("config.json", config_);
    folder_.write_file("model.safetensors", weights_);
    const auto opened = open_head(folder_.path(), target_);
    return opened.ok() ? "none" : std::string(opened.status().message());
  }

  TemporaryFolder folder_;
  std::string config_, weights_;
  Model target_;
};

TEST_F(BadBlocks, the_golden_one_is_taken) {
  EXPECT_EQ(refusal(), "none");
}

TEST_F(BadBlocks, of_another_target) {
  target_.plan.vocabulary = 41;
  EXPECT_THAT(refusal(), HasSubstr("the head has a vocabulary of 40 tokens"));
  target_.plan.vocabulary = 40;
  target_.plan.hidden = 24;
  EXPECT_THAT(refusal(), HasSubstr("'fc.weight' reads 32 numbers, but 2 states of the target have "
                                   "48; it was made for another target"));
  target_.plan.hidden = 16;
  target_.plan.layers.resize(2);
  EXPECT_THAT(refusal(), HasSubstr("the last is that after layer 3, but the target has 2 layers"));
}

TEST_F(BadBlocks, whose_mask_is_no_token_or_not_said) {
  in_config("\"mask_token_id\": 39", "\"mask_token_id\": 40");
  EXPECT_THAT(refusal(), HasSubstr("'mask_token_id' is 40, but the vocabulary has 40 tokens"));
  in_config("\"mask_token_id\": 40", "\"masked\": 40");
  EXPECT_THAT(refusal(), HasSubstr("'mask_token_id' is not there; a head"));
  in_config("\"masked\": 40", "\"mask_token_id\": [38, 39]");
  EXPECT_THAT(refusal(), HasSubstr("'mask_token_id' is a list of 2; expected one token"));
}

TEST_F(BadBlocks, whose_blocks_have_no_masks) {
  in_config("\"block_size\": 4", "\"block_size\": 1");
  EXPECT_THAT(refusal(), HasSubstr("'block_size' is 1; expected an integer from 2 to "));
  in_config("\"block_size\": 1", "\"block_size\": 0");
  EXPECT_THAT(refusal(), HasSubstr("'block_size' is 0; expected an integer from 2 to "));
}

TEST_F(BadBlocks, that_are_not_built) {
  in_config("\"vanilla\"", "\"rnn\"");
  EXPECT_THAT(refusal(), HasSubstr("'markov_head_type' is 'rnn'"));
  in_config("\"rnn\"", "\"vanilla\"");
  in_config("\"block_size\"", "\"layer_types\": [\"sliding_attention\"], \"block_size\"");
  EXPECT_THAT(refusal(), HasSubstr("'layer_types' has 'sliding_attention'"));
}

TEST_F(BadBlocks, with_values_that_are_no_numbers) {
  const std::string before = weights_;
  for (const std::string name : {"markov_head.markov_w2.weight", "confidence_head.proj.bias"}) {
    put_nan(name);
    EXPECT_THAT(refusal(),
                HasSubstr("tensor '" + name + "' has values that are no finite numbers"));
    weights_ = before;
  }
}

TEST_F(BadBlocks, that_are_cut) {
  weights_.resize(weights_.size() - 8);
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors"));
}

}  // namespace
}  // namespace tenon
