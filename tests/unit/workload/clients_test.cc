// Traffic of clients that differ, as a workload.
#include "core/workload/clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/workload/workload.h"

namespace tenon {
namespace {

using testing::HasSubstr;

Workload made(const ClientTraffic& traffic) {
  const auto toml = client_workload(traffic);
  EXPECT_TRUE(toml.ok()) << toml.status().message();
  auto workload = parse_workload(*toml, "clients");
  EXPECT_TRUE(workload.ok()) << workload.status().message();
  return workload.ok() ? *std::move(workload) : Workload();
}

std::map<uint32_t, size_t> sent_by(const Workload& workload) {
  std::map<uint32_t, size_t> out;
  for (const WorkloadRequest& request : workload.requests) ++out[request.tenant];
  return out;
}

TEST(ClientWorkload, rates_add_up_and_a_few_clients_send_most) {
  const ClientTraffic traffic{.clients = 30, .rate = 50, .seconds = 200, .skew = 1.2};
  const Workload workload = made(traffic);
  EXPECT_NEAR(static_cast<double>(workload.requests.size()), 50.0 * 200, 600);
  const auto sent = sent_by(workload);
  EXPECT_GT(sent.at(1), workload.requests.size() / 4);
  EXPECT_GT(sent.at(1), 10 * sent.at(20));
  const auto even = sent_by(made({.clients = 30, .rate = 50, .seconds = 200, .skew = 0}));
  EXPECT_LT(even.at(1), 2 * even.at(20));
}

TEST(ClientWorkload, the_same_traffic_is_the_same_file_and_another_seed_another) {
  const ClientTraffic traffic{.clients = 5}, other{.clients = 5, .seed = 2};
  EXPECT_EQ(*client_workload(traffic), *client_workload(traffic));
  EXPECT_NE(*client_workload(traffic), *client_workload(other));
}

TEST(ClientWorkload, an_agents_turns_have_all_before_them_and_share_a_prefix) {
  const Workload workload = made({.clients = 3,
                                  .rate = 3,
                                  .seconds = 100,
                                  .turns = 4,
                                  .prefix_tokens = 1000,
                                  .think_seconds = 5});
  ASSERT_GE(workload.requests.size(), 8u);
  EXPECT_EQ(workload.requests.size() % 4, 0u);
  for (size_t i = 0; i + 1 < 4; ++i) {
    const WorkloadRequest &turn = workload.requests[i], &next = workload.requests[i + 1];
    EXPECT_EQ(turn.drawn.front().tokens, 1000u);
    EXPECT_GT(tokens_of(next.drawn), tokens_of(turn.drawn) + turn.max_tokens);
    EXPECT_EQ(next.arrival_ns - turn.arrival_ns, 5'000'000'000);
  }
}

TEST(ClientWorkload, nothing_and_too_much_are_sentences) {
  const auto none = client_workload({.clients = 1, .rate = 1e-3, .seconds = 1});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no client sends a request"));
  const auto many = client_workload({.clients = 1, .rate = 1e5, .seconds = 1000});
  ASSERT_FALSE(many.ok());
  EXPECT_THAT(std::string(many.status().message()), HasSubstr("a million at most"));
}

}  // namespace
}  // namespace tenon
