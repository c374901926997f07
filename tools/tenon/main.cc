#include "tools/tenon/program.h"

int main(int argc, char** argv) {
  return tenon_program(argc, argv);
}
