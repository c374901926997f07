// The program's commands. Each adds itself to the command line and, when chosen, runs and returns
// the exit status: 0 success, 1 failure, 2 wrong usage, 128 + its number where a signal ended it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "core/base/result.h"

namespace tenon {

// Set by the chosen command's callback; run by main once parsing is over.
using Action = std::function<int()>;

void add_run_command(CLI::App& app, Action& action);
void add_embed_command(CLI::App& app, Action& action);
void add_tokenize_commands(CLI::App& app, Action& action);
void add_chat_command(CLI::App& app, Action& action);
void add_model_command(CLI::App& app, Action& action);
void add_convert_command(CLI::App& model, Action& action);  // of `tenon model`
void add_plugins_command(CLI::App& app, Action& action);
void add_config_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_workload_command(CLI::App& app, Action& action);
void add_watermark_command(CLI::App& app, Action& action);
void add_serve_command(CLI::App& app, Action& action);
void add_load_command(CLI::App& app, Action& action);
void add_packaging_commands(CLI::App& app, Action& action);  // of what is installed next to it
void add_doctor_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_compare_arm_command(CLI::App& app, Action& action);  // which `tenon compare` starts

// Of `compare`'s commands.
CLI::App* add_compare_replay(CLI::App& compare, Action& action);
CLI::App* add_compare_pairs(CLI::App& compare, Action& action);

// Of `plugins`' commands.
void add_plugins_new(CLI::App& plugins, Action& action);
void add_plugins_build(CLI::App& plugins, Action& action);
void add_plugins_check(CLI::App& plugins, Action& action);
void add_plugins_lock(CLI::App& plugins, Action& action);

// Of `model`'s commands.
void add_perplexity(CLI::App& model, Action& action);
void add_model_compare(CLI::App& model, Action& action);
void add_model_quantize(CLI::App& model, Action& action);
void add_model_prune(CLI::App& model, Action& action);

// Prints "tenon: <message>" to standard error and returns 1.
int report_failure(const Status& status);

}  // namespace tenon
