// Where tests find what they read. They look nowhere else.
#pragma once

#include <string>

namespace tenon {

std::string source_folder();  // of the repository
std::string build_folder();

}  // namespace tenon
