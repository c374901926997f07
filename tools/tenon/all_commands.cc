// All commands of the program.
#include "tools/tenon/commands.h"
#include "tools/tenon/program.h"

namespace tenon {
namespace {

void add_commands(Command app, Action& action) {
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
  add_simulate_command(app, action);
  add_calibrate_command(app, action);
  add_plan_command(app, action);
  add_compare_arm_command(app, action);
  add_doctor_command(app, action);
  add_packaging_commands(app, action);
}

}  // namespace
}  // namespace tenon

extern "C" int tenon_program(int argc, char** argv) {
  return tenon::run_program(argc, argv, &tenon::add_commands);
}
