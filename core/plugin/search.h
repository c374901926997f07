// Where plugin files are looked for, in this order: --plugin-path, TENON_PLUGIN_PATH, files that
// the configuration names, the install folder. Never the current directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/origin.h"
#include "core/base/result.h"

namespace tenon {

// Which files may be loaded.
//   open     any; where there is a lock, only what it pins
//   locked   a lock must be there
//   signed   as open, and each that is not part of the installation has a signature
enum class PluginPolicy : uint8_t { open = 0, locked = 1, is_signed = 2 };

struct PluginSearch {
  struct NamedFile {
    std::string path;
    Origin origin;
  };
  struct Folder {
    std::string path;
    std::string source;     // "--plugin-path", "TENON_PLUGIN_PATH", "install"
    bool required = false;  // whether its absence is an error
  };
  std::vector<Folder> folders;
  std::vector<NamedFile> files;
  PluginPolicy policy = PluginPolicy::open;
  std::string public_key;  // with is_signed, as minisign prints it
  std::string lock_file;   // path of a plugins.lock; empty = nothing is pinned

  // From the command line (folders, each may be a ':' separated list), the environment, and the
  // place of the program, or of the library that this code is part of (own_file).
  static PluginSearch standard(const std::vector<std::string>& plugin_path);

  // Where a plugins.lock lies next to the configuration file `config`, it pins what may be loaded.
  void use_lock_beside(const std::string& config);
};

// Folders of the program or library at `program` (an absolute path):
// <its prefix>/<libdir>/tenon/plugins, and the build folder's own if it lies inside the build
// folder.
std::vector<std::string> plugin_folders_beside(const std::string& program);

// Pinned digests: file name and 64 hex digits, one file a line as `sha256sum` prints them.
struct PluginPin {
  std::string file_name;
  std::string sha256;
};
Result<std::vector<PluginPin>> read_plugin_lock(const std::string& path);

}  // namespace tenon
