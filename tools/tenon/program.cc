#include "tools/tenon/program.h"

#include <tenon/abi_generated.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <sstream>

#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/process/watchdog.h"
#include "tools/tenon/shell/examples.h"
#include "tools/tenon/shell/ranks.h"
#include "tools/tenon/shell/unknown_words.h"

namespace tenon {

int report_failure(const Status& status) {
  tell(status.message());
  return 1;
}

namespace {

// What the parser has to say: help and the version are output, all else is an error.
int answer_parser(CLI::App& app, const CLI::ParseError& error, std::span<const char* const> words) {
  if (const std::string unknown = explain_unknown_words(Command(app), error, words);
      !unknown.empty()) {
    tell(unknown);
    return 2;
  }
  std::ostringstream out, problem;
  const int status = app.exit(error, out, problem);
  put(out.str());
  if (const std::string text = problem.str(); !text.empty()) {
    tell(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text);
  }
  return status == 0 ? 0 : 2;
}

int run_command(int argc, char** argv, AddCommands add_commands) {
  CLI::App app(
      "Tenon runs language models through pipelines of plugins that a TOML file composes.");
  app.name("tenon");
  app.set_version_flag("--version",
                       "tenon " TENON_SDK_VERSION " (boundary " TENON_BOUNDARY_HASH ")");
  app.require_subcommand(1);
  Action action;
  add_commands(Command(app), action);
  add_examples(Command(app));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::span<const char* const> words(argv, static_cast<size_t>(argc));
    return answer_parser(app, error, words.empty() ? words : words.subspan(1));
  }
  if (asked_to_launch() > 0) return launch_ranks(argc, argv);
  return action ? action() : 2;
}

}  // namespace

int run_program(int argc, char** argv, AddCommands add_commands) {
  guard_standard_streams();
  int status = 1;
  try {
    start_watchdog();
    watch_interrupts();
    status = run_as_rank([&] { return run_command(argc, argv, add_commands); });
  } catch (const std::exception& error) {
    tell(error.what());
  }
  return end_of_program(finish_output(status));
}

}  // namespace tenon
