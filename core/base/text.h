// Small helpers for messages and for values that people write.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// "a, b, c"
std::string join(std::span<const std::string> parts, std::string_view separator = ", ");
// "a", "a and b", "a, b and c"; "" for no parts.
std::string join_and(std::span<const std::string> parts);
// The parts between `separator`s; empty ones are left out.
std::vector<std::string_view> split(std::string_view text, char separator);
// What a list has between its separators: one comma, white space, or both. Null where an entry is
// empty ("1,,2", "1,"); a text of white space alone has no entries.
std::optional<std::vector<std::string_view>> list_entries(std::string_view text);
std::string_view trim(std::string_view text);

// The known word that `word` was probably meant to be: few edits away relative to its length.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);
// "; did you mean 'x'?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

// Digits with an optional unit B, KiB, MiB, GiB or TiB. Null when it is neither, is fractional in
// bytes, or is 2^63 or more.
std::optional<int64_t> parse_bytes(std::string_view text);
// In the largest unit that divides it: "64MiB", "1000B".
std::string format_bytes(int64_t bytes);
// For people, rounded: "3.2 GiB".
std::string approximate_bytes(uint64_t bytes);

// A number with a unit ns, us, ms, s, min or h: "5ms", "1.5s". Null when it is not one.
std::optional<int64_t> parse_duration_ns(std::string_view text);
std::string format_duration(int64_t ns);

// The shortest decimal that reads back as the same double, always with a point or an exponent.
std::string format_real(double value);

}  // namespace tenon
