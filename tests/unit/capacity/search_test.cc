// The search for the fewest replicas that hold a goal, given probes that follow a formula.
#include "core/capacity/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/capacity/plan.h"

namespace tenon::capacity {
namespace {

using testing::HasSubstr;

Goal goal_of(double rate) {
  auto goal = parse_goal("ttft=500ms,gap=50ms");
  EXPECT_TRUE(goal.ok()) << goal.status().message();
  goal->rate = rate;
  return *goal;
}

sim::Machine machine(const std::string& name, double price = 0) {
  sim::Machine out{.name = name, .memory_bytes = uint64_t{80} << 30};
  out.price.hour = price;
  out.price.source = "a list";
  return out;
}

// Replicas that hold any rate up to so much each, and somewhat more where they share the load.
class Formula final : public Replicas {
 public:
  Formula(double each, double alone_ttft_ms = 20, double sharing = 0)
      : each_(each), alone_ttft_ms_(alone_ttft_ms), sharing_(sharing) {}

  MemoryFit memory() const override { return {uint64_t{16} << 30, uint64_t{50} << 30, 1 << 20}; }
  Result<Probe> probe(uint32_t replicas, double rate, bool whole) override {
    (whole ? wholes_ : asked_)[{replicas, rate}] += 1;
    const double capacity = each_ * replicas * (1 + sharing_ * (1 - 1.0 / replicas));
    const double load = rate / capacity;
    Probe out{.replicas = replicas, .rate = rate, .requests = 100};
    out.ttft_ms = alone_ttft_ms_ + 480 * load;
    out.gap_ms = 10 + 40 * load;
    out.kept_share = out.ttft_ms <= 500 && load <= 1 ? 1 : 0.5;
    out.busy = std::min(1.0, load);
    out.spent = {.reading = 3, .computing = 1};
    out.cut_short = !whole && out.kept_share < 1;
    return out;
  }

  std::map<std::pair<uint32_t, double>, int> asked_, wholes_;  // those that may be cut short first

