// Calls that a manager allows after a step that is not done yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include "tests/support/attention/kv_case.h"
#include "tests/support/attention/kv_world.h"

namespace tenon {
namespace {

class PagedInFlight : public test::KvCase {
 protected:
  PagedInFlight() : KvCase("paged") {}
};

TEST_F(PagedInFlight, keeps_the_slots_of_a_step_in_flight_while_the_one_before_it_is_resolved) {
  bind(4, 10);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 6).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  ASSERT_TRUE(plan(1, 6, 7).ok());
  const std::vector<BlockId> planned = table(1);
  ASSERT_TRUE(settle(1, 0, 6, 1).ok());
  EXPECT_EQ(table(1), planned);
  EXPECT_EQ(usage().used_tokens, 6u);
  ASSERT_TRUE(kv().step_done(1).ok());
  ASSERT_TRUE(settle(1, 6, 1).ok());
  EXPECT_EQ(usage().used_tokens, 7u);
}

TEST_F(PagedInFlight, takes_back_a_plan_behind_a_step_in_flight) {
  bind(4, 10);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 8).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  ASSERT_TRUE(plan(1, 8, 9, 4).ok());
  EXPECT_EQ(table(1).size(), 4u);
  ASSERT_TRUE(kv().trim(1, 0).ok());
  EXPECT_EQ(table(1).size(), 2u) << "what is in flight stays";
  EXPECT_TRUE(settle(1, 0, 8).ok());
}

TEST_F(PagedInFlight, hands_out_what_a_step_in_flight_holds_only_when_it_is_done) {
  bind(4, 3);
  begin(1);
  begin(2);
  ASSERT_TRUE(plan(1, 0, 8).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  ASSERT_TRUE(plan(1, 8, 9).ok());
  ASSERT_TRUE(release(1).ok());  // cancelled while both are under way
  EXPECT_EQ(plan(2, 0, 1).code(), StatusCode::out_of_kv);
  ASSERT_TRUE(kv().step_done(1).ok());
  EXPECT_EQ(plan(2, 0, 1).code(), StatusCode::out_of_kv);
  ASSERT_TRUE(kv().step_done(2).ok());
  EXPECT_TRUE(plan(2, 0, 12).ok());
}

TEST_F(PagedInFlight, leaves_in_a_window_what_a_step_in_flight_sees) {
  bind(2, 20, 4);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 8).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  ASSERT_TRUE(plan(1, 8, 16).ok());
  ASSERT_TRUE(settle(1, 0, 8, 8).ok());
  EXPECT_EQ(gone(1), 2u) << "the row at position 8 sees 5 to 8";
  ASSERT_TRUE(settle(1, 8, 8).ok());
  EXPECT_EQ(gone(1), 6u);
}

TEST_F(PagedInFlight, says_what_is_wrong_with_a_plan_behind_a_step_in_flight) {
  bind(4, 10);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 6).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  EXPECT_EQ(plan(1, 0, 3).message(),
            "sequence 1 asked for tokens behind 0 – a step in flight computes them, up to 6");
  ASSERT_TRUE(plan(1, 6, 8).ok());
  EXPECT_EQ(settle(1, 0, 6, 3).message(),
            "sequence 1 cannot keep 6 tokens behind 0 and 3 in flight – it has 0 and slots for 8");
  EXPECT_FALSE(settle(1, 6, 2).ok()) << "steps are resolved in their order";
}

}  // namespace
}  // namespace tenon
