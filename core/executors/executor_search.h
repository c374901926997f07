// Executors that are libraries, found by name when a pipeline asks for one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/exec/executor.h"

namespace tenon {

// Of this program or library, where it is installed or in its build folder.
std::vector<std::string> installed_executor_folders();
// Folders next to those in which plugins are installed, for a program at `program`.
std::vector<std::string> executor_folders_beside(const std::string& program);

// The factory of libtenon-executor-<name>.so in the first of `folders` that has it, loaded and
// checked. What the factory refuses comes as "installed, but …". Errors: not_found (the executor is
// not installed), failed or unsupported (it is of another build, or cannot be loaded). [control]
Result<ExecutorFactory> find_executor(std::string_view name,
                                      const std::vector<std::string>& folders);

}  // namespace tenon
