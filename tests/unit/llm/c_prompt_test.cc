// What <tenon/llm_c.h> says about prompts, and about tokens that could have come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/llm_c.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/unit/llm/c_interface.h"

namespace tenon {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

class Prompts : public testing::Test {
 protected:
  Prompts() { EXPECT_EQ(message(tenon_llm_open(nullptr, &llm_)), ""); }
  explicit Prompts(tenon_llm* llm) : llm_(llm) {}
  ~Prompts() override { EXPECT_EQ(message(tenon_llm_close(llm_)), ""); }

  std::vector<int32_t> encoded() {
    size_t count = 0;
    EXPECT_EQ(message(tenon_llm_encode(llm_, &request_, nullptr, 0, &count)), "");
    std::vector<int32_t> tokens(count);
    EXPECT_EQ(message(tenon_llm_encode(llm_, &request_, tokens.data(), count, &count)), "");
    return tokens;
  }
  std::string refused() {
    size_t count = 0;
    return message(tenon_llm_encode(llm_, &request_, nullptr, 0, &count));
  }
  std::string decoded(const std::vector<int32_t>& tokens, bool special) {
    std::string text(4096, 0);
    size_t bytes = 0;
    EXPECT_EQ(message(tenon_llm_decode(llm_, tokens.data(), tokens.size(), special ? 1 : 0,
                                       text.data(), text.size(), &bytes)),
              "");
    text.resize(bytes);
    return text;
  }

  tenon_llm* llm_ = nullptr;
  tenon_llm_request request_ = sized<tenon_llm_request>();
};

TEST_F(Prompts, a_text_becomes_its_tokens_and_they_become_it_again) {
  request_.text = "Once upon a time";
  EXPECT_EQ(decoded(encoded(), false), request_.text);
}

TEST_F(Prompts, what_does_not_fit_is_counted_and_not_written) {
  request_.text = "Once upon a time";
  const std::vector<int32_t> whole = encoded();
  std::vector<int32_t> part = {-7, -7};
  size_t count = 0;
  EXPECT_EQ(message(tenon_llm_encode(llm_, &request_, part.data(), 1, &count)), "");
  EXPECT_EQ(count, whole.size());
  EXPECT_THAT(part, ElementsAreArray({whole[0], -7}));
}

TEST_F(Prompts, an_id_that_is_none_has_no_text) {
  const int32_t wrong = 1 << 30;
  size_t bytes = 0;
  EXPECT_THAT(message(tenon_llm_decode(llm_, &wrong, 1, 0, nullptr, 0, &bytes)),
              HasSubstr("1073741824"));
}

TEST_F(Prompts, a_conversation_in_json_is_the_one_in_structs) {
  const tenon_llm_message one = {"user", "Tell me a tale."};
  request_.messages = &one;
  request_.message_count = 1;
  const std::vector<int32_t> expected = encoded();
  request_.messages = nullptr;
  request_.message_count = 0;
  request_.conversation = R"([{"role": "user", "content": "Tell me a tale."}])";
  EXPECT_THAT(encoded(), ElementsAreArray(expected));
}

TEST_F(Prompts, what_belongs_to_conversations_is_refused_without_one) {
  request_.text = "Once";
  request_.tools = "[]";
  EXPECT_THAT(refused(), HasSubstr("belong to a conversation"));
  request_.tools = nullptr;
  request_.chat = 4;
  EXPECT_THAT(refused(), HasSubstr("chat is 4"));
  request_.chat = 0;
  request_.conversation = "[]";
  EXPECT_THAT(refused(), HasSubstr("more than one prompt"));
}

TEST_F(Prompts, a_conversation_that_is_no_json_is_refused_with_its_name) {
  request_.conversation = "[{";
  EXPECT_THAT(refused(), HasSubstr("messages"));
}

// The bundled model with a template that shows all that it is given.
class Conversations : public Prompts {
 protected:
  Conversations() : Prompts(nullptr) {
    namespace fs = std::filesystem;
    fs::create_directories(folder_);
    for (const auto& file : fs::directory_iterator(tenon::source_folder() + "/configs/models/tale"))
      if (file.path().extension() != ".jinja")
        fs::create_symlink(file.path(), folder_ / file.path().filename());
    std::ofstream(folder_ / "chat_template.jinja")
        << "{% if tools %}{{ tools[0].function.name }} {% endif %}{% for m in messages %}"
           "{{ m.content }}{% if m.tool_calls %} calls {{ m.tool_calls[0].function.name }}"
           "{% endif %};{% endfor %}{{ mood }}{% if add_generation_prompt %} I say{% endif %}";
    const std::string model = folder_.string();
    tenon_llm_options options = sized<tenon_llm_options>();
    options.model = model.c_str();
    EXPECT_EQ(message(tenon_llm_open(&options, &llm_)), "");
  }
  ~Conversations() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tenon_c_prompt_" + std::to_string(getpid()));
};

TEST_F(Conversations, tools_calls_and_data_reach_the_template) {
  request_.conversation =
      R"([{"role": "user", "content": "go"}, {"role": "assistant", "content": "so",
          "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": "{}"}}]}])";
  request_.tools = R"([{"type": "function", "function": {"name": "look", "parameters": {}}}])";
  request_.template_data = R"({"mood": "well"})";
  EXPECT_EQ(decoded(encoded(), false), "look go;so calls look;well I say");
}

