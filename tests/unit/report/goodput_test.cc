#include "core/report/statistics/goodput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/report/pages/text_report.h"
#include "core/report/statistics/analysis.h"
#include "tests/unit/report/measured_world.h"

namespace tenon {
namespace {

using testing::HasSubstr;

RateBracket found(double start, uint32_t probes, double truth) {
  RateSearch search(start, probes);
  while (const auto rate = search.next()) search.add(*rate <= truth);
  return search.bracket();
}

TEST(RateSearch, ends_with_a_bracket_around_the_truth) {
  for (const double start : {1.0, 30.0, 400.0}) {
    const RateBracket bracket = found(start, 12, 37);
    EXPECT_EQ(bracket.probes, 12);
    EXPECT_LE(bracket.kept, 37);
    EXPECT_GT(bracket.broken, 37);
    EXPECT_LT(bracket.half_width(), 0.03) << start;
  }
}

TEST(RateSearch, leaves_a_side_open_that_no_probe_found) {
  EXPECT_EQ(found(8, 3, 1000).broken, std::numeric_limits<double>::infinity());
  EXPECT_EQ(found(8, 3, 0.1).kept, 0);
  EXPECT_FALSE(found(8, 3, 0.1).bounded());
}

// Requests keep a bound of 100 ms up to a rate.
struct SearchedWorld : World {
  SearchedWorld() {
    measured.plan.primary = "goodput_rate";
    measured.plan.slo_ttft_ms = 100;
    measured.plan.probes = 8;
  }
  void search(const std::string& arm, uint32_t block, double truth) {
    RateSearch search(10, measured.plan.probes);
    while (const auto rate = search.next()) {
      MeasuredPiece& piece = add(PieceKind::probe, arm, block, 1);
      piece.rate = *rate;
      for (RequestRow& row : piece.requests) row.ttft_ms = *rate <= truth ? 50 : 150;
      search.add(keeps_bounds(piece, measured.plan));
    }
  }
};

TEST(Goodput, compares_the_rates_that_searches_found) {
  SearchedWorld world;
  for (uint32_t block = 0; block < 8; ++block) {
    const double luck = std::exp(0.02 * world.draws.normal());
    world.search("a", block, 20 * luck);
    world.search("b", block, 30 * luck);
  }
  const Analysis analysis = analyse(world.measured);
  const MetricResult& rate = *analysis.arms[0].find("goodput_rate");
  EXPECT_EQ(rate.verdict, Verdict::better);
  EXPECT_EQ(rate.log_ratios.size(), 8);
  EXPECT_TRUE(rate.log_ratio.holds(std::log(1.5)));
  EXPECT_FALSE(analysis.arms[0].find("throughput")->absent.empty());
  const std::string report = text_report(world.measured, analysis);
  EXPECT_THAT(report, HasSubstr("90 % of requests within ttft 100 ms: a keeps them at"));
  EXPECT_THAT(report, HasSubstr("in 8 searches of 8 probes"));
}

TEST(Goodput, is_never_surer_than_its_brackets) {
  SearchedWorld world;
  world.measured.plan.probes = 3;
  for (uint32_t block = 0; block < 8; ++block) {
    world.search("a", block, 20.1);
    world.search("b", block, 20.9);
  }
  // All searches of both arms end with the same bracket: no spread, and yet nothing is equal.
  const MetricResult rate = *analyse(world.measured).arms[0].find("goodput_rate");
  EXPECT_EQ(rate.log_ratio.estimate, 0);
  EXPECT_EQ(rate.verdict, Verdict::inconclusive);
  EXPECT_TRUE(rate.log_ratio.holds(std::log(20.9 / 20.1)));
}

TEST(Goodput, says_where_no_rate_keeps_the_bounds) {
  SearchedWorld world;
  for (uint32_t block = 0; block < 5; ++block) {
    world.search("a", block, 20);
    world.search("b", block, 0);
  }
  const Analysis analysis = analyse(world.measured);
  EXPECT_THAT(analysis.arms[0].find("goodput_rate")->absent, HasSubstr("no search of both arms"));
  EXPECT_THAT(text_report(world.measured, analysis),
              HasSubstr("b keeps them at no rate that was tried and no longer at 0.0781"));
}

TEST(Goodput, leaves_out_a_search_that_was_cut) {
  SearchedWorld world;
  world.search("a", 0, 20);
  world.search("a", 1, 20);
  world.measured.pieces.pop_back();
  EXPECT_EQ(rates_found(world.measured, "a").size(), 1);
}

TEST(Goodput, is_broken_by_a_queue_that_grows) {
  SearchedWorld world;
  MeasuredPiece& piece = world.add(PieceKind::probe, "a", 0, 1);
  for (size_t i = 0; i < piece.requests.size(); ++i) piece.requests[i].ttft_ms = 5 + 5.0 * i;
  EXPECT_EQ(share_within_bounds(piece, world.measured.plan), 1);
  EXPECT_FALSE(keeps_bounds(piece, world.measured.plan));
}

}  // namespace
}  // namespace tenon
