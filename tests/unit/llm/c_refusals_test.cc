// What <tenon/llm_c.h> says of requests, handles and structs that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/llm/c_interface.h"

namespace tenon {
namespace {

using testing::HasSubstr;

TEST_F(CInterface, what_a_request_gets_wrong_is_named) {
  const auto said = [this](const Settings& settings) { return refused({kPrompt, settings}); };
  EXPECT_THAT(said({{"temprature", "1"}}).message,
              HasSubstr("there is no setting 'temprature' here; did you mean 'temperature'?"));
  EXPECT_THAT(said({{"temperature", "warm"}}).message, HasSubstr("temperature"));
  EXPECT_THAT(said({{"allowed_tokens", "[]"}}).message, HasSubstr("allowed_tokens is empty"));
  for (const char* priority : {"high", "1.5", "", "2147483648"}) {
    EXPECT_THAT(said({{"priority", priority}}).message,
                HasSubstr("it must be a whole number from -2147483648 to 2147483647"));
  }
  EXPECT_THAT(said({{"regex", "("}}).message, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(said({{"regex", "a"}, {"json_object", "true"}}).message, HasSubstr("two forms"));
  EXPECT_THAT(said({{"json_object", "yes"}}).message, HasSubstr("it must be true"));
  EXPECT_THAT(said({{"max_tokens", "0"}}).code, TENON_LLM_INVALID_ARGUMENT);
  EXPECT_THAT(said({{nullptr, "1"}}).message, HasSubstr("is NULL"));

  std::string endless;
  for (int i = 0; i < 20000; ++i) endless += "once upon a time ";
  const Told longer = refused({endless.c_str(), kShort});
  EXPECT_EQ(longer.code, TENON_LLM_INVALID_ARGUMENT);
  EXPECT_THAT(longer.message, HasSubstr("tokens"));

  Given nothing(nullptr, kShort);
  EXPECT_THAT(refused(nothing).message, HasSubstr("there is no prompt"));
  const tenon_llm_message turn = {"user", "hello"};
  Given both(kPrompt, kShort);
  both.request.messages = &turn;
  both.request.message_count = 1;
  EXPECT_THAT(refused(both).message, HasSubstr("more than one prompt"));
  Given embedding(kPrompt, kShort);
  embedding.request.want = TENON_LLM_EMBEDDING;
  EXPECT_THAT(refused(embedding).message, HasSubstr("there is no setting 'max_tokens' here"));
  Given other(kPrompt, kShort);
  other.request.want = 17;
  EXPECT_THAT(refused(other).message, HasSubstr("want is 17"));
}

TEST_F(CInterface, null_is_refused_and_not_followed) {
  const Given good(kPrompt, kShort);
  tenon_call* call = nullptr;
  EXPECT_EQ(message(tenon_llm_open(nullptr, nullptr)), "llm is NULL");
  EXPECT_THAT(message(tenon_llm_close(nullptr)), HasSubstr("is not open"));
  EXPECT_THAT(message(tenon_llm_submit(nullptr, &good.request, &call)), HasSubstr("is not open"));
  EXPECT_EQ(message(tenon_llm_submit(llm_, nullptr, &call)), "the tenon_llm_request is NULL");
  EXPECT_EQ(message(tenon_llm_submit(llm_, &good.request, nullptr)), "call is NULL");
  EXPECT_EQ(message(tenon_llm_get_facts(llm_, nullptr)), "the tenon_llm_facts is NULL");
  EXPECT_THAT(message(tenon_llm_call_wait(nullptr)), HasSubstr("the tenon_call is none"));
  EXPECT_THAT(message(tenon_llm_call_cancel(nullptr)), HasSubstr("the tenon_call is none"));
  EXPECT_EQ(message(tenon_llm_call_release(nullptr)), "");
  EXPECT_EQ(tenon_llm_error_code(nullptr), TENON_LLM_OK);
  EXPECT_STREQ(tenon_llm_error_message(nullptr), "");
  tenon_llm_error_free(nullptr);
  Given counted(nullptr, kShort);
  counted.request.token_count = 3;
  EXPECT_EQ(refused(counted).message, "tokens is NULL");
}

TEST_F(CInterface, structs_of_other_versions_are_taken_as_far_as_they_are_understood) {
  struct Later {
    tenon_llm_request known;
    uint64_t unknown;
  } later{Given(kPrompt, kShort).request, 0};
  later.known.size = sizeof(later);
  tenon_call* call = nullptr;
  EXPECT_EQ(message(tenon_llm_submit(llm_, &later.known, &call)), "");
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
  later.unknown = 1;
  const Told newer = told(tenon_llm_submit(llm_, &later.known, &call));
  EXPECT_EQ(newer.code, TENON_LLM_UNSUPPORTED);
  EXPECT_THAT(newer.message, HasSubstr("does not know"));
  later.known.size = 4;
  EXPECT_THAT(message(tenon_llm_submit(llm_, &later.known, &call)), HasSubstr("has 4 bytes"));
  struct LaterFacts {
    tenon_llm_facts known;
    uint64_t unknown;
  } facts{{}, 7};
  facts.known.size = sizeof(facts);
  EXPECT_EQ(message(tenon_llm_get_facts(llm_, &facts.known)), "");
  EXPECT_EQ(facts.unknown, 0u);
  EXPECT_GT(facts.known.vocabulary, 0u);
}

}  // namespace
}  // namespace tenon
