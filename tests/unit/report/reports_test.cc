#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/report/pages/charts.h"
#include "core/report/pages/page.h"
#include "core/report/pages/pictures.h"
#include "core/report/pages/story.h"
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

TEST(Title, is_made_of_what_differs_where_nobody_gave_one) {
  World world;
  world.measured.arms[1].differences = {"scheduler.plugin: \"static\" → \"chunked\"",
                                        "scheduler.options.chunk: (none) → 64",
                                        "scheduler.options.policy: (none) → \"fcfs\""};
  EXPECT_EQ(title_of(world.measured), "scheduler: static → chunked");
  world.measured.arms.push_back({.name = "c"});
  EXPECT_EQ(title_of(world.measured), "a → b, c");
  world.measured.plan.title = "mine";
  EXPECT_EQ(title_of(world.measured), "mine");
}

TEST(Differences, fold_the_options_of_a_plugin_that_took_the_place_of_another) {
  MeasuredArm arm{
      .name = "b",
      .differences = {"limits.max_sequences: 8 → 4", "scheduler.options.chunk: (none) → 64",
                      "scheduler.options.policy: (none) → \"fcfs\"",
                      "scheduler.plugin: \"static\" → \"chunked\""}};
  EXPECT_EQ(
      differences_text(arm),
      "limits.max_sequences: 8 → 4; scheduler.plugin: static → chunked, which have 2 options of "
      "their own");
  // The same plugin with another option: that is the difference.
  arm.differences = {"scheduler.options.chunk: 32 → 64"};
  EXPECT_EQ(differences_text(arm), "scheduler.options.chunk: 32 → 64");
}

TEST(Facts, say_lengths_errors_and_memory_of_each_arm) {
  World world;
  world.pairs(2, 1);
  world.measured.arms[0].formats = world.measured.arms[1].formats = "weights bf16";
  for (MeasuredPiece& piece : world.measured.pieces) {
    piece.requests[1].prompt_tokens = 30;
    if (piece.arm != "b") continue;
    piece.requests[0].finish = "error";
    piece.counters["kv_peak_bytes"] = 3 * 512 * 1024;
    piece.counters["kv_peak_blocks"] = 48;
    piece.counters["kv_pool_bytes"] = 24 << 20;
  }
  using testing::Contains;
  using testing::Pair;
  const auto facts = facts_of(world.measured);
  EXPECT_THAT(facts, Contains(Pair("formats", "weights bf16")));
  EXPECT_THAT(facts,
              Contains(Pair("lengths", "prompts of 0 to 30 tokens (mean 2), answers of 10")));
  EXPECT_THAT(facts, Contains(Pair("errors", "2 of b in 48 answers")));
  EXPECT_THAT(facts, Contains(Pair("K/V memory", "b: at most 1.5 MiB in 48 blocks, of 24 MiB")));
  EXPECT_THAT(facts, Not(Contains(Pair("K/V memory", StartsWith("a:")))));
}

TEST(Facts, say_what_arms_waited_for_a_processor) {
  using testing::Contains;
  using testing::Pair;
  World world;
  world.pairs(2, 1);
  world.measured.plan.others = "other programs used 1.2 of 2 processors";
  for (MeasuredPiece& piece : world.measured.pieces) {
    piece.seconds = 1;
    piece.waited_seconds = piece.arm == "b" ? 3 : 0.001;
  }
  EXPECT_THAT(facts_of(world.measured),
              Contains(Pair("busy",
                            "other programs used 1.2 of 2 processors; the share of its time that "
                            "an arm waited for a processor (a 0 %, b 75 %) is left out of all "
                            "times")));
  for (MeasuredPiece& piece : world.measured.pieces) piece.waited_seconds = 0;
  EXPECT_THAT(facts_of(world.measured),
              Contains(Pair("busy", "other programs used 1.2 of 2 processors")));
}

