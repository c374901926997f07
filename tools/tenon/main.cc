#include <tenon/abi_generated.h>

#include <cstdio>
#include <exception>

#include "tools/tenon/commands.h"

namespace tenon {

int report_failure(const Status& status) {
  const std::string_view message = status.message();
  std::fprintf(stderr, "tenon: %.*s\n", static_cast<int>(message.size()), message.data());
  return 1;
}

namespace {

int run_program(int argc, char** argv) {
  CLI::App app(
      "Tenon runs language models through pipelines of plugins that a TOML file composes.");
  app.name("tenon");
  app.set_version_flag("--version",
                       "tenon " TENON_SDK_VERSION " (boundary " TENON_BOUNDARY_HASH ")");
  app.require_subcommand(1);
  Action action;
  add_run_command(app, action);
  add_tokenize_commands(app, action);
  add_model_command(app, action);
  add_plugins_command(app, action);
  add_config_command(app, action);
  add_bench_command(app, action);
  add_watermark_command(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  return action ? action() : 2;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  try {
    return tenon::run_program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tenon: %s\n", error.what());
    return 1;
  }
}
