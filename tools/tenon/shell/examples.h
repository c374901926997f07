// What --help and the manual page of a command end with.
#pragma once

#include "tools/tenon/shell/command_line.h"

namespace tenon {

// Gives the commands below `program` their examples; those that it does not have are passed over.
void add_examples(Command program);

}  // namespace tenon
