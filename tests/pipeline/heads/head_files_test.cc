// Heads in GGUF files, as llama.cpp's converters lay them out: they draft what the folders do that
// they were made of.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/pipeline/heads/head_driver.h"
#include "tests/support/temporary_folder.h"

namespace tenon::test {
namespace {

using testing::HasSubstr;

const std::string kGolden = source_folder() + "/tests/golden/";

Model target(uint32_t vocabulary = 40, uint32_t hidden = 16, uint32_t layers = 4) {
  Model model;
  model.plan.vocabulary = vocabulary;
  model.plan.hidden = hidden;
  model.plan.layers.resize(layers);
  return model;
}

class HeadFiles : public testing::TestWithParam<ExecutorCase> {};

// Matrices are in F16 there.
TEST_P(HeadFiles, of_eagle3_have_the_logits_of_the_folder) {
  const Golden golden = read_golden(kGolden + "heads/plain");
  EXPECT_TRUE(is_head(kGolden + "heads/plain.gguf"));
  const Model of = target();
  const auto head = open_head(kGolden + "heads/plain.gguf", of);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(head->head->kind, HeadKind::eagle3);
  EXPECT_EQ(head->head->norm_before_residual, 0);
  EXPECT_EQ(head->head->token_ids.size(), 24u);
  const auto folder = open_head(kGolden + "heads/plain", of);
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  EXPECT_EQ(head->head->token_ids, folder->head->token_ids);
  EXPECT_LE(worst_of_chains(GetParam(), *head, golden), 5e-3f);
}

TEST_P(HeadFiles, of_a_layer_alone_draft_what_the_whole_model_does) {
  EXPECT_TRUE(is_head(kGolden + "mtp/mtp-qwen3_5.gguf"));
  EXPECT_FALSE(is_head(kGolden + "mtp/qwen3_5.gguf"));
  const auto of = open_model(kGolden + "mtp/qwen3_5.gguf");
  ASSERT_TRUE(of.ok()) << of.status().message();
  const auto head = open_head(kGolden + "mtp/mtp-qwen3_5.gguf", **of);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(head->head->kind, HeadKind::mtp);
  EXPECT_LE(worst_of_chains(GetParam(), *head, read_golden(kGolden + "mtp/qwen3_5")), 1e-4f);
}

INSTANTIATE_TEST_SUITE_P(Executors, HeadFiles, testing::ValuesIn(executor_cases()),
                         [](const auto& one) { return one.param.name(); });

class BadHeadFiles : public testing::Test {
 protected:
  BadHeadFiles() {
    std::ifstream file(kGolden + "heads/plain.gguf", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::string refusal(const Model& of = target()) {
    folder_.write_file("head.gguf", bytes_);
    const auto opened = open_head(folder_.path() + "/head.gguf", of);
    return opened.ok() ? "none" : std::string(opened.status().message());
  }
  // d2t is the last tensor.
  void put_id(size_t from_end, int64_t id) {
    std::memcpy(&bytes_[bytes_.size() - 8 * from_end], &id, sizeof(id));
  }
  TemporaryFolder folder_;
  std::string bytes_;
};

TEST_F(BadHeadFiles, the_golden_one_is_taken) {
  EXPECT_EQ(refusal(), "none");
}

TEST_F(BadHeadFiles, of_another_target) {
  EXPECT_THAT(refusal(target(41)), HasSubstr("the head has a vocabulary of 40 tokens"));
  EXPECT_THAT(refusal(target(40, 24)), HasSubstr("'target_hidden_size' is 16"));
  EXPECT_THAT(refusal(target(40, 16, 3)), HasSubstr("but the target has 3 layers"));
  const Model shallow = target(47, 24, 1);
  const auto opened = open_head(kGolden + "mtp/mtp-qwen3_5.gguf", shallow);
  EXPECT_FALSE(opened.ok());
}

TEST_F(BadHeadFiles, with_ids_out_of_range_or_twice) {
  put_id(1, 40);
  EXPECT_THAT(refusal(), HasSubstr("'d2t' names tokens twice or outside the target's 40"));
  put_id(1, 3);
  put_id(2, 3);
  EXPECT_THAT(refusal(), HasSubstr("'d2t' names tokens twice or outside the target's 40"));
}

TEST_F(BadHeadFiles, that_are_cut) {
  bytes_.resize(bytes_.size() / 2);
  EXPECT_THAT(refusal(), HasSubstr("head.gguf"));
}

TEST_F(BadHeadFiles, whose_states_are_no_list) {
  const size_t at = bytes_.find("eagle3.target_layers");
  ASSERT_NE(at, std::string::npos);
  bytes_.replace(at, 20, "eagle3.target_worms_");
  EXPECT_THAT(refusal(), HasSubstr("the states that the head reads, is no list"));
}

}  // namespace
}  // namespace tenon::test
