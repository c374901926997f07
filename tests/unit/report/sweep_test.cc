#include "core/report/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "core/report/pages/sweep_chart.h"
#include "core/report/sweep_json.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SweepPoint point(double load, double requests_per_second, double latency_ms) {
  SweepPoint made;
  made.load = load;
  made.requests_per_second = requests_per_second;
  made.tokens_per_second = 10 * requests_per_second;
  made.ttft_ms = {.estimate = latency_ms / 4, .low = latency_ms / 5, .high = latency_ms / 3};
  made.latency_ms = {.estimate = latency_ms, .low = 0.9 * latency_ms, .high = 1.1 * latency_ms};
  made.gap_ms = latency_ms / 10;
  made.answered = 20;
  return made;
}

// A server that comes ever closer to 8 requests a second.
Sweep closed_loop() {
  Sweep sweep{.name = "server", .what = SweepOf::concurrency, .points = {}};
  for (const double at_once : {1, 2, 4, 8, 16, 32, 64}) {
    const double rate = 8 * at_once / (at_once + 2);
    sweep.points.push_back(point(at_once, rate, 1000 * at_once / rate));
  }
  return sweep;
}

TEST(Sweep, reads_ranges_and_lists) {
  const auto rates = parse_sweep("rate=1..20");
  ASSERT_TRUE(rates.ok());
  EXPECT_EQ(rates->what, SweepOf::rate);
  EXPECT_THAT(rates->values, ElementsAre(1, 2, 4, 8, 16, 20));
  const auto list = parse_sweep("concurrency=1,6,30");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->what, SweepOf::concurrency);
  EXPECT_THAT(list->values, ElementsAre(1, 6, 30));
  EXPECT_THAT(parse_sweep("concurrency=1..64")->values, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  for (const char* wrong : {"", "rate", "rate=", "rate=2..2", "rate=x..3", "rate=1,,2", "rate=3,2",
                            "rate=nan,inf", "concurrency=0,1", "concurrency=1.5..3", "load=1..3"}) {
    EXPECT_FALSE(parse_sweep(wrong).ok()) << wrong;
  }
}

TEST(Sweep, finds_the_knee_and_where_throughput_ends) {
  const Sweep sweep = closed_loop();
  // Requests a second for their latency are (8 n / (n + 2))² / n, which is most at n = 2.
  EXPECT_EQ(knee_of(sweep), 1u);
  EXPECT_EQ(saturation_of(sweep), 6u);  // 64 at once do 3 % more than 32, which do 6 % more than 16
  const std::string text = sweep_text(sweep);
  EXPECT_THAT(text, HasSubstr("saturated     from 64 at once on"));
  EXPECT_THAT(text, HasSubstr("for its latency, at 2 at once"));
}

TEST(Sweep, says_that_a_range_ends_before_the_bend) {
  Sweep sweep{.name = "server", .what = SweepOf::rate, .points = {}};
  for (const double rate : {1, 2, 4}) sweep.points.push_back(point(rate, rate, 100));
  EXPECT_FALSE(knee_of(sweep));  // the last has the most
  EXPECT_FALSE(saturation_of(sweep));
  EXPECT_THAT(sweep_text(sweep), HasSubstr("knee          not in this range"));
  sweep.points.push_back(point(8, 5, 900));
  sweep.points.back().queue_grows = true;
  EXPECT_EQ(knee_of(sweep), 2u);
  EXPECT_EQ(saturation_of(sweep), 3u);
}

TEST(Sweep, an_arms_point_is_the_mean_of_its_pieces) {
  MeasuredComparison measured;
  measured.plan.open_loop = true;
  for (const double seconds : {1.0, 1.1, 0.9}) {
    for (const char* arm : {"base", "b"}) {
      MeasuredPiece piece;
      piece.arm = arm;
      piece.seconds = *arm == 'b' && arm[1] == '\0' ? 2 * seconds : seconds;
      piece.generated_tokens = 100;
      for (uint32_t i = 0; i < 10; ++i) {
        RequestRow row;
        row.index = i;
        row.arrival_ms = i;
        row.ttft_ms = 20 * seconds;
        row.latency_ms = 100 * seconds;
        piece.requests.push_back(row);
      }
      measured.pieces.push_back(piece);
    }
  }
  measured.pieces.push_back(measured.pieces.front());
  measured.pieces.back().kind = PieceKind::warm_up;
  const SweepPoint base = measured_point(measured, "base", 4), b = measured_point(measured, "b", 4);
  EXPECT_EQ(base.load, 4);
  EXPECT_EQ(base.answered, 30u);
  EXPECT_NEAR(base.requests_per_second, 10, 1e-9);
  EXPECT_NEAR(b.requests_per_second, 5, 1e-9);
  EXPECT_NEAR(base.tokens_per_second, 2 * b.tokens_per_second, 1e-9);
  EXPECT_NEAR(base.ttft_ms.estimate, 20, 1e-9);
  EXPECT_TRUE(base.ttft_ms.bounded());
  EXPECT_TRUE(base.ttft_ms.holds(20));
  EXPECT_NEAR(base.latency_ms.estimate, 100, 1e-9);
  EXPECT_FALSE(base.queue_grows);
}

