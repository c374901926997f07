#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "tests/unit/grammar/grammar_testing.h"

namespace tenon::grammar {
namespace {

std::string hundredths(int value) {
  const int size = std::abs(value);
  std::string text = (value < 0 ? "-" : "") + std::to_string(size / 100);
  if (size % 100 == 0) return text;
  const std::string rest = std::to_string(100 + size % 100).substr(1);
  return text + "." + (rest[1] == '0' ? rest.substr(0, 1) : rest);
}

TEST(NumberLanguage, bounds_of_integers_hold_for_each_integer) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const int a = static_cast<int>(random() % 400) - 200,
              b = static_cast<int>(random() % 400) - 200;
    const int low = std::min(a, b), high = std::max(a, b);
    const bool open = random() % 2 == 0;
    const std::string schema = R"({"type":"integer","minimum":)" + std::to_string(low) +
                               (open ? R"(,"exclusiveMaximum":)" : R"(,"maximum":)") +
                               std::to_string(high) + "}";
    if (open && low == high) continue;
    const auto grammar = compiled(GrammarKind::json_schema, schema);
    ASSERT_NE(grammar, nullptr);
    for (int value = -1100; value <= 1100; ++value) {
      const bool expected = value >= low && (open ? value < high : value <= high);
      ASSERT_EQ(matches(*grammar, std::to_string(value)), expected) << schema << " " << value;
    }
  }
}

TEST(NumberLanguage, bounds_of_numbers_hold_for_each_hundredth) {
  std::mt19937 random(12);
  for (int round = 0; round < 40; ++round) {
    const int low = static_cast<int>(random() % 600) - 300;
    const int high = low + 1 + static_cast<int>(random() % 300);
    const bool open = random() % 2 == 0;
    const std::string schema = std::string(R"({"type":"number",")") +
                               (open ? "exclusiveMinimum" : "minimum") + "\":" + hundredths(low) +
                               ",\"" + (open ? "exclusiveMaximum" : "maximum") +
                               "\":" + hundredths(high) + "}";
    const auto grammar = compiled(GrammarKind::json_schema, schema);
    ASSERT_NE(grammar, nullptr);
    for (int value = -1200; value <= 1200; ++value) {
      const bool expected = open ? value > low && value < high : value >= low && value <= high;
      ASSERT_EQ(matches(*grammar, hundredths(value)), expected) << schema << " " << value;
    }
  }
}

TEST(NumberLanguage, multiples_are_exact) {
  const auto sevens =
      compiled(GrammarKind::json_schema, R"({"type":"integer","multipleOf":7,"minimum":-60})");
  const auto quarters =
      compiled(GrammarKind::json_schema, R"({"type":"number","multipleOf":0.25})");
  for (int value = -100; value <= 400; ++value) {
    EXPECT_EQ(matches(*sevens, std::to_string(value)), value >= -60 && value % 7 == 0) << value;
    EXPECT_EQ(matches(*quarters, hundredths(value)), value % 25 == 0) << value;
  }
  EXPECT_FALSE(matches(*quarters, "1.250001"));
}

TEST(NumberLanguage, without_bounds_is_any_number_of_json) {
  const auto number = compiled(GrammarKind::json_schema, R"({"type":"number"})");
  for (const char* text : {"0", "-0", "12", "-1.5", "1e5", "2.25E-10", "0.001"}) {
    EXPECT_TRUE(matches(*number, text)) << text;
  }
  for (const char* text : {"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "1e999"}) {
    EXPECT_FALSE(matches(*number, text)) << text;
  }
}

}  // namespace
}  // namespace tenon::grammar
