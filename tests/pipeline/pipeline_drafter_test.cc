#include <filesystem>

#include "tests/pipeline/pipeline_fixture.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(PipelineTest, creates_a_drafter_that_gets_what_it_needs) {
  const auto pipeline = built(kRef, {"drafter.plugin=rewinder"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_TRUE(pipeline->drafter);
  EXPECT_EQ(pipeline->facts.find("sampler.verify")->word, "exact");
  EXPECT_NE(built(kRef, {"drafter.plugin=hidden_reader"}), nullptr);
}

TEST_F(PipelineTest, refuses_a_drafter_that_needs_what_nobody_gives) {
  EXPECT_THAT(error_of(kRef, {"drafter.plugin=foreseer"}),
              HasSubstr("engine \"tenon\" and drafter \"foreseer\" do not fit"));
}

std::string second_model(const char* folder) {
  return "drafter.model=" + source_folder() + "/" + folder;
}

TEST_F(PipelineTest, runs_a_second_model_in_groups_of_the_same_memory) {
  const auto pipeline = built(kRef, {"drafter.plugin=draft_model", "limits.max_sequences=2",
                                     second_model("configs/models/tale-draft")});
  ASSERT_NE(pipeline, nullptr);
  ASSERT_NE(pipeline->second, nullptr);
  EXPECT_EQ(pipeline->geometry.group_count, 2u);
  EXPECT_EQ(pipeline->kv_shape().groups[0].owner, KvOwner::target);
  EXPECT_EQ(pipeline->kv_shape().groups[1].owner, KvOwner::draft);
  EXPECT_EQ(pipeline->kv_shape().layer_count, 6u + 2u);
  EXPECT_EQ(pipeline->kv_shape().layers[6].group, 1u);
  // 2 layers, 1 KV head of 64.
  EXPECT_EQ(pipeline->geometry.groups[1].bytes_per_token, 2u * 2 * 64 * 4);
  EXPECT_EQ(pipeline->geometry.groups[0].blocks, pipeline->geometry.groups[1].blocks);
  EXPECT_EQ(pipeline->second->executor->kv_bytes(), pipeline->geometry.groups[1].bytes_per_token *
                                                        16 * pipeline->geometry.groups[1].blocks);
  EXPECT_EQ(pipeline->parts().draft_runner, pipeline->second->runner.get());
  EXPECT_FALSE(pipeline->parts().verify_by_rejection);
}

TEST_F(PipelineTest, verifies_by_rejection_where_that_is_configured) {
  const auto pipeline = built(kRef, {"drafter.plugin=rewinder", "drafter.verify=rejection"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_TRUE(pipeline->parts().verify_by_rejection);
}

TEST_F(PipelineTest, refuses_second_models_that_do_not_speak_the_same_vocabulary) {
  EXPECT_THAT(error_of(kRef, {"drafter.plugin=draft_model",
                              second_model("tests/golden/models/llama_tied")}),
              StartsWith("--set: the second model has a vocabulary of 99 tokens, but the model has "
                         "4096; drafts need the same vocabulary"));
  EXPECT_THAT(error_of(kRef, {"drafter.plugin=draft_model", second_model("no/such/folder")}),
              StartsWith("--set: "));
}

// A folder of weights alone is taken; what is there has to be whole.
TEST_F(PipelineTest, refuses_second_models_whose_tokenizer_is_damaged) {
  for (const char* name : {"tale-eagle3", "tale-draft"}) {
    const std::string from = source_folder() + "/configs/models/" + name + "/";
    const TemporaryFolder folder;
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::create_symlink(from + file, folder.path() + "/" + file);
    }
    const std::string plugin = name == std::string("tale-draft") ? "draft_model" : "eagle3";
    const std::vector<std::string> overrides = {"drafter.plugin=" + plugin,
                                                "drafter.model=" + folder.path()};
    // A head's drafter is not among these plugins, which is said later.
    EXPECT_THAT(error_of(kRef, overrides), Not(HasSubstr("tokenizer"))) << name;

    const std::string file = folder.path() + "/tokenizer.json";
    std::filesystem::copy_file(source_folder() + "/configs/models/tale/tokenizer.json", file);
    EXPECT_THAT(error_of(kRef, overrides), Not(HasSubstr("tokenizer"))) << name;
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    EXPECT_THAT(error_of(kRef, overrides),
                AllOf(StartsWith("--set: the second model's tokenizer: "), HasSubstr(file)));
    std::filesystem::remove(file);
    std::filesystem::create_symlink(folder.path() + "/nothing", file);
    EXPECT_THAT(error_of(kRef, overrides), StartsWith("--set: the second model's tokenizer: "));
  }
}

TEST_F(PipelineTest, wants_a_second_model_for_a_drafter_that_runs_one_and_for_no_other) {
  EXPECT_EQ(
      error_of(kRef, {"drafter.plugin=draft_model"}),
      "--set: drafter \"draft_model\" runs a second model, but none is configured; set "
      "drafter.model to the folder of a smaller model with the same vocabulary, or of a head that "
      "was made for this model");
  EXPECT_EQ(
      error_of(kRef, {"drafter.plugin=rewinder", second_model("configs/models/tale-draft")}),
      "--set: drafter.model is set, but drafter \"rewinder\" runs no second model; remove it");
}

TEST_F(PipelineTest, refuses_a_text_that_cannot_be_read_or_that_no_drafter_looks_in) {
  EXPECT_THAT(error_of(kRef, {"drafter.plugin=rewinder", "drafter.text=no/such/file"}),
              StartsWith("--set: drafter.text: "));
  EXPECT_EQ(
      error_of(kRef, {"drafter.plugin=rewinder", "drafter.text=" + source_folder() + "/README.md"}),
      "--set: drafter.text is set, but drafter 'rewinder' looks in no text; remove it");
  EXPECT_EQ(error_of(kRef, {"drafter.text=README.md"}),
            "--set: 'drafter.text' is set, but there is no drafter; set drafter.plugin too");
}

TEST_F(PipelineTest, refuses_a_second_model_where_the_executor_runs_only_one) {
  EXPECT_THAT(
      error_of(kAsking, {"drafter.plugin=draft_model", second_model("configs/models/tale-draft")}),
      HasSubstr("executor 'asking' cannot run a second model"));
}

}  // namespace
}  // namespace tenon
