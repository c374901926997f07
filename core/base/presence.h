// Whether a name is taken.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <string>

namespace tenon {

// True also of a link to nothing, and of what nobody may look at: reading it then says what is
// wrong, where taking it for absent would not.
inline bool is_there(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

}  // namespace tenon
