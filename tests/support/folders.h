// Where tests find what they read. They look nowhere else.
#pragma once

#include <string>

namespace tenon {

std::string source_folder();  // of the repository
std::string build_folder();
// With a slash at its end: tests/golden/models, with the weights that its recipes mean.
std::string golden_models();
std::string golden_ggufs();  // the same of tests/golden/gguf

}  // namespace tenon
