// Numbers that people write, on command lines, in TOML and in JSON: which ones are taken, and one
// sentence for those that are not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace tenon {

struct NumberSpec {
  std::string_view name;  // as messages call it: "min_p", "--batch"
  bool whole = false;
  int64_t least = 0;  // of whole numbers
  int64_t most = 0;
  double min = 0.0;  // of others
  double max = 0.0;
  bool above_min = false;  // `min` itself is out of range
  bool below_max = false;  // `max` likewise
  bool or_auto = false;    // the word "auto" is taken too, by whoever reads it
  std::string_view unit = {};
};
constexpr NumberSpec whole_number(std::string_view name, int64_t least, int64_t most) {
  return {.name = name, .whole = true, .least = least, .most = most};
}
constexpr NumberSpec real_number(std::string_view name, double min, double max) {
  return {.name = name, .min = min, .max = max};
}

// What was written: a whole number, one with a point or an exponent, or, as it is shown, what is no
// number that fits either.
using WrittenNumber = std::variant<int64_t, double, std::string>;
// Of a command line. The whole text must be the number.
WrittenNumber written_number(std::string_view text);
std::string number_text(const WrittenNumber& written);
// A number that was kept in a float, with the digits that somebody may have written.
double shortest(float value);

// "a whole number from 0 to 4096", "a number above 0.0 and at most 1.0".
std::string range_text(const NumberSpec& spec);
// "min_p is 2.5 – it must be a number from 0.0 to 1.0 – change it or leave it out"; empty where the
// number is in range, also once it is a float.
std::string number_fault(const NumberSpec& spec, const WrittenNumber& written);
// Only of what has no fault.
double as_real(const WrittenNumber& written);

}  // namespace tenon
