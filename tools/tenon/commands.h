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
void add_watermark_command(CLI::App& app, Action& action);
void add_serve_command(CLI::App& app, Action& action);

// Of `model`'s commands.
void add_perplexity(CLI::App& model, Action& action);

// Prints "tenon: <message>" to standard error and returns 1.
int report_failure(const Status& status);

}  // namespace tenon
