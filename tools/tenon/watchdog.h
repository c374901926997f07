// Sees to it that plugins cannot keep the program from ending, nor end it unnoticed.
//
//   a call of a plugin lasts 10 s     a warning says which
//   it lasts beyond an interrupt      the program ends at once, and says which
//   a plugin cannot be destroyed      likewise, with status 1
//   a plugin crashes or calls exit    a line says in which call
//
// What was printed by then is complete.
#pragma once

namespace tenon {

// First thing in `main`.
void start_watchdog();
// "tenon: plan of scheduler 'x' <what>" on standard error, where a call runs. Safe in handlers.
void name_running_call(const char* what) noexcept;
// Last thing: `status` unless something went wrong that only shows now.
int end_of_program(int status);

}  // namespace tenon
