#include "core/engine/answers/text_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace tenon {
namespace {

// Feeds pieces; returns what was released, with the stop string after a bar.
std::string scan(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopScanner scanner(stops);
  std::string released;
  for (const std::string& piece : pieces) {
    if (const std::string* stop = scanner.push(piece, released)) return released + "|" + *stop;
  }
  scanner.finish(released);
  return released;
}

TEST(StopScanner, releases_everything_without_stops) {
  EXPECT_EQ(scan({}, {"a", "bc"}), "abc");
  EXPECT_EQ(scan({""}, {"a", "bc"}), "abc");
}

TEST(StopScanner, ends_before_a_stop_that_spans_pieces) {
  EXPECT_EQ(scan({"stop"}, {"go s", "t", "o", "p now"}), "go |stop");
}

TEST(StopScanner, holds_back_only_what_could_still_become_a_stop) {
  const std::vector<std::string> stops = {"abcd", "xy"};
  StopScanner scanner(stops);
  std::string released;
  EXPECT_EQ(scanner.push("zab", released), nullptr);
  EXPECT_EQ(released, "z");
  EXPECT_EQ(scanner.push("cx", released), nullptr);
  EXPECT_EQ(released, "zabc");
  EXPECT_EQ(scanner.push("z", released), nullptr);
  EXPECT_EQ(released, "zabcxz");
}

TEST(StopScanner, releases_what_it_held_when_the_text_ends) {
  EXPECT_EQ(scan({"stop"}, {"nonsto"}), "nonsto");
}

TEST(StopScanner, finds_overlapping_beginnings) {
  EXPECT_EQ(scan({"aab"}, {"a", "a", "a", "b"}), "a|aab");
}

TEST(StopScanner, takes_the_earliest_stop_and_the_first_named_at_one_place) {
  EXPECT_EQ(scan({"world", "lo"}, {"hello world"}), "hel|lo");
  EXPECT_EQ(scan({"lo w", "lo"}, {"hello world"}), "hel|lo w");
}

class HalfDecoder final : public TextDecoder {
 public:
  void push(TokenId token, std::string& text) override {
    // Odd tokens wait for the next one.
    held_ += static_cast<char>('a' + token);
    if (token % 2 == 1) return;
    text += held_;
    held_.clear();
  }
  void finish(std::string& text) override { text += held_; }

 private:
  std::string held_;
};

TEST(TextStream, finds_a_stop_in_what_the_decoder_held_back) {
  const std::vector<std::string> stops = {"cb"};
  TextStream stream(std::make_unique<HalfDecoder>(), stops);
  EXPECT_EQ(stream.push(0, true), nullptr);
  EXPECT_EQ(stream.push(2, true), nullptr);
  EXPECT_EQ(stream.push(1, true), nullptr);
  EXPECT_EQ(stream.ready(), "a");
  const std::string* stop = stream.finish();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(*stop, "cb");
  EXPECT_EQ(stream.ready(), "a");
}

TEST(TextStream, does_not_look_for_stops_before_it_may_end) {
  const std::vector<std::string> stops = {"a"};
  TextStream stream(std::make_unique<HalfDecoder>(), stops);
  EXPECT_EQ(stream.push(0, false), nullptr);
  EXPECT_EQ(stream.ready(), "a");
  EXPECT_NE(stream.push(0, true), nullptr);
}

TEST(TextStream, has_no_text_without_a_decoder) {
  TextStream stream;
  EXPECT_EQ(stream.push(3, true), nullptr);
  EXPECT_EQ(stream.finish(), nullptr);
  EXPECT_EQ(stream.ready(), "");
}

}  // namespace
}  // namespace tenon