TEST_F(Conversations, a_turn_begins_unless_nobody_wants_it) {
  request_.conversation = R"([{"role": "user", "content": "go"}])";
  EXPECT_EQ(decoded(encoded(), false), "go; I say");
  request_.chat = TENON_LLM_NO_TURN;
  EXPECT_EQ(decoded(encoded(), false), "go;");
}

TEST_F(Conversations, the_last_message_stays_open_where_the_answer_goes_on_from_it) {
  request_.conversation =
      R"([{"role": "user", "content": "go"}, {"role": "assistant", "content": "so"}])";
  request_.chat = TENON_LLM_CONTINUE;
  EXPECT_EQ(decoded(encoded(), false), "go;so");
}

class Alternatives : public Prompts {
 protected:
  // Of a call with these settings, which stays.
  std::string ask(const std::vector<tenon_llm_setting>& settings, size_t index) {
    request_.text = "Once upon a time";
    request_.settings = settings.data();
    request_.setting_count = settings.size();
    EXPECT_EQ(message(tenon_llm_submit(llm_, &request_, &call_)), "");
    request_.setting_count = 0;  // they end with this function
    EXPECT_EQ(message(tenon_llm_call_wait(call_)), "");
    return message(tenon_llm_call_alternatives(call_, index, &found_));
  }
  ~Alternatives() override { EXPECT_EQ(message(tenon_llm_call_release(call_)), ""); }

  tenon_call* call_ = nullptr;
  tenon_llm_alternatives found_ = sized<tenon_llm_alternatives>();
};

TEST_F(Alternatives, the_most_likely_token_is_the_first_and_is_taken_where_nothing_is_drawn) {
  ASSERT_EQ(ask({{"max_tokens", "6"}, {"temperature", "0"}, {"logprobs", "3"}}, 0), "");
  tenon_llm_answer answer = sized<tenon_llm_answer>();
  ASSERT_EQ(message(tenon_llm_call_answer(call_, 0, &answer)), "");
  ASSERT_EQ(found_.width, 3U);
  ASSERT_EQ(found_.positions, answer.token_count);
  for (size_t i = 0; i < found_.positions; ++i) {
    EXPECT_EQ(found_.tokens[i * 3], answer.tokens[i]);
    EXPECT_EQ(found_.candidates[i * 3], found_.logprobs[i]);
    EXPECT_EQ(found_.logprobs[i], answer.logprobs[i]);
    EXPECT_EQ(found_.ranks[i], 1U);
    EXPECT_GE(found_.candidates[i * 3 + 1], found_.candidates[i * 3 + 2]);
  }
}

TEST_F(Alternatives, a_prompt_has_them_from_its_second_token_on) {
  ASSERT_EQ(
      ask({{"max_tokens", "1"}, {"prompt_logprobs", "true"}, {"logprobs", "2"}}, TENON_LLM_PROMPT),
      "");
  EXPECT_EQ(found_.positions + 1, encoded().size());
  EXPECT_EQ(found_.width, 2U);
  EXPECT_LT(found_.logprobs[0], 0.0F);
  EXPECT_TRUE(std::isfinite(found_.candidates[0]));
}

TEST_F(Alternatives, nobody_has_them_who_did_not_ask) {
  EXPECT_THAT(ask({{"max_tokens", "1"}}, 0), HasSubstr("logprobs"));
  EXPECT_THAT(message(tenon_llm_call_alternatives(call_, TENON_LLM_PROMPT, &found_)),
              HasSubstr("prompt_logprobs"));
  EXPECT_THAT(message(tenon_llm_call_alternatives(call_, 3, &found_)), HasSubstr("no answer 3"));
}

}  // namespace
}  // namespace tenon
