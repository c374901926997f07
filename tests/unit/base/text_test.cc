#include "core/base/text.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

using Words = std::vector<std::string>;

TEST(Nearest, finds_a_typing_error) {
  const Words known = {"scheduler", "sampler", "kv_cache"};
  EXPECT_EQ(nearest("schedluer", known), "scheduler");
  EXPECT_EQ(nearest("kvcache", known), "kv_cache");
  EXPECT_EQ(did_you_mean("smapler", known), "; did you mean 'sampler'?");
}

TEST(Nearest, is_silent_when_nothing_is_near) {
  EXPECT_EQ(nearest("temperature", Words{"scheduler", "sampler"}), std::nullopt);
  EXPECT_EQ(did_you_mean("x", Words{}), "");
  EXPECT_EQ(nearest(std::string(100000, 'a'), Words{std::string(100000, 'a')}), std::nullopt);
}

TEST(Bytes, read_units_of_1024) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("64MiB"), 64 << 20);
  EXPECT_EQ(parse_bytes(" 1.5 KiB "), 1536);
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993);
  EXPECT_EQ(parse_bytes("9223372036854775807B"), INT64_MAX);
}

TEST(Bytes, refuse_what_is_no_size) {
  for (const char* bad : {"", "MiB", "-1", "1MB", "1e3", "0.3B", "1KiBs", "8388608TiB", "nan"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

TEST(Bytes, are_written_in_the_largest_unit_that_divides) {
  EXPECT_EQ(format_bytes(0), "0B");
  EXPECT_EQ(format_bytes(1000), "1000B");
  EXPECT_EQ(format_bytes(3 << 20), "3MiB");
  EXPECT_EQ(approximate_bytes(3'435'973'837), "3.2 GiB");
  EXPECT_EQ(approximate_bytes(12), "12 B");
}

TEST(Duration, reads_back_what_it_writes) {
  for (int64_t ns : {int64_t{1}, int64_t{1500}, int64_t{5'000'000}, int64_t{3'600'000'000'000}}) {
    EXPECT_EQ(parse_duration_ns(format_duration(ns)), ns);
  }
  EXPECT_EQ(parse_duration_ns("1.5s"), 1'500'000'000);
  EXPECT_EQ(parse_duration_ns("10m"), parse_duration_ns("10min"));
  EXPECT_EQ(parse_duration_ns("5"), std::nullopt);
  EXPECT_EQ(parse_duration_ns("5 weeks"), std::nullopt);
}

TEST(Real, is_written_as_a_real) {
  EXPECT_EQ(format_real(1.0), "1.0");
  EXPECT_EQ(format_real(0.1), "0.1");
  EXPECT_EQ(format_real(1e300), "1e+300");
}

TEST(Join, says_and_before_the_last_of_several) {
  EXPECT_EQ(join_and(Words{}), "");
  EXPECT_EQ(join_and(Words{"a"}), "a");
  EXPECT_EQ(join_and(Words{"a", "b"}), "a and b");
  EXPECT_EQ(join_and(Words{"a", "b", "c"}), "a, b and c");
}

TEST(Split, leaves_out_what_is_empty) {
  EXPECT_EQ(split(":a::b:", ':'), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_TRUE(split("", ':').empty());
}

}  // namespace
}  // namespace tenon
