// What tenon_llm_open of <tenon/llm_c.h> takes and refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/llm_c.h>

#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/unit/llm/c_interface.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Opening : public testing::Test {
 protected:
  Told refused() {
    tenon_llm* llm = nullptr;
    const Told why = told(tenon_llm_open(&options_, &llm));
    EXPECT_EQ(llm, nullptr);
    return why;
  }
  tenon_llm_options options_ = {
      sizeof(tenon_llm_options), 0, 0, 0, nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0, 0, 0};
};

TEST_F(Opening, a_file_that_is_missing_is_named) {
  options_.config = "/nowhere/pipeline.toml";
  EXPECT_THAT(refused().message, HasSubstr("/nowhere/pipeline.toml"));
}

TEST_F(Opening, a_number_that_is_no_answer_to_whether_is_named) {
  options_.digests = 2;
  EXPECT_THAT(refused().message, HasSubstr("digests is 2 – it must be 0 or 1"));
  options_.digests = 0;
  options_.reserved_too = 1;
  EXPECT_THAT(refused().message, HasSubstr("reserved is not 0"));
}

TEST_F(Opening, a_model_that_is_missing_is_named) {
  options_.model = "/nowhere/model";
  EXPECT_THAT(refused().message, HasSubstr("/nowhere/model"));
}

TEST_F(Opening, every_fault_of_a_text_is_told_with_its_place) {
  options_.config_text = "format = 1\n[scheduler]\nplugin = 3\n[kv_cash]\nplugin = 'paged'\n";
  const Told why = refused();
  EXPECT_EQ(why.code, TENON_LLM_INVALID_ARGUMENT);
  EXPECT_THAT(why.message, AllOf(HasSubstr("pipeline:3"), HasSubstr("pipeline:4")));
}

TEST_F(Opening, an_override_that_is_none_is_named) {
  const char* overrides[] = {"scheduler.plugin=nobodys"};
  options_.overrides = overrides;
  options_.override_count = 1;
  EXPECT_THAT(refused().message, HasSubstr("nobodys"));
  overrides[0] = nullptr;
  EXPECT_THAT(refused().message, HasSubstr("a text of overrides is NULL"));
  options_.overrides = nullptr;
  EXPECT_THAT(refused().message, HasSubstr("overrides is NULL"));
}

TEST_F(Opening, a_pipeline_is_one_file_or_one_text) {
  options_.config = "a.toml";
  options_.config_text = "format = 1\n";
  EXPECT_THAT(refused().message, HasSubstr("both config and config_text"));
}

TEST_F(Opening, a_text_composes_as_a_file_does) {
  const std::string text = "format = 1\n[model]\npath = '" + tenon::source_folder() +
                           "/configs/models/tale'\n[executor]\nplugin = 'ref'\nthreads = 2\n"
                           "[scheduler]\nplugin = 'static'\n[kv_cache]\nplugin = 'naive'\n"
                           "[sampler]\nplugin = 'standard'\n";
  options_.config_text = text.c_str();
  std::vector<std::string> lines;
  tenon_llm_set_log(
      2,
      [](void* user, int32_t level, const char* component, const char* line) {
        EXPECT_EQ(level, 2);
        static_cast<std::vector<std::string>*>(user)->push_back(component + std::string(": ") +
                                                                line);
      },
      &lines);
  tenon_llm* llm = nullptr;
  EXPECT_EQ(message(tenon_llm_open(&options_, &llm)), "");
  tenon_llm_set_log(2, nullptr, nullptr);
  EXPECT_THAT(lines, testing::Contains(HasSubstr("executor.threads is set")));
  EXPECT_EQ(message(tenon_llm_close(llm)), "");
}

TEST_F(Opening, a_model_without_a_template_answers_no_conversation) {
  const std::string model = tenon::source_folder() + "/configs/models/tale-draft";
  options_.model = model.c_str();
  options_.threads = 2;
  tenon_llm* llm = nullptr;
  ASSERT_EQ(message(tenon_llm_open(&options_, &llm)), "");
  const tenon_llm_message turn = {"user", "hello"};
  tenon_llm_request request{};
  request.size = sizeof(request);
  request.messages = &turn;
  request.message_count = 1;
  tenon_call* call = nullptr;
  const Told why = told(tenon_llm_submit(llm, &request, &call));
  EXPECT_EQ(why.code, TENON_LLM_UNSUPPORTED);
  EXPECT_THAT(why.message, HasSubstr("no chat template"));
  EXPECT_EQ(message(tenon_llm_close(llm)), "");
}

TEST(Version, is_that_of_the_header) {
  EXPECT_EQ(tenon_llm_abi(), uint32_t{TENON_LLM_ABI});
  EXPECT_STRNE(tenon_llm_version(), "");
}

}  // namespace
}  // namespace tenon
