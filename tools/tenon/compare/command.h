// `tenon compare`, and the arms that it starts.
#pragma once

#include "tools/tenon/commands.h"

namespace tenon {

void add_compare_command(CLI::App& app, Action& action);
// `tenon compare replay`, of `compare`.
CLI::App* add_compare_replay(CLI::App& compare, Action& action);
// `tenon compare pairs`, likewise.
CLI::App* add_compare_pairs(CLI::App& compare, Action& action);
void add_compare_arm_command(CLI::App& app, Action& action);

}  // namespace tenon
