// A program whose commands are chosen on its command line.
#pragma once

#include "tools/tenon/commands.h"

namespace tenon {

// Adds what the program can do to `app`; the chosen command sets `action`.
using AddCommands = void (*)(Command app, Action& action);

// Parses the command line and runs the chosen command. Called once, by main; returns the program's
// exit status (commands.h).
int run_program(int argc, char** argv, AddCommands add_commands);

}  // namespace tenon

// The program with all its commands, for main alone. It can be seen from outside, since it lies in
// libtenon where that is built with TENON_SMALL.
extern "C" __attribute__((visibility("default"))) int tenon_program(int argc, char** argv);
