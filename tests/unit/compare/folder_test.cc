#include "core/compare/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/report/statistics/requests_summary.h"
#include "tests/support/temporary_folder.h"

namespace tenon::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

MeasuredComparison head_of_two() {
  MeasuredComparison measured;
  measured.plan.ended = "40 pairs were run";
  measured.arms = {{.name = "a", .resolved = "x = 1\n"}, {.name = "b\n", .resolved = "x = 2\n"}};
  return measured;
}

MeasuredPiece piece_of_arm(const std::string& arm, uint32_t requests) {
  MeasuredPiece piece{.arm = arm};
  piece.seconds = 1.5;
  for (uint32_t i = 0; i < requests; ++i) piece.requests.push_back({.index = i, .tokens = 5 + i});
  return piece;
}

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    Result<Folder> made = Folder::create(path_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) folder_.emplace(*std::move(made));
  }
  void write_two_pieces() {
    ASSERT_TRUE(folder_->write_head(head_of_two()).ok());
    ASSERT_TRUE(folder_->add(piece_of_arm("a", 2)).ok());
    ASSERT_TRUE(folder_->add(piece_of_arm("b", 3)).ok());
  }
  void append(const std::string& name, const std::string& text) {
    std::ofstream(folder_->file(name), std::ios::app) << text;
  }
  std::string text_of(const std::string& name) {
    std::ifstream file(folder_->file(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string refusal() {
    std::vector<std::string> notes;
    const auto read = read_folder(path_, notes);
    return read.ok() ? "" : std::string(read.status().message());
  }

  TemporaryFolder parent_;
  std::string path_ = parent_.path("deep/results");
  std::optional<Folder> folder_;
};

TEST_F(FolderTest, results_are_never_mixed) {
  const Result<Folder> again = Folder::create(path_);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("is there already"));
}

TEST_F(FolderTest, pieces_come_back_in_order_each_with_its_requests) {
  write_two_pieces();
  std::vector<std::string> notes;
  const auto read = read_folder(path_, notes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_THAT(notes, IsEmpty());
  ASSERT_EQ(read->arms.size(), 2u);
  EXPECT_EQ(read->arms[1].resolved, "x = 2\n");
  ASSERT_EQ(read->pieces.size(), 2u);
  EXPECT_EQ(read->pieces[0].arm, "a");
  EXPECT_EQ(read->pieces[0].requests.size(), 2u);
  ASSERT_EQ(read->pieces[1].requests.size(), 3u);
  EXPECT_EQ(read->pieces[1].requests[2].tokens, 7u);
}

TEST_F(FolderTest, very_many_rows_are_summarised_and_may_be_those_of_an_earlier_piece) {
  ASSERT_TRUE(folder_->write_head(head_of_two()).ok());
  ASSERT_TRUE(folder_->add(piece_of_arm("a", 9)).ok());
  ASSERT_TRUE(folder_->add(piece_of_arm("b", 2)).ok());
  ASSERT_TRUE(folder_->add(piece_of_arm("a", 9), 0).ok());
  ASSERT_TRUE(folder_->add(piece_of_arm("b", 2), 1).ok());
  const std::string rows = text_of("requests.jsonl");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 11);
  std::vector<std::string> notes;
  const auto read = read_folder(path_, notes, 4);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->pieces.size(), 4u);
  for (const size_t piece : {0, 2}) {
    ASSERT_NE(read->pieces[piece].summary, nullptr);
    EXPECT_THAT(read->pieces[piece].requests, IsEmpty());
    EXPECT_EQ(totals_of(read->pieces[piece]).tokens.sum, 9 * 5 + 36);
  }
  for (const size_t piece : {1, 3}) {
    EXPECT_EQ(read->pieces[piece].summary, nullptr);
    EXPECT_EQ(read->pieces[piece].requests.size(), 2u);
  }
  append("requests.jsonl", "{\"piece\": 0}\n");
  EXPECT_THAT(refusal(), HasSubstr("requests.jsonl:12: a request's row"));
}

TEST_F(FolderTest, a_name_with_a_line_end_stays_a_comment_of_its_pipeline) {
  write_two_pieces();
  const std::string text = text_of("arm1.toml");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, testing::StartsWith("# b"));
  EXPECT_THAT(text, testing::EndsWith("\nx = 2\n"));
}

TEST_F(FolderTest, a_last_line_that_was_cut_is_left_out_with_a_note) {
  write_two_pieces();
  append("pieces.jsonl", "{\"kind\": \"meas");
  append("requests.jsonl", "{\"piece\": 2, \"index\"");
  std::vector<std::string> notes;
  const auto read = read_folder(path_, notes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->pieces.size(), 2u);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("pieces.jsonl"), HasSubstr("requests.jsonl")));
}

TEST_F(FolderTest, rows_of_a_piece_that_was_cut_are_left_out) {
  write_two_pieces();
  append("requests.jsonl", "{\"piece\": 2}\n");
  std::vector<std::string> notes;
  const auto read = read_folder(path_, notes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->pieces[0].requests.size() + read->pieces[1].requests.size(), 5u);
}

TEST_F(FolderTest, a_fault_in_the_middle_names_file_and_line) {
  write_two_pieces();
  append("pieces.jsonl", "nonsense\n{}\n");
  EXPECT_THAT(refusal(), HasSubstr("pieces.jsonl:3: not a line of JSON"));
}

TEST_F(FolderTest, a_comparison_that_was_ended_from_outside_is_noted) {
  MeasuredComparison measured = head_of_two();
  measured.plan.ended.clear();
  ASSERT_TRUE(folder_->write_head(measured).ok());
  std::vector<std::string> notes;
  ASSERT_TRUE(read_folder(path_, notes).ok());
  EXPECT_THAT(notes, ElementsAre(HasSubstr("did not end by itself")));
}

TEST_F(FolderTest, a_folder_of_something_else_is_refused) {
  EXPECT_THAT(refusal(), HasSubstr("is no folder of a comparison"));
  append("comparison.json", "{\"format\": 2}");
  EXPECT_THAT(refusal(), HasSubstr("is not of format 1"));
}

TEST_F(FolderTest, a_metric_of_a_later_program_is_named) {
  MeasuredComparison measured = head_of_two();
  measured.plan.primary = "happiness";
  ASSERT_TRUE(folder_->write_head(measured).ok());
  EXPECT_THAT(refusal(), HasSubstr("happiness"));
}

TEST_F(FolderTest, the_hash_of_the_work_is_that_of_workload_and_arrivals) {
  const std::string workload = parent_.write_file("w.toml", "format = 1\n");
  const auto kept = folder_->keep_workload(workload);
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  EXPECT_EQ(text_of("workload.toml"), "format = 1\n");
  const auto bare = folder_->keep_arrivals(*kept, "");
  EXPECT_FALSE(std::filesystem::exists(folder_->file("arrivals.json")));
  const auto timed = folder_->keep_arrivals(*kept, "[0, 5]\n");
  ASSERT_TRUE(bare.ok() && timed.ok());
  EXPECT_EQ(text_of("arrivals.json"), "[0, 5]\n");
  EXPECT_NE(*bare, *timed);
}

TEST_F(FolderTest, removing_it_frees_the_name) {
  EXPECT_FALSE(folder_->has_pieces());
  write_two_pieces();
  EXPECT_TRUE(folder_->has_pieces());
  folder_->remove();
  EXPECT_TRUE(Folder::create(path_).ok());
}

}  // namespace
}  // namespace tenon::compare
