// <tenon/llm.h> over the bundled pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/llm.h>

#include <numeric>

namespace {

using namespace tenon::llm;
using testing::HasSubstr;

const Settings kShort = {{"max_tokens", "12"}, {"temperature", "0"}};

Pipeline opened() {
  Options options;
  options.threads = 2;
  auto pipeline = Pipeline::open(options);
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  return std::move(*pipeline);
}

TEST(Llm, generates_what_it_streams) {
  Pipeline pipeline = opened();
  std::string text;
  const auto answer = pipeline.generate("Once upon a time", kShort, [&](const Delta& delta) {
    text += delta.text;
    return true;
  });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->tokens.size(), 12u);
  EXPECT_EQ(answer->finish, Finish::length);
  EXPECT_EQ(answer->text, text);
}

TEST(Llm, calls_run_together_and_can_be_moved) {
  Pipeline first = opened();
  Pipeline pipeline = std::move(first);
  std::vector<Call> calls;
  for (int i = 0; i < 4; ++i) {
    auto call = pipeline.submit("Once upon a time", kShort, [](const Delta&) { return true; });
    ASSERT_TRUE(call) << call.error().message;
    calls.push_back(std::move(*call));
  }
  std::vector<std::vector<int32_t>> tokens;
  for (Call& call : calls) {
    auto answers = call.wait();
    ASSERT_TRUE(answers) << answers.error().message;
    tokens.push_back(answers->front().tokens);
  }
  EXPECT_THAT(tokens, testing::Each(tokens.front()));
}

TEST(Llm, a_callback_that_says_false_cancels) {
  Pipeline pipeline = opened();
  const auto answer =
      pipeline.generate("Once upon a time", {{"max_tokens", "200"}, {"ignore_eos", "true"}},
                        [](const Delta&) { return false; });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->finish, Finish::cancelled);
}

TEST(Llm, a_call_may_outlive_its_pipeline) {
  Result<Call> call = Error{};
  {
    Pipeline pipeline = opened();
    call = pipeline.submit("Once upon a time", {{"max_tokens", "200"}, {"ignore_eos", "true"}});
    ASSERT_TRUE(call);
  }
  const auto answers = call->wait();
  ASSERT_TRUE(answers) << answers.error().message;
  EXPECT_EQ(answers->size(), 1u);
}

TEST(Llm, embeds_and_scores) {
  Pipeline pipeline = opened();
  const auto vector = pipeline.embed("a dog", {{"normalise", "true"}});
  ASSERT_TRUE(vector) << vector.error().message;
  EXPECT_NEAR(std::inner_product(vector->begin(), vector->end(), vector->begin(), 0.0f), 1.0f,
              1e-4f);
  const auto likely = pipeline.score("Once upon a time");
  const auto unlikely = pipeline.score("time a upon Once");
  ASSERT_TRUE(likely) << likely.error().message;
  ASSERT_TRUE(unlikely) << unlikely.error().message;
  EXPECT_GT(std::accumulate(likely->begin(), likely->end(), 0.0f),
            std::accumulate(unlikely->begin(), unlikely->end(), 0.0f));
}

TEST(Llm, errors_are_values) {
  Options options;
  options.model = "/nowhere/model";
  const auto none = Pipeline::open(options);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("/nowhere/model"));
  Pipeline pipeline = opened();
  const auto refused = pipeline.generate("Once", {{"top_k", "many"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
}

TEST(Llm, answers_conversations) {
  Pipeline pipeline = opened();
  const auto answer = pipeline.generate(std::vector<Message>{{"user", "hello"}}, kShort);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->tokens.size(), 12u);
}

}  // namespace
