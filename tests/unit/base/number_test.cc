#include "core/base/number.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/text.h"

namespace tenon {
namespace {

constexpr NumberSpec kCount = whole_number("count", 1, 9);
constexpr NumberSpec kShare{
    .name = "share", .min = 0, .max = 1, .above_min = true, .below_max = true};

std::string fault(const NumberSpec& spec, std::string_view text) {
  return number_fault(spec, written_number(text));
}

TEST(Number, takes_its_range_and_nothing_else) {
  for (const char* good : {"1", "9", "+3", "03"}) EXPECT_EQ(fault(kCount, good), "") << good;
  for (const char* bad : {"0", "10", "-1", "1.0", "1e0", "0x1", "1 ", " 1", "", "one", "1x", "++1",
                          "+-1", "99999999999999999999", "1e300", "nan", "inf"}) {
    EXPECT_NE(fault(kCount, bad), "") << bad;
  }
  for (const char* good : {"0.5", ".5", "5e-1", "+0.5"}) EXPECT_EQ(fault(kShare, good), "") << good;
  for (const char* bad : {"0", "1", "0.0", "1.0", "-0.5", "nan", "inf", "-inf", "0.5x", "1e999"}) {
    EXPECT_NE(fault(kShare, bad), "") << bad;
  }
}

TEST(Number, is_refused_where_it_would_round_to_one_out_of_range) {
  EXPECT_EQ(fault(kShare, "0.99999999999"),
            "share is 0.99999999999 – it must be a number above 0.0 and below 1.0 – change it or "
            "leave it out");
  EXPECT_NE(fault(kShare, "1e-60"), "");
  EXPECT_EQ(fault(real_number("rate", 1e-6, 0.1), "1e-6"), "");  // no float is 1e-6
  EXPECT_EQ(fault(real_number("rate", 1e-6, 0.1), "0.1"), "");
}

TEST(Number, says_what_was_found_what_was_expected_and_what_to_do) {
  EXPECT_EQ(fault(kCount, "1e23"),
            "count is 1e+23 – it must be a whole number from 1 to 9 – change it or leave it out");
  EXPECT_EQ(fault(kCount, "4x"),
            "count is \"4x\" – it must be a whole number from 1 to 9 – change it or leave it out");
  EXPECT_LT(fault(kCount, std::string(5000, 'x')).size(), 200u);
  NumberSpec spec = kCount;
  spec.or_auto = true;
  spec.unit = "threads";
  EXPECT_EQ(range_text(spec), "a whole number from 1 to 9 threads, or \"auto\"");
}

TEST(Number, of_a_float_has_the_digits_that_somebody_wrote) {
  EXPECT_EQ(number_text(shortest(0.1f)), "0.1");
  EXPECT_EQ(number_text(shortest(std::numeric_limits<float>::quiet_NaN())), "nan");
}

TEST(ListEntries, stand_between_commas_and_blanks) {
  using Entries = std::vector<std::string_view>;
  EXPECT_EQ(list_entries("1,2 3 , 4\n"), (Entries{"1", "2", "3", "4"}));
  EXPECT_EQ(list_entries(" \n"), Entries());
  for (const char* bad : {"1,,2", ",1", "1,", ",", "1 , ,2"}) {
    EXPECT_EQ(list_entries(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace tenon