TEST(Sweep, survives_points_without_answers) {
  Sweep sweep{.name = "server", .what = SweepOf::rate, .points = {SweepPoint{}, SweepPoint{}}};
  EXPECT_FALSE(knee_of(sweep));
  EXPECT_FALSE(saturation_of(sweep));
  EXPECT_THAT(sweep_text(sweep), HasSubstr("nothing was measured, 0 failed\n"));
  EXPECT_THAT(sweep_chart({sweep}, SweepLatency::ttft).body, HasSubstr("tokens/s"));
}

TEST(Sweep, a_chart_has_each_curve_with_its_knee) {
  Sweep other = closed_loop();
  other.name = "other <server>";
  for (const SweepLatency latency :
       {SweepLatency::ttft, SweepLatency::latency, SweepLatency::gap}) {
    const Picture picture = sweep_chart({closed_loop(), other}, latency);
    EXPECT_THAT(picture.body, HasSubstr(">knee "));
    EXPECT_THAT(picture.body, HasSubstr(">saturated 64<"));
    EXPECT_THAT(picture.body, HasSubstr("other &lt;server&gt;, concurrency 64: 77.6 tokens/s"));
    EXPECT_EQ(picture.legend.size(), 2u);
  }
}

TEST(Sweep, words_of_marks_cover_no_others_and_are_not_cut) {
  Sweep sweep = closed_loop();
  for (SweepPoint& each : sweep.points) each.load *= 100'000;
  const Picture picture = sweep_chart({sweep, sweep, sweep, sweep}, SweepLatency::latency);
  const std::regex mark("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" class=\"mark\">([^<]+)<");
  std::vector<std::array<double, 3>> places;  // x, y and width
  for (std::sregex_iterator at(picture.body.begin(), picture.body.end(), mark), end; at != end;
       ++at) {
    places.push_back({std::stod((*at)[1]), std::stod((*at)[2]), text_width((*at)[3].str())});
  }
  ASSERT_GE(places.size(), 6u);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& [x, y, width] = places[i];
    EXPECT_GE(x, 0);
    EXPECT_LE(x + width, picture.width);
    for (size_t j = 0; j < i; ++j) {
      const auto& [other_x, other_y, other_width] = places[j];
      EXPECT_TRUE(std::abs(y - other_y) > 11 || x >= other_x + other_width || other_x >= x + width);
    }
  }
}

// A folder with one file, sweep.json.
class SavedSweep : public testing::Test {
 protected:
  Result<std::vector<Sweep>> read(const std::string& text) {
    folder_.write_file("sweep.json", text);
    return read_sweeps(folder_.path());
  }

  TemporaryFolder folder_;
};

TEST_F(SavedSweep, comes_back_as_it_was) {
  Sweep saved = closed_loop();
  saved.points[2].gap_ms = 0;
  saved.points[3].ttft_ms.low = -std::numeric_limits<double>::infinity();
  saved.points[4].queue_grows = true;
  saved.points[5].failed = 3;
  const auto read_back = read(sweep_json(saved).dump());
  ASSERT_TRUE(read_back.ok()) << message_of(read_back.status());
  ASSERT_EQ(read_back->size(), 1u);
  const Sweep& sweep = read_back->front();
  EXPECT_EQ(sweep.name, "server");
  EXPECT_EQ(sweep.what, SweepOf::concurrency);
  EXPECT_EQ(sweep_json(sweep), sweep_json(saved));
  EXPECT_FALSE(sweep.points[3].ttft_ms.bounded());
  EXPECT_EQ(sweep.points[5].failed, 3u);
}

TEST_F(SavedSweep, has_a_curve_of_each_arm) {
  Sweep b = closed_loop();
  b.name = "b";
  const nlohmann::ordered_json both = {{"sweep", "concurrency=1..64"},
                                       {"curves", {sweep_json(closed_loop()), sweep_json(b)}}};
  const auto read_back = read(both.dump());
  ASSERT_TRUE(read_back.ok()) << message_of(read_back.status());
  ASSERT_EQ(read_back->size(), 2u);
  EXPECT_EQ(read_back->at(1).name, "b");
}

TEST_F(SavedSweep, refuses_what_is_none) {
  const std::string whole = sweep_json(closed_loop()).dump();
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"curves\": []}"),
        std::string("{\"curves\": [" + whole + ", {}]}"), whole.substr(0, whole.size() / 2),
        std::string(R"({"sweep": "pace", "points": [{}]})"),
        std::string(R"({"sweep": "rate", "points": []})"),
        std::string(R"({"sweep": 3, "points": 4, "name": 5})")}) {
    SCOPED_TRACE(text.substr(0, 60));
    const auto none = read(text);
    ASSERT_FALSE(none.ok());
    EXPECT_THAT(message_of(none.status()), HasSubstr("is no sweep"));
  }
  EXPECT_FALSE(read_sweeps(folder_.path() + "/nothing").ok());
}

TEST_F(SavedSweep, takes_numbers_of_any_kind) {
  const auto odd = read(R"({"sweep": "rate", "points": [
      {"load": "four", "answered": -1, "failed": 1e300, "queue_grows": 1, "ttft_ms": 3}]})");
  ASSERT_TRUE(odd.ok()) << message_of(odd.status());
  EXPECT_EQ(odd->front().name, folder_.path());
  EXPECT_EQ(odd->front().points.front().load, 0);
  EXPECT_EQ(odd->front().points.front().answered, 0u);
  EXPECT_FALSE(odd->front().points.front().queue_grows);
}

}  // namespace
}  // namespace tenon
