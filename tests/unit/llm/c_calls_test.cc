// The lives of calls in <tenon/llm_c.h>: cancelled, released, closed, heard of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/llm/c_interface.h"

namespace tenon {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace tenon
