// `tenon run` alone: what tools/quickstart builds before the whole program.
#include "tools/tenon/program.h"

int main(int argc, char** argv) {
  return tenon::run_program(argc, argv, &tenon::add_run_command);
}
