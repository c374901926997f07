// The program's commands. Each adds itself to the command line and, when chosen, runs and returns
// the exit status: 0 success, 1 failure, 2 wrong usage, 128 + its number where a signal ended it.
#pragma once

#include <functional>

#include "core/base/result.h"
#include "tools/tenon/shell/command_line.h"

namespace tenon {

// Set by the chosen command's callback; run by main once parsing is over.
using Action = std::function<int()>;

void add_run_command(Command app, Action& action);
void add_embed_command(Command app, Action& action);
void add_tokenize_commands(Command app, Action& action);
void add_chat_command(Command app, Action& action);
void add_model_command(Command app, Action& action);
void add_convert_command(Command model, Action& action);  // of `tenon model`
void add_plugins_command(Command app, Action& action);
void add_config_command(Command app, Action& action);
void add_bench_command(Command app, Action& action);
void add_workload_command(Command app, Action& action);
void add_watermark_command(Command app, Action& action);
void add_serve_command(Command app, Action& action);
void add_load_command(Command app, Action& action);
void add_packaging_commands(Command app, Action& action);  // of what is installed next to it
void add_doctor_command(Command app, Action& action);
void add_compare_command(Command app, Action& action);
void add_simulate_command(Command app, Action& action);
void add_calibrate_command(Command app, Action& action);
void add_plan_command(Command app, Action& action);
void add_compare_arm_command(Command app, Action& action);  // which `tenon compare` starts

// Of `compare`'s commands.
void add_compare_replay(Command compare, Action& action);
void add_compare_pairs(Command compare, Action& action);

// Of `plugins`' commands.
void add_plugins_new(Command plugins, Action& action);
void add_plugins_build(Command plugins, Action& action);
void add_plugins_check(Command plugins, Action& action);
void add_plugins_lock(Command plugins, Action& action);

// Of `model`'s commands.
void add_perplexity(Command model, Action& action);
void add_model_compare(Command model, Action& action);
void add_model_quantize(Command model, Action& action);
void add_model_prune(Command model, Action& action);
void add_model_families(Command model, Action& action);
void add_model_pull(Command model, Action& action);
void add_model_fit(Command model, Action& action);

// Prints "tenon: <message>" to standard error and returns 1.
int report_failure(const Status& status);

}  // namespace tenon
