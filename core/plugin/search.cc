// Where plugins are looked for: folders and plugins.lock. registry.cc finds one by its name.
#include "core/plugin/search.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/base/files/mapped_file.h"
#include "core/base/files/own_place.h"
#include "core/base/text.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
constexpr size_t kLargestLock = 1 << 20;

bool inside(const fs::path& path, const fs::path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

Status bad_line(const std::string& path, size_t line) {
  return invalid_argument(path + ":" + std::to_string(line) +
                          ": expected 64 hex digits, two spaces and a file name, as sha256sum "
                          "prints them");
}

bool hex_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

std::vector<std::string> plugin_folders_beside(const std::string& program) {
  std::vector<std::string> folders;
  folders.push_back((fs::path(install_prefix(program)) / library_folder() / "tenon" / "plugins")
                        .lexically_normal());
  const fs::path build = TENON_BUILD_FOLDER;
  if (inside(fs::path(program).parent_path(), build)) folders.push_back(build / "plugins");
  return folders;
}

PluginSearch PluginSearch::standard(const std::vector<std::string>& plugin_path) {
  PluginSearch search;
  for (const std::string& list : plugin_path) {
    for (std::string_view folder : split(list, ':')) {
      search.folders.push_back({std::string(folder), "--plugin-path", true});
    }
  }
  if (const char* list = std::getenv("TENON_PLUGIN_PATH")) {
    for (std::string_view folder : split(list, ':')) {
      search.folders.push_back({std::string(folder), "TENON_PLUGIN_PATH", true});
    }
  }
  const std::string own = own_file();
  if (own.empty()) return search;
  for (const std::string& folder : plugin_folders_beside(own)) {
    search.folders.push_back({folder, "install", false});
  }
  return search;
}

void PluginSearch::use_lock_beside(const std::string& config) {
  const fs::path path = fs::path(config).parent_path() / "plugins.lock";
  // Also one that cannot be read, as a link that leads nowhere: it was meant to pin something.
  std::error_code error;
  const bool absent = fs::symlink_status(path, error).type() == fs::file_type::not_found;
  if (!absent) lock_file = path.string();
}

Result<std::vector<PluginPin>> read_plugin_lock(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestLock));
  std::vector<PluginPin> pins;
  size_t number = 0;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trim(std::string_view(text).substr(at, end - at));
    at = end + 1;
    if (line.empty() || line[0] == '#') continue;
    const std::string_view name = line.size() > 66 ? line.substr(66) : "";
    if (!hex_digest(line.substr(0, 64)) || name.empty() || line[64] != ' ') {
      return bad_line(path, number + 1);
    }
    pins.push_back({fs::path(name).filename(), std::string(line.substr(0, 64))});
  }
  return pins;
}

}  // namespace tenon
