// Which of several machines a request goes to, by what they have to do and what was sent where.
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

#include "core/routing/router.h"

namespace tenon {
namespace {

TEST(Routing, least_load_goes_where_fewest_tokens_are) {
  Router router(Routing::least_load, 3);
  const std::vector<TokenId> prompt = {1, 2, 3};
  const MachineLoad loads[] = {{1, 90}, {2, 40}, {1, 60}};
  EXPECT_EQ(router.choose(prompt, loads), 1u);
}

TEST(Routing, round_robin_takes_turns_and_sessions_stay) {
  Router turns(Routing::round_robin, 2), sessions(Routing::session, 5);
  const MachineLoad loads[5] = {};
  const std::vector<TokenId> prompt(80, 7), other(80, 9);
  EXPECT_EQ(turns.choose(prompt, std::span(loads).first(2)), 0u);
  EXPECT_EQ(turns.choose(prompt, std::span(loads).first(2)), 1u);
  EXPECT_EQ(turns.choose(prompt, std::span(loads).first(2)), 0u);
  EXPECT_EQ(sessions.choose(prompt, loads), sessions.choose(prompt, loads));
  EXPECT_NE(sessions.choose(prompt, loads), sessions.choose(other, loads));
}

TEST(Routing, a_prefix_goes_where_it_was_unless_that_machine_has_far_more_to_do) {
  Router router(Routing::prefix, 2);
  std::vector<TokenId> prompt(100);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i);
  const MachineLoad busy_first[] = {{1, 10}, {0, 0}}, idle[] = {{0, 0}, {0, 0}};
  EXPECT_EQ(router.choose(prompt, busy_first), 1u);
  prompt.back() = 500;
  EXPECT_EQ(router.choose(prompt, idle), 1u);
  const MachineLoad far[] = {{1, 1000}, {9, 9000}};
  EXPECT_EQ(router.choose(prompt, far), 0u);
  // Less than half of it is known there.
  std::vector<TokenId> longer = prompt;
  longer.resize(300, 77);
  EXPECT_EQ(router.choose(longer, busy_first), 1u);
  EXPECT_EQ(parse_routing("session"), Routing::session);
  EXPECT_EQ(parse_routing("nearest"), std::nullopt);
}

}  // namespace
}  // namespace tenon
