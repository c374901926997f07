#include "core/base/files/own_place.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// The kernel's list of mappings tells a library from the program that loaded it, with an absolute
// path whatever the current folder has become since.
std::string find_own_file() {
  const auto here = reinterpret_cast<uintptr_t>(&find_own_file);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    // "5581…000-5581…000 r-xp 00002000 08:01 131  /usr/bin/tenon"
    char* end = nullptr;
    const uintptr_t first = std::strtoull(line.c_str(), &end, 16);
    const uintptr_t last = *end == '-' ? std::strtoull(end + 1, nullptr, 16) : 0;
    if (here < first || here >= last) continue;
    const size_t path = line.find('/');
    if (path != line.npos) return line.substr(path);
  }
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

}  // namespace

std::string own_file() {
  static const std::string kFile = find_own_file();
  return kFile;
}

std::string_view library_folder() {
  return TENON_INSTALL_LIBDIR;
}

std::string install_prefix(const std::string& file) {
  fs::path prefix = fs::path(file).parent_path();
  const std::string libraries = "/" + std::string(library_folder());
  if (!prefix.string().ends_with(libraries)) return prefix.parent_path().string();
  return prefix.string().substr(0, prefix.string().size() - libraries.size());
}

}  // namespace tenon