// Every text of a picture lies between its edges, as wide as letters are at most.
void expect_whole_labels(const Picture& picture) {
  for (size_t at = 0; (at = picture.body.find("<text x=\"", at)) != std::string::npos; ++at) {
    const double x = std::stod(picture.body.substr(at + 9));
    const size_t style = picture.body.find("class=\"", at) + 7;
    const std::string name = picture.body.substr(style, picture.body.find('"', style) - style);
    const size_t begin = picture.body.find('>', at) + 1;
    const double wide =
        text_width(picture.body.substr(begin, picture.body.find('<', begin) - begin));
    const bool ends_here = name == "name" || name == "side" || name == "unit";
    EXPECT_GE(ends_here ? x - wide : x, -0.05) << picture.title;
    if (name == "value") {
      EXPECT_LE(x + wide, picture.width) << picture.title;
    }
  }
}

TEST(Picture, has_room_for_long_names_and_wide_intervals) {
  World world;
  world.spread = 0.9;
  const std::string name = "a scheduler with quite a long name, and its options";
  world.measured.arms[1].name = name;
  for (uint32_t i = 0; i < 3; ++i) {
    world.add(PieceKind::measured, "a", i, 1).seconds = 1;
    world.add(PieceKind::measured, name, i, 1).seconds = i == 0 ? 0.001 : 90;
  }
  const auto pictures = pictures_of(world.measured, analyse(world.measured));
  ASSERT_EQ(pictures.size(), 8u);
  for (const Picture& picture : pictures) expect_whole_labels(picture);
  EXPECT_THAT(pictures[0].body, HasSubstr("<path d=\"M")) << "no arrow of an interval that goes on";
}

TEST(Picture, tells_a_dozen_arms_apart_and_the_base_from_all) {
  std::set<std::string> colours;
  for (size_t arm = 0; arm < 12; ++arm) colours.insert(arm_colour(arm));
  EXPECT_EQ(colours.size(), 12u);
  for (const std::string& colour : colours) {
    const std::string name = colour.substr(std::string("var(").size(), colour.size() - 5);
    EXPECT_EQ(count_of(palette_style(), " " + name + ":"), 2u) << colour;
  }
  for (size_t arm = 12; arm < 40; ++arm) EXPECT_NE(arm_colour(arm), arm_colour(0));
}

TEST(Picture, is_a_file_that_needs_no_page) {
  World world;
  world.measured.plan.machine = "a machine";
  world.pairs(8, 0.8);
  for (const Picture& picture : pictures_of(world.measured, analyse(world.measured))) {
    const std::string file = svg_file(picture, caption_of(world.measured));
    EXPECT_THAT(file, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width="));
    EXPECT_THAT(file, Not(HasSubstr("var(")));
    EXPECT_THAT(file, HasSubstr("a machine"));
    for (const auto& [words, colour] : picture.legend) EXPECT_THAT(file, HasSubstr(words));
  }
}

TEST(Picture, names_of_files_are_told_apart) {
  World world;
  world.measured.arms[1].name = "K/V i8";
  world.measured.arms.push_back({.name = "k v i8", .numerics = "n"});
  for (uint32_t i = 0; i < 4; ++i) {
    for (const char* arm : {"a", "K/V i8", "k v i8"}) world.add(PieceKind::measured, arm, i, 1);
  }
  const auto pictures = pictures_of(world.measured, analyse(world.measured));
  EXPECT_EQ(pictures[0].name, "differences-k-v-i8");
  EXPECT_EQ(pictures[1].name, "differences-k-v-i8-2");
}

TEST(Overview, is_a_line_an_arm) {
  World world;
  world.pairs(8, 0.8);
  EXPECT_THAT(overview_of(world.measured, analyse(world.measured)),
              ElementsAre(AllOf(StartsWith("b "), HasSubstr("better"), HasSubstr("8 pairs"))));
}

}  // namespace
}  // namespace tenon
