// <tenon/llm_c.h> over the bundled pipeline: answers, scores, embeddings, facts.
#include "tests/unit/llm/c_interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tenon {
namespace {

using testing::HasSubstr;

TEST_F(CInterface, streams_what_it_answers) {
  std::string text;
  std::vector<int32_t> ids;
  std::promise<void> ended;
  Listener listener{[&](const tenon_llm_delta& delta) {
                      text.append(delta.text, delta.text_bytes);
                      ids.insert(ids.end(), delta.tokens, delta.tokens + delta.token_count);
                      return 0;
                    },
                    [&] { ended.set_value(); }};
  tenon_call* const call = submitted({kPrompt, kShort, &listener});
  const tenon_llm_answer made = answer(call);
  EXPECT_EQ(made.finish, TENON_LLM_LENGTH);
  EXPECT_EQ(made.token_count, 12u);
  EXPECT_GT(made.prompt_tokens, 0u);
  EXPECT_EQ(made.logprobs, nullptr);
  EXPECT_EQ(made.stop, nullptr);
  EXPECT_EQ(std::string(made.text, made.text_bytes), text);
  EXPECT_EQ(std::vector<int32_t>(made.tokens, made.tokens + made.token_count), ids);
  ended.get_future().wait();
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, many_threads_get_the_same_tokens) {
  const std::vector<int32_t> alone = tokens({kPrompt, kShort});
  std::vector<std::thread> threads;
  std::vector<std::vector<int32_t>> found(8);
  for (auto& place : found) {
    threads.emplace_back([&] { place = tokens({kPrompt, kShort}); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(found, testing::Each(alone));
}

TEST_F(CInterface, a_prompt_may_be_tokens) {
  const std::vector<int32_t> of_text = tokens({kPrompt, kShort});
  Given given("", kShort);
  given.request.text = nullptr;
  const std::vector<int32_t> ids = {1, 2, 3};
  given.request.tokens = ids.data();
  given.request.token_count = ids.size();
  const std::vector<int32_t> first = tokens(given);
  EXPECT_EQ(first.size(), 12u);
  EXPECT_NE(first, of_text);
  EXPECT_EQ(tokens(given), first);
}

TEST_F(CInterface, an_answer_follows_a_grammar) {
  tenon_call* call = submitted({kPrompt, {{"regex", "(red|blue) house"}, {"temperature", "0"}}});
  EXPECT_THAT(answer(call).text,
              testing::AnyOf(testing::StrEq("red house"), testing::StrEq("blue house")));
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, an_answer_ends_before_a_stop) {
  tenon_call* call = submitted({kPrompt, kShort});
  const std::string whole = answer(call).text;
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
  const std::string stop = whole.substr(whole.size() / 2, 3);
  Settings settings = kShort;
  settings.push_back({"stop", stop.c_str()});
  call = submitted({kPrompt, settings});
  const tenon_llm_answer made = answer(call);
  EXPECT_EQ(made.finish, TENON_LLM_STOP);
  EXPECT_EQ(made.stop, stop);
  EXPECT_EQ(made.text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, more_answers_than_one_are_numbered) {
  const Settings settings = {{"samples", "3"}, {"max_tokens", "4"}, {"seed", "7"}};
  tenon_call* const call = submitted({kPrompt, settings});
  EXPECT_EQ(message(tenon_llm_call_wait(call)), "");
  size_t count = 0;
  EXPECT_EQ(message(tenon_llm_call_answer_count(call, &count)), "");
  EXPECT_EQ(count, 3u);
  tenon_llm_answer answer = sized<tenon_llm_answer>();
  EXPECT_EQ(message(tenon_llm_call_answer(call, 2, &answer)), "");
  EXPECT_EQ(answer.token_count, 4u);
  EXPECT_EQ(message(tenon_llm_call_answer(call, 3, &answer)), "there is no answer 3: there are 3");
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, a_score_is_what_an_answer_was_given) {
  const Settings settings = {{"max_tokens", "6"}, {"temperature", "0"}, {"logprobs", "1"}};
  std::vector<int32_t> ids = {1, 2, 3};
  Given asked("", settings);
  asked.request.text = nullptr;
  asked.request.tokens = ids.data();
  asked.request.token_count = ids.size();
  tenon_call* call = submitted(asked);
  const tenon_llm_answer made = answer(call);
  ASSERT_EQ(made.token_count, 6u);
  ASSERT_NE(made.logprobs, nullptr);
  const std::vector<float> given(made.logprobs, made.logprobs + made.token_count);
  ids.insert(ids.end(), made.tokens, made.tokens + made.token_count);
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");

  const Settings none;
  Given score("", none);
  score.request.want = TENON_LLM_SCORE;
  score.request.text = nullptr;
  score.request.tokens = ids.data();
  score.request.token_count = ids.size();
  call = submitted(score);
  EXPECT_EQ(answer(call).text_bytes, 0u);
  const float* values = nullptr;
  size_t count = 0;
  EXPECT_EQ(message(tenon_llm_call_values(call, &values, &count)), "");
  ASSERT_EQ(count, ids.size() - 1);
  for (size_t i = 0; i < given.size(); ++i) EXPECT_NEAR(values[2 + i], given[i], 1e-4f);
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, an_embedding_has_the_length_that_was_asked_for) {
  tenon_llm_facts facts = sized<tenon_llm_facts>();
  EXPECT_EQ(message(tenon_llm_get_facts(llm_, &facts)), "");
  const Settings mean = {{"pooling", "mean"}, {"normalise", "true"}};
  Given given(kPrompt, mean);
  given.request.want = TENON_LLM_EMBEDDING;
  tenon_call* const call = submitted(given);
  EXPECT_EQ(answer(call).finish, TENON_LLM_POOLED);
  const float* values = nullptr;
  size_t count = 0;
  EXPECT_EQ(message(tenon_llm_call_values(call, &values, &count)), "");
  ASSERT_EQ(count, facts.embedding_values);
  float square = 0.0f;
  for (size_t i = 0; i < count; ++i) square += values[i] * values[i];
  EXPECT_NEAR(square, 1.0f, 1e-4f);
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, facts_say_what_runs) {
  tenon_llm_facts facts = sized<tenon_llm_facts>();
  EXPECT_EQ(message(tenon_llm_get_facts(llm_, &facts)), "");
  EXPECT_GT(facts.context_tokens, 0u);
  EXPECT_GT(facts.vocabulary, 0u);
  EXPECT_THAT(facts.model, HasSubstr("models/tale"));
  EXPECT_STRNE(facts.numerics, "");
  EXPECT_EQ(std::string(facts.pipeline_hash).size(), 16u);
}

TEST(Digests, are_there_if_they_were_asked_for_and_equal_for_equal_logits) {
  std::vector<uint64_t> digests;
  for (const uint32_t wanted : {1u, 1u, 0u}) {
    tenon_llm* llm = opened(0, wanted);
    tenon_call* call = nullptr;
    const Given given(kPrompt, kShort);
    ASSERT_EQ(message(tenon_llm_submit(llm, &given.request, &call)), "");
    ASSERT_EQ(message(tenon_llm_call_wait(call)), "");
    tenon_llm_answer answer = sized<tenon_llm_answer>();
    ASSERT_EQ(message(tenon_llm_call_answer(call, 0, &answer)), "");
    digests.push_back(answer.digest);
    EXPECT_EQ(message(tenon_llm_call_release(call)), "");
    EXPECT_EQ(message(tenon_llm_close(llm)), "");
  }
  EXPECT_NE(digests[0], 0u);
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[2], 0u);
}

TEST_F(CInterface, a_conversation_goes_through_the_models_template) {
  const tenon_llm_message turn = {"user", "hello"};
  Given chat(nullptr, kShort);
  chat.request.messages = &turn;
  chat.request.message_count = 1;
  tenon_call* call = submitted(chat);
  const tenon_llm_answer made = answer(call);
  EXPECT_EQ(made.token_count, 12u);
  EXPECT_GT(made.prompt_tokens, 0u);
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
  const tenon_llm_message roleless = {nullptr, "hello"};
  chat.request.messages = &roleless;
  EXPECT_EQ(refused(chat).message, "a role or content of messages is NULL");
}

}  // namespace
}  // namespace tenon
