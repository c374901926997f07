// Numbers as Python's int() and float() read them.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/result.h"
#include "core/jinja/value.h"

namespace tenon::chat {

// With white space around it, a sign, single underscores between digits, and the sign of its base
// ("0x1F" for 16). Null where it is none. Error: invalid_argument (beyond 128 bits).
Result<std::optional<Integer>> read_whole(std::string_view text, int base);
// The base that a letter after a 0 says: 16 for x, 8 for o, 2 for b, and 10 for all others.
int base_of_sign(char letter);
bool is_digit_of(char c, int base);
// Null where it is none; infinite where it is too large.
std::optional<double> read_real(std::string_view text);
// "a whole number grows beyond 128 bits"
Status beyond_integers();

}  // namespace tenon::chat
