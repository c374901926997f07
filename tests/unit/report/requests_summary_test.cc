#include "core/report/statistics/requests_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/report/pages/story.h"
#include "core/report/pages/text_report.h"
#include "core/report/statistics/analysis.h"
#include "core/report/statistics/goodput.h"
#include "tests/unit/report/measured_world.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

World random_world() {
  World world;
  world.measured.plan.slo_ttft_ms = 25;
  world.pairs(5, 1.3);
  for (MeasuredPiece& piece : world.measured.pieces) {
    for (RequestRow& row : piece.requests) {
      row.prompt_tokens = static_cast<uint32_t>(10 + row.index);
      row.reused_tokens = row.index / 2;
      row.ttft_ms *= 1 + 0.3 * world.draws.normal();
      row.tpot_ms = 3 + world.draws.normal();
      row.latency_ms *= 1 + 0.2 * world.draws.normal();
    }
    piece.requests[3].ttft_ms = -1;
    piece.requests[3].finish = "error";
  }
  return world;
}

MeasuredComparison summarised(const MeasuredComparison& measured) {
  MeasuredComparison out = measured;
  for (MeasuredPiece& piece : out.pieces) summarise(piece, out.plan, out.pieces);
  return out;
}

TEST(RequestsSummary, everything_that_is_said_is_what_rows_say) {
  const World world = random_world();
  const MeasuredComparison& rows = world.measured;
  const MeasuredComparison kept = summarised(rows);
  for (size_t i = 0; i < rows.pieces.size(); ++i) {
    const MeasuredPiece &a = rows.pieces[i], &b = kept.pieces[i];
    ASSERT_NE(b.summary, nullptr);
    EXPECT_THAT(b.requests, SizeIs(0));
    EXPECT_EQ(request_count(b), 12u);
    EXPECT_EQ(totals_of(a), totals_of(b));
    EXPECT_EQ(share_within_bounds(a, rows.plan), share_within_bounds(b, rows.plan));
    EXPECT_EQ(is_saturated(a), is_saturated(b));
    for (const Metric& metric : metrics()) {
      SCOPED_TRACE(metric.name);
      EXPECT_EQ(value_of(metric, a, rows.plan), value_of(metric, b, rows.plan));
      EXPECT_EQ(why_absent(metric, a, rows.plan), why_absent(metric, b, rows.plan));
    }
  }
  EXPECT_EQ(csv_report(analyse(rows)), csv_report(analyse(kept)));
  EXPECT_EQ(text_report(rows, analyse(rows)), text_report(kept, analyse(kept)));
  EXPECT_EQ(facts_of(rows), facts_of(kept));
}

TEST(RequestsSummary, other_answers_are_found_and_equal_ones_are_kept_once) {
  World world = random_world();
  MeasuredComparison kept = summarised(world.measured);
  EXPECT_TRUE(share_answers(kept.pieces[0], kept.pieces[7]));
  EXPECT_EQ(analyse(kept).arms[0].answers,
            "equal: every token of every piece, and the digests of logits");
  world.measured.pieces[7].requests[5].answer = "other";
  kept = summarised(world.measured);
  EXPECT_FALSE(share_answers(kept.pieces[0], kept.pieces[7]));
  EXPECT_EQ(analyse(kept).arms[0].answers, "b: request 5, sample 0 has other tokens");
}

TEST(RequestsSummary, curves_keep_their_ends_and_their_middle) {
  MeasuredPiece piece;
  for (uint32_t i = 0; i < 30'001; ++i) piece.requests.push_back(row(30'000 - i, i, 2.0 * i));
  MeasuredPiece kept = piece;
  summarise(kept, {}, {});
  const std::vector<double> curve = curve_of(kept, &RequestRow::latency_ms);
  EXPECT_LT(curve.size(), 10'000u);
  EXPECT_EQ(curve.front(), 0);
  EXPECT_EQ(curve.back(), 60'000);
  EXPECT_NEAR(curve[curve.size() / 2], 30'000, 30);
  EXPECT_TRUE(std::is_sorted(curve.begin(), curve.end()));
}

TEST(RequestsSummary, what_is_the_same_is_known_of_rows_and_of_summaries) {
  const World world = random_world();
  MeasuredPiece a = world.measured.pieces[0], b = a, other = a;
  other.requests[2].latency_ms += 1;
  EXPECT_TRUE(same_requests(a, b));
  EXPECT_FALSE(same_requests(a, other));
  for (MeasuredPiece* piece : {&a, &b, &other}) summarise(*piece, world.measured.plan, {});
  EXPECT_TRUE(same_requests(a, b));
  EXPECT_FALSE(same_requests(a, other));
  EXPECT_FALSE(same_requests(a, world.measured.pieces[0]));
}

TEST(ShortText, keeps_sixteen_characters_and_tells_longer_ones_apart) {
  EXPECT_EQ(ShortText("0123456789abcdef").text(), "0123456789abcdef");
  EXPECT_EQ(ShortText("a").text(), "a");
  EXPECT_TRUE(ShortText("").empty());
  EXPECT_FALSE(ShortText("0123456789abcdef0") == ShortText("0123456789abcdef1"));
  EXPECT_EQ(ShortText("0123456789abcdef0").text().size(), 16u);
}

}  // namespace
}  // namespace tenon