 private:
  double each_, alone_ttft_ms_, sharing_;
};

FoundFleet found(Formula& replicas, double rate, SearchLimits limits = {}) {
  auto out = find_replicas({.machine = machine("m")}, replicas, goal_of(rate), limits);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? *std::move(out) : FoundFleet();
}

TEST(FindReplicas, one_that_holds_all_is_not_searched_further) {
  Formula replicas(30);
  const FoundFleet one = found(replicas, 20);
  EXPECT_EQ(one.refused, "");
  EXPECT_EQ(one.replicas, 1u);
  EXPECT_EQ(one.broken_rate, 0);
  EXPECT_FALSE(one.fewer);
  EXPECT_EQ(one.probes, 2u);
}

TEST(FindReplicas, the_number_is_the_least_that_holds_for_any_rate) {
  for (const double sharing : {0.0, 0.3}) {
    for (const double rate : {1.1, 2.0, 3.3, 7.0, 12.9, 29.7}) {
      SCOPED_TRACE(testing::Message() << "rate " << rate << ", sharing " << sharing);
      Formula replicas(1, 20, sharing);
      const FoundFleet least = found(replicas, rate);
      ASSERT_EQ(least.refused, "");
      uint32_t expected = 1;
      while (!Formula(1, 20, sharing).probe(expected, rate, true)->holds(goal_of(rate))) ++expected;
      EXPECT_EQ(least.replicas, expected);
      ASSERT_TRUE(least.fewer);
      EXPECT_EQ(least.fewer->replicas, expected - 1);
      EXPECT_FALSE(least.fewer->holds(goal_of(rate)));
      for (const auto& [what, times] : replicas.asked_) EXPECT_EQ(times, 1);
      // What is shown of one replica less is simulated to its end; so is a request alone.
      EXPECT_FALSE(least.fewer->cut_short);
      EXPECT_EQ(replicas.wholes_.size(), 2u);
      EXPECT_LE(least.probes, 16u);
    }
  }
}

TEST(FindReplicas, what_is_late_alone_is_refused_with_its_times) {
  Formula replicas(100, 900);
  const FoundFleet none = found(replicas, 5);
  EXPECT_THAT(none.refused, HasSubstr("even one request at a time: "));
  EXPECT_THAT(none.refused, HasSubstr("ttft 900 ms of 500"));
  EXPECT_EQ(none.probes, 1u);
  EXPECT_FALSE(none.unfinished);
}

TEST(FindReplicas, more_replicas_than_somebody_has_are_refused) {
  Formula replicas(1);
  const FoundFleet none = found(replicas, 40, {.most_replicas = 8});
  EXPECT_THAT(none.refused, HasSubstr("it takes more than 8 replicas (about 4"));
}

TEST(FindReplicas, time_that_is_up_is_said) {
  Formula replicas(1);
  int left = 3;
  const FoundFleet cut = found(replicas, 20, {.go_on = [&left] { return left-- > 0; }});
  EXPECT_TRUE(cut.unfinished);
  EXPECT_EQ(cut.refused, "time was up before this was known");
  EXPECT_EQ(cut.probes, 3u);
}

TEST(WhatBinds, memory_comes_before_what_steps_are_spent_on) {
  Probe probe{.busy = 0.9, .spent = {.reading = 1, .computing = 2, .links = 0.5, .overheads = 1.5}};
  EXPECT_EQ(what_binds(probe), Bound::compute);
  probe.spent.links = 4;
  EXPECT_EQ(what_binds(probe), Bound::links);
  probe.busy = 0.3;
  EXPECT_EQ(what_binds(probe), Bound::queueing);
  probe.kv_share = 0.97;
  EXPECT_EQ(what_binds(probe), Bound::memory);
  probe.kv_share = 0.2;
  probe.preemptions = 3;
  EXPECT_EQ(bound_name(what_binds(probe)), "memory");
}

TEST(ParseGoal, bounds_are_read_and_nonsense_is_a_sentence) {
  const auto goal = parse_goal(" ttft=500ms, gap=50ms, share=0.95");
  ASSERT_TRUE(goal.ok()) << goal.status().message();
  EXPECT_EQ(goal->ttft_ns, 500'000'000);
  EXPECT_EQ(goal->gap_ns, 50'000'000);
  EXPECT_EQ(goal->share, 0.95);
  const auto fault = [](const char* text) {
    const auto read = parse_goal(text);
    return read.ok() ? std::string("none") : std::string(read.status().message());
  };
  EXPECT_THAT(fault("ttft=-5ms"), HasSubstr("'-5ms' is no time above 0"));
  EXPECT_THAT(fault("ttft=0s"), HasSubstr("'0s' is no time above 0"));
  EXPECT_THAT(fault("tpot=5ms"), HasSubstr("'tpot' is none of them"));
  EXPECT_THAT(fault("share=0.9"), HasSubstr("there is no bound"));
  EXPECT_THAT(fault("ttft=1s,share=2"), HasSubstr("share"));
}

TEST(Candidates, ranks_that_no_link_joins_are_left_out) {
  SearchSpace space{.machines = {machine("one"), machine("four")}};
  space.machines[1].joined = {.bandwidth = 1e11, .most = 4};
  space.batch_tokens = {512};
  const std::vector<Candidate> all = candidates_of(space);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].name(), "one, weights bf16, K/V bf16, chunked, paged, 512 tokens a step");
  EXPECT_EQ(all[3].replica(), "4 joined four");
}

TEST(FitMemory, what_does_not_fit_is_refused_with_numbers) {
  const Candidate candidate{.machine = machine("m"), .ranks = 2, .weights = "bf16"};
  constexpr uint64_t kGib = uint64_t{1} << 30;
  const auto fits = fit_memory(candidate, 0.5, 10 * kGib, 4 * kGib, 4096);
  ASSERT_TRUE(fits.ok()) << fits.status().message();
  EXPECT_EQ(fits->kv_bytes, 30 * kGib);
  const auto weights = fit_memory(candidate, 0.5, 66 * kGib, kGib, 4096);
  EXPECT_EQ(weights.status().message(),
            "weights in bf16 take 66.0 GiB on each machine, more than 50 % of the 80.0 GiB of m, "
            "40.0 GiB");
  const auto sequence = fit_memory(candidate, 0.5, 38 * kGib, 4 * kGib, 4096);
  EXPECT_THAT(std::string(sequence.status().message()),
              HasSubstr("and K and V of one sequence of 4096 tokens 4.0 GiB, together more than"));
}

