#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/report/pages/page.h"
#include "core/report/pages/text_report.h"
#include "tests/unit/report/measured_world.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

size_t count_of(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++found;
  return found;
}

TEST(Summary, says_in_a_sentence_what_came_out) {
  World world;
  world.pairs(8, 0.8);
  EXPECT_THAT(summary_of(world.measured, analyse(world.measured)),
              ElementsAre(AllOf(StartsWith("b is better than a: tokens generated a second +2"),
                                HasSubstr("8 pairs"))));
  World same;
  same.spread = 0.001;
  same.pairs(8, 1);
  EXPECT_THAT(summary_of(same.measured, analyse(same.measured)),
              ElementsAre(StartsWith("b and a are equivalent within ±1 %")));
  World open;
  open.spread = 0.2;
  open.pairs(8, 1);
  EXPECT_THAT(summary_of(open.measured, analyse(open.measured)),
              ElementsAre(StartsWith("Whether b and a differ is not certain")));
}

TEST(Band, says_whether_an_expectation_is_met) {
  World world;
  world.pairs(8, 0.5);
  const MetricResult result = *analyse(world.measured).arms[0].find("throughput");
  world.measured.plan.expect = {{"throughput", 1.5, 3}};
  EXPECT_THAT(band_text(world.measured.plan, result), HasSubstr("times, within the expected band"));
  world.measured.plan.expect = {{"throughput", 3, 4}};
  EXPECT_THAT(band_text(world.measured.plan, result), HasSubstr("outside"));
  world.measured.plan.expect = {{"throughput", 2, 4}};
  EXPECT_THAT(band_text(world.measured.plan, result), HasSubstr("not told from"));
  world.measured.plan.expect = {{"ttft_p50", 2, 4}};
  EXPECT_EQ(band_text(world.measured.plan, result), "");
}

TEST(TextReport, has_a_row_for_each_figure_and_says_what_is_not_there) {
  World world;
  world.measured.arms[1].differences = {"scheduler.plugin: static → chunked"};
  world.pairs(8, 0.8);
  const std::string text = text_report(world.measured, analyse(world.measured));
  EXPECT_THAT(text, HasSubstr("differs in     scheduler.plugin: static → chunked"));
  EXPECT_THAT(text, HasSubstr("› throughput tokens/s"));
  EXPECT_THAT(text,
              HasSubstr("ttft_p99, latency_p99: needs 100 requests in a piece; there are 12"));
  EXPECT_THAT(text, HasSubstr("A against A    not measured"));
}

TEST(TextReport, shows_no_figure_of_an_arm_whose_answers_differ) {
  World world;
  world.pairs(8, 0.8);
  world.measured.pieces[5].requests[0].answer = "other";
  const std::string text = text_report(world.measured, analyse(world.measured));
  EXPECT_THAT(text, HasSubstr("different answers – no speed is ranked"));
  EXPECT_THAT(text, Not(HasSubstr("› throughput")));
}

TEST(Csv, quotes_names_and_leaves_unknown_ends_empty) {
  World world;
  world.measured.arms[1].name = "b, \"quick\"";
  world.add(PieceKind::measured, "a", 0, 1);
  world.add(PieceKind::measured, "b, \"quick\"", 0, 1);
  const std::string csv = csv_report(analyse(world.measured));
  EXPECT_THAT(csv, HasSubstr("\"b, \"\"quick\"\"\",throughput,tokens/s,"));
  EXPECT_THAT(csv, HasSubstr(",,,0.99,1,0,inconclusive"));
}

TEST(Unpaired, compares_folders_and_notes_other_work) {
  World a, b;
  a.pairs(6, 1);
  b.pairs(6, 1);
  b.measured.plan.workload_hash = "other";
  const MeasuredComparison all[] = {a.measured, b.measured};
  const std::string names[] = {"monday", "tuesday"};
  const std::string text = unpaired_report(all, names);
  EXPECT_THAT(text, AllOf(HasSubstr("unpaired"), HasSubstr("tuesday"), HasSubstr("other work!")));
}

TEST(Page, is_whole_and_needs_nothing_from_elsewhere) {
  World world;
  world.pairs(8, 0.8);
  const std::string page = html_page(world.measured, analyse(world.measured));
  for (const char* foreign : {"http://", "https://", "<script", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(foreign)));
  }
  for (const char* tag : {"svg", "table", "ul", "main", "html"}) {
    EXPECT_EQ(count_of(page, std::string("<") + tag), count_of(page, std::string("</") + tag))
        << tag;
  }
  EXPECT_GE(count_of(page, "<svg"), 7);
  EXPECT_THAT(page, Not(AllOf(HasSubstr("nan"), HasSubstr("inf\""))));
}

TEST(Page, escapes_what_people_wrote) {
  World world;
  world.measured.plan.title = "<b>\"&'";
  world.pairs(4, 1);
  const std::string page = html_page(world.measured, analyse(world.measured));
  EXPECT_THAT(page, HasSubstr("<h1>&lt;b&gt;&quot;&amp;&#39;</h1>"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
}

TEST(Page, shows_no_picture_of_an_arm_whose_answers_differ) {
  World world;
  world.pairs(8, 0.8);
  world.measured.pieces[5].requests[0].answer = "other";
  const std::string page = html_page(world.measured, analyse(world.measured));
  EXPECT_THAT(page, HasSubstr("summary different"));
  EXPECT_THAT(page, Not(HasSubstr("class=\"bar\"")));
}

TEST(Page, of_nothing_measured_still_says_so) {
  World world;
  const std::string page = html_page(world.measured, analyse(world.measured));
  EXPECT_THAT(page, HasSubstr("could not be compared: no pair was measured"));
  EXPECT_EQ(page.find("<svg"), page.npos);
  EXPECT_EQ(page.find("<th class"), page.npos) << "a table without rows";
}

TEST(Overview, is_a_line_an_arm) {
  World world;
  world.pairs(8, 0.8);
  EXPECT_THAT(overview_of(world.measured, analyse(world.measured)),
              ElementsAre(AllOf(StartsWith("b "), HasSubstr("better"), HasSubstr("8 pairs"))));
}

}  // namespace
}  // namespace tenon
