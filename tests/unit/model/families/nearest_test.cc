// What is said of models that no family runs, and reading them as one all the same.
#include "core/model/families/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/files/mapped_file.h"
#include "core/base/log.h"
#include "core/model/config/model_config.h"
#include "core/model/model.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Nearest, an_unknown_model_is_refused_with_what_differs) {
  EXPECT_THAT(refusal(R"({"model_type":"baichuan"})"),
              HasSubstr("model_type 'baichuan' is not built; the nearest family that runs is "
                        "'llama', but this is another: its files have other names"));
  EXPECT_THAT(nearest_family("t5"), HasSubstr(": it is an encoder with a decoder"));
}

TEST(Nearest, families_that_a_message_names_run) {
  for (const char* name :
       {"baichuan", "deepseek_v4", "gptj", "internlm2", "opt", "phimoe", "zamba"}) {
    const std::string told = nearest_family(name);
    const size_t begin = told.find('\'') + 1;
    EXPECT_NE(find_family(told.substr(begin, told.find('\'', begin) - begin)), nullptr) << told;
  }
}

TEST(Nearest, a_name_that_nobody_knows_is_compared_by_its_letters) {
  EXPECT_THAT(nearest_family("llamafile"), HasSubstr("by its name the nearest family that runs is "
                                                     "'llama'. If the arithmetic is the same, "
                                                     "--as llama reads it as one"));
  EXPECT_THAT(nearest_family("zzz"), HasSubstr(", and no family that runs has a name like it"));
  EXPECT_THAT(nearest_family(""), HasSubstr("no family that runs has a name like it"));
}

// A golden Llama whose config says another name.
class ReadAs : public testing::Test {
 protected:
  ReadAs() {
    const std::string golden = golden_models() + "llama_gqa/";
    config_ = *read_text_file(golden + "config.json");
    config_.replace(config_.find("\"llama\""), 7, "\"lama2\"");
    folder_.write_file("model.safetensors",
                       *read_text_file(golden + "model.safetensors", size_t{1} << 20));
    folder_.write_file("config.json", config_);
  }
  std::string config_;
  TemporaryFolder folder_;
};

TEST_F(ReadAs, a_folder_of_another_name_opens_as_a_family_on_demand_and_with_a_warning) {
  EXPECT_THAT(std::string(open_model(folder_.path()).status().message()),
              HasSubstr("model_type 'lama2' is not built"));
  std::string told;
  set_log_sink([&](LogLevel, std::string_view, std::string_view text) { told += text; });
  const auto model = open_model(folder_.path(), "llama");
  set_log_sink({});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->plan.architecture, "llama");
  EXPECT_THAT((*model)->config_json, Not(HasSubstr("lama2")));
  EXPECT_THAT(told, HasSubstr("model_type \"lama2\" is read as 'llama', as model.as says"));
}

TEST_F(ReadAs, what_runs_as_it_is_and_what_is_no_family_are_refused) {
  const auto refusal = [](const std::string& config, std::string_view as) {
    const auto read = read_config_as(config, as, "c.json");
    return read.ok() ? "none" : std::string(read.status().message());
  };
  EXPECT_THAT(refusal(config_, "lamma"), HasSubstr("model.as is 'lamma', which is no family"));
  EXPECT_THAT(refusal(R"({"model_type":"qwen2"})", "llama"),
              HasSubstr("c.json: model_type 'qwen2' runs as what it is; model.as is 'llama'"));
  EXPECT_THAT(refusal(R"({"model_type":"llava"})", "llama"), HasSubstr("runs as what it is"));
  EXPECT_THAT(refusal(R"({"model_type":"x","clip_qkv":3.0})", "llama"),
              HasSubstr("'clip_qkv' is 3.0; clipped q, k and v is not built"));
}

}  // namespace
}  // namespace tenon