FoundFleet holding(const std::string& name, double price, uint32_t replicas, double ttft_ms) {
  FoundFleet out{.candidate = {.machine = machine(name, price), .scheduler = "chunked"},
                 .replicas = replicas};
  out.probe = {.replicas = replicas, .requests = 10, .ttft_ms = ttft_ms, .gap_ms = 5, .busy = 0.8};
  return out;
}

TEST(RankFindings, the_cheapest_comes_first_and_what_nothing_dominates_is_marked) {
  const Goal goal = goal_of(10);
  std::vector<FoundFleet> all = {holding("dear", 4, 2, 100),
                                 holding("cheap", 1, 3, 400),
                                 holding("worse", 5, 1, 450),
                                 {.candidate = {.machine = machine("no")}},
                                 holding("middle", 2, 2, 200)};
  all[3].refused = "it does not fit";
  all[3].candidate.machine.price.hour = 1;
  rank_findings(all, goal);
  std::vector<std::string> names, best;
  for (const FoundFleet& each : all) {
    names.push_back(each.candidate.machine.name);
    if (each.best) best.push_back(names.back());
  }
  EXPECT_THAT(names, testing::ElementsAre("cheap", "middle", "worse", "dear", "no"));
  EXPECT_THAT(best, testing::ElementsAre("cheap", "middle", "dear"));
  // Without one price, machines count.
  all.push_back(holding("free", 0, 1, 499));
  rank_findings(all, goal);
  EXPECT_EQ(all[0].candidate.machine.name, "worse");
  EXPECT_FALSE(has_prices(all));
}

Plan plan_of(std::vector<FoundFleet> findings) {
  Plan plan{.goal = goal_of(10), .model = "a <model>", .traffic = "10 requests"};
  plan.findings = std::move(findings);
  rank_findings(plan.findings, plan.goal);
  return plan;
}

TEST(PlanReport, text_json_and_page_say_the_same) {
  FoundFleet refused{.candidate = {.machine = machine("small", 1)}, .refused = "it does not fit"};
  const Plan plan = plan_of({holding("dear", 4, 2, 100), holding("cheap", 1, 3, 400), refused});
  const std::string text = plan_text(plan);
  EXPECT_THAT(text, HasSubstr("› 3.00 USD"));
  EXPECT_THAT(text, HasSubstr("small, weights"));
  EXPECT_THAT(text, HasSubstr("it does not fit"));
  EXPECT_THAT(text,
              HasSubstr("The cheapest that holds the goal is 3 × cheap for 3.00 USD an hour"));
  EXPECT_THAT(text, HasSubstr("never calibrated, and so a guess from data sheets: cheap, dear and "
                              "small"));
  const Json json = plan_json(plan);
  EXPECT_EQ(json.at("findings").at(0).at("machine"), "cheap");
  EXPECT_EQ(json.at("findings").at(0).at("price_per_hour"), 3);
  EXPECT_EQ(json.at("findings").at(2).at("refused"), "it does not fit");
  const std::string page = plan_page(plan);
  EXPECT_THAT(page, HasSubstr("a &lt;model&gt;"));
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("it does not fit"));
  EXPECT_THAT(page, testing::Not(HasSubstr("http")));
}

TEST(PlanReport, where_nothing_holds_it_says_so) {
  FoundFleet refused{.candidate = {.machine = machine("small")}, .refused = "it does not fit"};
  const Plan plan = plan_of({refused});
  EXPECT_EQ(plan.cheapest(), nullptr);
  EXPECT_THAT(plan_text(plan), HasSubstr("Nothing that was looked at holds the goal."));
  EXPECT_THAT(plan_page(plan), testing::Not(HasSubstr("<svg")));
}

}  // namespace
}  // namespace tenon::capacity
