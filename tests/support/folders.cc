#include "tests/support/folders.h"

namespace tenon {

std::string source_folder() {
  return TENON_SOURCE_DIR;
}

std::string build_folder() {
  return TENON_BINARY_DIR;
}

std::string golden_models() {
  return TENON_BINARY_DIR "/tests/golden/models/";
}

std::string golden_ggufs() {
  return TENON_BINARY_DIR "/tests/golden/gguf/";
}

}  // namespace tenon
