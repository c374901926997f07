#include <tenon/abi_generated.h>

#include <exception>
#include <sstream>

#include "tools/tenon/commands.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/process/watchdog.h"
#include "tools/tenon/shell/unknown_words.h"

namespace tenon {

int report_failure(const Status& status) {
  tell(status.message());
  return 1;
}

namespace {

// What the parser has to say: help and the version are output, all else is an error.
int answer_parser(const CLI::App& app, const CLI::ParseError& error,
                  std::span<const char* const> words) {
  if (const std::string unknown = explain_unknown_words(app, error, words); !unknown.empty()) {
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

int run_program(int argc, char** argv) {
  CLI::App app(
      "Tenon runs language models through pipelines of plugins that a TOML file composes.");
  app.name("tenon");
  app.set_version_flag("--version",
                       "tenon " TENON_SDK_VERSION " (boundary " TENON_BOUNDARY_HASH ")");
  app.require_subcommand(1);
  Action action;
  add_run_command(app, action);
  add_embed_command(app, action);
  add_tokenize_commands(app, action);
  add_chat_command(app, action);
  add_model_command(app, action);
  add_plugins_command(app, action);
  add_config_command(app, action);
  add_bench_command(app, action);
  add_workload_command(app, action);
  add_watermark_command(app, action);
  add_serve_command(app, action);
  add_load_command(app, action);
  add_compare_command(app, action);
  add_compare_arm_command(app, action);
  add_doctor_command(app, action);
  add_packaging_commands(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::span<const char* const> words(argv, static_cast<size_t>(argc));
    return answer_parser(app, error, words.empty() ? words : words.subspan(1));
  }
  return action ? action() : 2;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::guard_standard_streams();
  tenon::start_watchdog();
  tenon::watch_interrupts();
  int status = 1;
  try {
    status = tenon::run_program(argc, argv);
  } catch (const std::exception& error) {
    tenon::tell(error.what());
  }
  return tenon::end_of_program(tenon::finish_output(status));
}
