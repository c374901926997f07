// Completion of the program's command line, as scripts for shells.
#pragma once

#include "tools/tenon/shell/command_table.h"

namespace tenon {

// Each offers a command's own commands and options, and files where a value may be one.
std::string bash_completion(const CommandEntry& root);
std::string zsh_completion(const CommandEntry& root);
std::string fish_completion(const CommandEntry& root);

}  // namespace tenon
