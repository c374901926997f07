// Machines as TOML files (docs/formats/machine-toml.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/sim/machine.h"

namespace tenon::sim {

// `name` is the file's path: messages begin with it, and the machine is called after its last part.
// Error: invalid_argument, all faults of the text at once, or the first figure that makes no sense.
Result<Machine> parse_machine(std::string_view text, const std::string& name);
std::string machine_toml(const Machine& machine);

// A name ("h100": NAME.toml in `folder`), or a file, which has a "/" or ends in ".toml". Errors:
// not_found, with the names that there are; those of parse_machine.
Result<Machine> read_machine(const std::string& name_or_path, const std::string& folder);
// Sorted; empty where there is no such folder.
std::vector<std::string> machine_names(const std::string& folder);

}  // namespace tenon::sim
