#include "core/routing/router.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace tenon {
namespace {

std::vector<TokenId> tokens_from(TokenId first, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(RouterTest, machines_that_are_out_get_nothing_by_any_routing) {
  const MachineLoad loads[] = {{0, 0, true}, {9, 90'000}, {0, 0, true}};
  const std::vector<TokenId> prompt = tokens_from(0, 100);
  for (const Routing routing :
       {Routing::round_robin, Routing::least_load, Routing::prefix, Routing::session}) {
    Router router(routing, 3);
    if (routing == Routing::prefix) router.note_sent(prompt, 0);
    for (int turn = 0; turn < 4; ++turn) {
      EXPECT_EQ(router.choose(prompt, loads), 1u) << routing_name(routing);
    }
  }
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(Router::of_session(name, loads), 1u);
}

TEST(RouterTest, of_a_lost_machine_the_sessions_move_and_all_others_stay) {
  MachineLoad loads[4] = {};
  std::set<size_t> used;
  std::vector<size_t> before;
  for (int i = 0; i < 200; ++i) {
    before.push_back(Router::of_session("session " + std::to_string(i), loads));
    used.insert(before.back());
  }
  EXPECT_EQ(used.size(), 4u);
  loads[2].out = true;
  for (int i = 0; i < 200; ++i) {
    const size_t now = Router::of_session("session " + std::to_string(i), loads);
    EXPECT_NE(now, 2u);
    if (before[i] == 2) continue;
    EXPECT_EQ(now, before[i]) << i;
  }
}

TEST(RouterTest, prompts_of_another_salt_have_no_beginning_in_common) {
  Router router(Routing::prefix, 2);
  const MachineLoad busy_first[] = {{1, 10}, {0, 0}}, busy_second[] = {{0, 0}, {1, 10}};
  const std::vector<TokenId> prompt = tokens_from(0, 64);
  EXPECT_EQ(router.choose(prompt, busy_first, 7), 1u);
  EXPECT_EQ(router.choose(prompt, busy_second, 8), 0u);
  EXPECT_EQ(router.choose(prompt, busy_second, 7), 1u);
}

TEST(RouterTest, a_prompt_that_was_sent_for_another_reason_counts) {
  Router router(Routing::prefix, 2);
  const MachineLoad idle[2] = {};
  const std::vector<TokenId> prompt = tokens_from(0, 64);
  router.note_sent(prompt, 1);
  EXPECT_EQ(router.choose(prompt, idle), 1u);
}

TEST(RouterTest, of_very_many_blocks_the_latest_are_remembered) {
  Router router(Routing::prefix, 2, 64);
  const MachineLoad idle[2] = {};
  router.note_sent(tokens_from(0, 64), 1);
  EXPECT_EQ(router.choose(tokens_from(0, 64), idle), 1u);
  for (TokenId first = 1000; first < 8000; first += 64) {
    router.note_sent(tokens_from(first, 64), 1);
  }
  EXPECT_EQ(router.choose(tokens_from(0, 64), idle), 0u);  // forgotten
  EXPECT_EQ(router.choose(tokens_from(7976 - 7976 % 64 + 1000 % 64, 64), idle), 1u);
}

}  // namespace
}  // namespace tenon
