// Where the core's own code lies: in a program, or in a library that a stranger's program loaded.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// The absolute path of the file that this code was loaded from, links resolved; empty if the system
// does not tell. [any thread]
std::string own_file();

// The folder of libraries below a prefix: "lib", "lib64", "lib/x86_64-linux-gnu".
std::string_view library_folder();

// The prefix that `file` is installed under: <prefix>/bin/tenon and <prefix>/<libdir>/libtenon.so
// both give <prefix>, and what lies in either folder of a build gives the build's.
std::string install_prefix(const std::string& file);

}  // namespace tenon
