// <tenon/llm_c.h> over the bundled pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/llm_c.h>

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace {

using testing::HasSubstr;

// What is wrong, and which of the codes; empty and 0 where nothing is.
struct Told {
  int32_t code;
  std::string message;
};
Told told(tenon_llm_error* error) {
  Told told{tenon_llm_error_code(error), tenon_llm_error_message(error)};
  tenon_llm_error_free(error);
  return told;
}
std::string message(tenon_llm_error* error) {
  return told(error).message;
}

// Zero but for its size.
template <typename T>
T sized() {
  T made{};
  made.size = sizeof(T);
  return made;
}

using Settings = std::vector<tenon_llm_setting>;
const Settings kShort = {{"max_tokens", "12"}, {"temperature", "0"}};
// As long as it likes, until somebody ends it.
const Settings kLong = {{"max_tokens", "200"}, {"temperature", "0"}, {"ignore_eos", "true"}};

struct Listener {
  std::function<int32_t(const tenon_llm_delta&)> on_delta = [](const auto&) { return 0; };
  std::function<void()> on_end = [] {};
};

struct Given {
  tenon_llm_request request = sized<tenon_llm_request>();
  Given(const char* text, const Settings& settings, Listener* listener = nullptr) {
    request.text = text;
    request.settings = settings.data();
    request.setting_count = settings.size();
    if (listener == nullptr) return;
    request.user = listener;
    request.on_delta = [](void* user, const tenon_llm_delta* delta) {
      return static_cast<Listener*>(user)->on_delta(*delta);
    };
    request.on_end = [](void* user) { static_cast<Listener*>(user)->on_end(); };
  }
};

tenon_llm* opened(uint32_t max_calls = 0, uint32_t digests = 0) {
  tenon_llm_options options = sized<tenon_llm_options>();
  options.threads = 2;
  options.max_calls = max_calls;
  options.digests = digests;
  tenon_llm* llm = nullptr;
  EXPECT_EQ(message(tenon_llm_open(&options, &llm)), "");
  return llm;
}

class CInterface : public testing::Test {
 protected:
  ~CInterface() override { (void)told(tenon_llm_close(llm_)); }

  tenon_call* submitted(const Given& given) {
    tenon_call* call = nullptr;
    EXPECT_EQ(message(tenon_llm_submit(llm_, &given.request, &call)), "");
    return call;
  }
  Told refused(const Given& given) {
    tenon_call* call = nullptr;
    return told(tenon_llm_submit(llm_, &given.request, &call));
  }
  static tenon_llm_answer answer(tenon_call* call) {
    EXPECT_EQ(message(tenon_llm_call_wait(call)), "");
    tenon_llm_answer answer = sized<tenon_llm_answer>();
    EXPECT_EQ(message(tenon_llm_call_answer(call, 0, &answer)), "");
    return answer;
  }
  std::vector<int32_t> tokens(const Given& given) {
    tenon_call* const call = submitted(given);
    const tenon_llm_answer made = answer(call);
    std::vector<int32_t> all(made.tokens, made.tokens + made.token_count);
    EXPECT_EQ(message(tenon_llm_call_release(call)), "");
    return all;
  }

  tenon_llm* llm_ = opened();
};

constexpr const char* kPrompt = "Once upon a time";

// A call whose first piece arrived, and that goes on once `let_go` is called.
struct Held {
  std::promise<void> arrived, free;
  std::shared_future<void> freed = free.get_future().share();
  bool first = true;
  std::atomic<int> pieces = 0;
  Listener listener{[this](const tenon_llm_delta&) {
                      ++pieces;
                      if (first) {
                        first = false;
                        arrived.set_value();
                        freed.wait();
                      }
                      return 0;
                    },
                    [] {}};
  void await() { arrived.get_future().wait(); }
  void let_go() { free.set_value(); }
};

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

TEST_F(CInterface, a_call_is_cancelled_from_another_thread) {
  Held held;
  tenon_call* const call = submitted({kPrompt, kLong, &held.listener});
  held.await();
  EXPECT_EQ(message(tenon_llm_call_cancel(call)), "");
  held.let_go();
  const tenon_llm_answer made = answer(call);
  EXPECT_EQ(made.finish, TENON_LLM_CANCELLED);
  EXPECT_LT(made.token_count, 200u);
  EXPECT_GT(made.token_count, 0u);
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, a_callback_that_wants_no_more_cancels_its_call) {
  Listener listener{[](const tenon_llm_delta&) { return 1; }, [] {}};
  tenon_call* const call = submitted({kPrompt, kLong, &listener});
  EXPECT_EQ(answer(call).finish, TENON_LLM_CANCELLED);
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, a_released_call_is_not_heard_of_again) {
  Held held;
  tenon_call* const call = submitted({kPrompt, kLong, &held.listener});
  held.await();
  std::thread releasing([&] { EXPECT_EQ(message(tenon_llm_call_release(call)), ""); });
  held.let_go();
  releasing.join();
  const int pieces = held.pieces;
  (void)tokens({kPrompt, kShort});  // the engine has been through more steps by then
  EXPECT_EQ(held.pieces, pieces);
}

TEST_F(CInterface, a_callback_may_release_its_own_call) {
  std::promise<tenon_call*> handle;
  std::promise<std::string> said;
  Listener listener;
  listener.on_delta = [&, future = handle.get_future().share(),
                       first = true](const tenon_llm_delta&) mutable {
    EXPECT_TRUE(first) << "a released call was heard of again";
    first = false;
    said.set_value(message(tenon_llm_call_release(future.get())));
    return 0;
  };
  handle.set_value(submitted({kPrompt, kLong, &listener}));
  EXPECT_EQ(said.get_future().get(), "");
  (void)tokens({kPrompt, kShort});
}

TEST_F(CInterface, callbacks_submit_but_do_not_wait_for_themselves) {
  std::promise<tenon_call*> inner, handle;
  std::string closing, waiting;
  Listener listener;
  listener.on_delta = [&, future = handle.get_future().share(),
                       first = true](const tenon_llm_delta&) mutable {
    if (!first) return 0;
    first = false;
    closing = message(tenon_llm_close(llm_));
    waiting = message(tenon_llm_call_wait(future.get()));
    inner.set_value(submitted({kPrompt, kShort}));
    return 0;
  };
  tenon_call* const call = submitted({kPrompt, kShort, &listener});
  handle.set_value(call);
  tenon_call* const second = inner.get_future().get();
  EXPECT_EQ(answer(second).token_count, 12u);
  EXPECT_EQ(answer(call).token_count, 12u);
  EXPECT_THAT(closing, HasSubstr("closes its own pipeline"));
  EXPECT_THAT(waiting, HasSubstr("waits for a call of its own pipeline"));
  EXPECT_EQ(message(tenon_llm_call_release(second)), "");
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, closing_cancels_what_runs_and_keeps_what_there_is) {
  Held held;
  tenon_call* const call = submitted({kPrompt, kLong, &held.listener});
  held.await();
  std::thread closing([&] { EXPECT_EQ(message(tenon_llm_close(llm_)), ""); });
  // What is refused in any case is refused for another reason once calls are cancelled.
  const Given nothing(nullptr, kShort);
  while (refused(nothing).message != "the pipeline is closed") std::this_thread::yield();
  held.let_go();
  closing.join();
  EXPECT_EQ(answer(call).finish, TENON_LLM_CANCELLED);
  EXPECT_EQ(message(tenon_llm_call_cancel(call)), "") << "one that has ended stays as it is";
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, no_more_calls_run_than_there_is_room_for) {
  EXPECT_EQ(message(tenon_llm_close(llm_)), "");
  llm_ = opened(1);
  Held held;
  tenon_call* const call = submitted({kPrompt, kLong, &held.listener});
  held.await();
  const Told busy = refused({kPrompt, kShort});
  EXPECT_EQ(busy.code, TENON_LLM_BUSY);
  EXPECT_THAT(busy.message, HasSubstr("try again later"));
  EXPECT_EQ(message(tenon_llm_call_cancel(call)), "");
  held.let_go();
  EXPECT_EQ(message(tenon_llm_call_wait(call)), "");
  EXPECT_EQ(tokens({kPrompt, kShort}).size(), 12u);
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
}

TEST_F(CInterface, handles_that_were_given_back_are_refused) {
  tenon_call* const call = submitted({kPrompt, kShort});
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
  EXPECT_THAT(message(tenon_llm_call_release(call)), HasSubstr("it was released"));
  EXPECT_THAT(message(tenon_llm_call_wait(call)), HasSubstr("it was released"));
  EXPECT_THAT(message(tenon_llm_call_cancel(call)), HasSubstr("it was released"));
  EXPECT_EQ(message(tenon_llm_close(llm_)), "");
  EXPECT_THAT(message(tenon_llm_close(llm_)), HasSubstr("it was closed"));
  const Told after = refused({kPrompt, kShort});
  EXPECT_EQ(after.code, TENON_LLM_INVALID_ARGUMENT);
  EXPECT_THAT(after.message, HasSubstr("it was closed"));
  tenon_llm_facts facts = sized<tenon_llm_facts>();
  EXPECT_THAT(message(tenon_llm_get_facts(llm_, &facts)), HasSubstr("it was closed"));
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

TEST_F(CInterface, results_are_asked_for_after_the_end) {
  Held held;
  tenon_call* const call = submitted({kPrompt, kLong, &held.listener});
  held.await();
  size_t count = 0;
  EXPECT_EQ(message(tenon_llm_call_answer_count(call, &count)),
            "the call has not ended – wait for it");
  EXPECT_EQ(message(tenon_llm_call_cancel(call)), "");
  held.let_go();
  EXPECT_EQ(message(tenon_llm_call_wait(call)), "");
  const float* values = nullptr;
  EXPECT_EQ(message(tenon_llm_call_values(call, &values, &count)),
            "the call is for an answer, which has no values");
  EXPECT_EQ(message(tenon_llm_call_release(call)), "");
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
