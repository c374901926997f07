// Sees to it that plugins cannot keep the program from ending, nor end it unnoticed.
//
//   a call of a plugin lasts 10 s     a warning says which
//   it lasts beyond an interrupt      the program ends at once, and says which
//   a plugin cannot be destroyed      likewise, with status 1
//   a plugin crashes or calls exit    a line says in which call
//   the program crashes elsewhere     a line says which call returned last
//
// What was printed by then is complete.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tenon {

// First thing in `main`.
void start_watchdog();
// Writes "tenon: plan of scheduler 'x' <what>" into `room`, as far as it fits, and returns its
// length: 0 where no call runs. Safe in handlers.
size_t running_call_line(std::span<char> room, std::string_view what) noexcept;
// The same of a crash while no call runs, which one that returned may have prepared: never empty.
size_t crash_line_outside_of_calls(std::span<char> room) noexcept;
// Ends the program without destructors, which may be what does not end: unfinished files are
// removed, then `text` is said on standard error. Safe in handlers.
[[noreturn]] void end_at_once(int status, std::string_view text) noexcept;
// Last thing: `status` unless something went wrong that only shows now.
int end_of_program(int status);

}  // namespace tenon
