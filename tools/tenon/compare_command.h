// `tenon compare`, and the arms that it starts.
#pragma once

#include "tools/tenon/commands.h"

namespace tenon {

void add_compare_command(CLI::App& app, Action& action);
void add_compare_arm_command(CLI::App& app, Action& action);

}  // namespace tenon
