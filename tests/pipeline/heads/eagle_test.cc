// Heads of EAGLE 1 and 2: in every form of folders that says it, their drafts are what
// tests/golden/make_head_goldens.py computed, and others are refused with a sentence.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/pipeline/heads/head_driver.h"
#include "tests/support/models/model_folder.h"
#include "tests/support/temporary_folder.h"

namespace tenon::test {
namespace {

using testing::HasSubstr;

constexpr uint32_t kVocabulary = 16, kHidden = 8;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string golden_head() {
  return source_folder() + "/tests/golden/heads/first_eagle";
}

// The golden head in other words.
class EagleFolder {
 public:
  EagleFolder() : config_(read(golden_head() + "/config.json")) {
    const std::string file = read(golden_head() + "/model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof(length));
    header_ = file.substr(sizeof(length), length);
    data_ = file.substr(sizeof(length) + length);
  }
  void in_config(const std::string& from, const std::string& to) { change(config_, from, to); }
  // Tensors whose names begin so.
  void rename(const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = header_.find("\"" + from, at)) != std::string::npos; ++at) {
      header_.replace(at + 1, from.size(), to);
    }
  }
  const std::string& write() {
    folder_.write_file("config.json", config_);
    folder_.write_file("model.safetensors", safetensors_file(header_, data_));
    return folder_.path();
  }

 private:
  static void change(std::string& text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }

  TemporaryFolder folder_;
  std::string config_, header_, data_;
};

Model target_of(uint32_t hidden = kHidden, uint32_t vocabulary = kVocabulary) {
  Model target;
  target.plan.vocabulary = vocabulary;
  target.plan.hidden = hidden;
  target.plan.layers.resize(3);
  return target;
}

class EagleGoldens : public testing::TestWithParam<ExecutorCase> {};
INSTANTIATE_TEST_SUITE_P(Executors, EagleGoldens, testing::ValuesIn(executor_cases()),
                         [](const auto& one) { return one.param.name(); });

TEST_P(EagleGoldens, chains_have_the_logits_of_the_paper) {
  ASSERT_TRUE(is_head(golden_head()));
  const Model target = target_of();
  auto opened = open_head(golden_head(), target);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->head->state_layers, std::vector<LayerId>{3}) << "after the last norm";
  EXPECT_EQ(head_kind_name(opened->head->kind), "eagle3") << "the drafter that runs it";
  EXPECT_LE(worst_of_chains(GetParam(), *opened, read_golden(golden_head())), 1e-4f);
}

// As SGLang and vLLM name the class, and as speculators wrote such heads.
TEST_P(EagleGoldens, say_the_same_in_other_folders) {
  const Golden golden = read_golden(golden_head());
  const Model target = target_of();
  for (const char* name : {"LlamaForCausalLMEagle", "EagleLlamaForCausalLM"}) {
    EagleFolder folder;
    folder.in_config("LlamaForCausalLM", name);
    auto opened = open_head(folder.write(), target);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_LE(worst_of_chains(GetParam(), *opened, golden), 1e-4f) << name;
  }
  EagleFolder folder;
  folder.rename("layers.0.", "transformer.");
  folder.rename("fc.", "fusion_fc.");
  folder.in_config("\"LlamaForCausalLM\"", "\"EagleSpeculator\", \"LlamaDecoderLayer\"");
  folder.in_config("\"bias\": true",
                   "\"speculators_model_type\": \"eagle\", \"layernorms\": false, "
                   "\"transformer_layer_architecture\": \"LlamaDecoderLayer\", "
                   "\"fusion_bias\": true");
  auto opened = open_head(folder.write(), target);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_LE(worst_of_chains(GetParam(), *opened, golden), 1e-4f) << "speculators";
}

class BadEagles : public testing::Test {
 protected:
  std::string refusal(const Model& target) {
    const auto opened = open_head(folder_.write(), target);
    return opened.ok() ? "none" : std::string(opened.status().message());
  }
  EagleFolder folder_;
};

TEST_F(BadEagles, the_golden_one_is_taken) {
  EXPECT_EQ(refusal(target_of()), "none");
}

TEST_F(BadEagles, of_another_target) {
  EXPECT_THAT(refusal(target_of(12)),
              HasSubstr("its states have 8 numbers, but the target's have 12; it was made for "
                        "another target"));
  EXPECT_THAT(refusal(target_of(kHidden, 17)),
              HasSubstr("the head has a vocabulary of 16 tokens, but the target has 17"));
}

TEST_F(BadEagles, whose_norms_are_not_built) {
  folder_.in_config("\"bias\": true", "\"layernorms\": true");
  folder_.in_config("LlamaForCausalLM", "EagleSpeculator");
  EXPECT_THAT(refusal(target_of()), HasSubstr("'layernorms' is true"));
}

TEST_F(BadEagles, without_what_joins_the_halves) {
  folder_.rename("fc.weight", "fx.weight");
  folder_.in_config("LlamaForCausalLM", "LlamaForCausalLMEagle");
  EXPECT_THAT(refusal(target_of()), HasSubstr("tensor 'fc.weight' is missing"));
}

TEST_F(BadEagles, with_a_tensor_that_such_heads_lack) {
  folder_.rename("layers.0.mlp.up_proj", "layers.0.mlp.op_proj");
  EXPECT_THAT(refusal(target_of()), HasSubstr("layers.0.mlp.op_proj.weight' has no place"));
}

}  // namespace
}  // namespace tenon::test
