// Standard output and standard error: the only place of the program that writes there. What could
// not be written is never lost silently: the command ends with a sentence and status 1, or 141
// where the reader of a pipe closed it.
#pragma once

#include <string_view>

namespace tenon {

// At the start: closed standard streams stay closed to this program, and no file that it opens
// gets their numbers; a closed pipe and a file at its limit become errors instead of the end.
void guard_standard_streams();

// Kept until there is enough to write, or until flush_output(). Nothing is written any more once
// something was lost. Not thread-safe.
void put(std::string_view text);
[[gnu::format(printf, 1, 2)]] void putf(const char* format, ...);
void flush_output();
// Something could not be written: there is no use in going on.
bool output_lost();

// Writes what is left and closes standard output. The exit status: `status`, or that of a loss.
int finish_output(int status);

// A line on standard error, escaped (core/base/quote.h), in one piece.
void say(std::string_view line);
// The same after "tenon: ".
void tell(std::string_view message);

}  // namespace tenon
