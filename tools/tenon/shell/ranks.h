// The program as several processes (docs/parallel.md): started by --launch, or by mpirun itself.
#pragma once

#include <functional>

#include "tools/tenon/shell/command_line.h"

namespace tenon {

// --launch N, of a command that opens a pipeline.
void add_launch(Command command);
// Processes that --launch asked for; 0: it was not given.
uint32_t asked_to_launch();
// Processes that --launch of this program's launcher asked for, as one of them; 0: it did not.
uint32_t launched_as();
// Becomes Open MPI's mpirun, which starts this program so many times with the rest of the command
// line. Returns only what went wrong, said already: the exit status.
int launch_ranks(int argc, char** argv);

// Runs `command` where this process is alone, or rank 0; another rank follows rank 0 until it ends.
// The exit status.
int run_as_rank(const std::function<int()>& command);

}  // namespace tenon
