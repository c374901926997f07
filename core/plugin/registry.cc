#include "core/plugin/registry.h"

#include <algorithm>
#include <filesystem>

#include "core/base/text.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

bool plugin_file_name(const std::string& name) {
  return name.starts_with("libtenon-") && name.ends_with(".so");
}

bool contains(const PluginFile& file, std::string_view interface, std::string_view id) {
  if (!file.stamp) return false;
  return std::any_of(file.stamp->plugins.begin(), file.stamp->plugins.end(),
                     [&](const PluginName& plugin) {
                       return plugin.interface == interface && (id.empty() || plugin.id == id);
                     });
}

std::string lead(const Origin& asked) {
  return asked.file.empty() ? "" : asked.text() + ": ";
}

}  // namespace

uint32_t score_of(const PluginDescriptor& descriptor, const HostFacts& host) {
  return descriptor.score == nullptr ? 1 : descriptor.score(host);
}

Result<PluginRegistry> PluginRegistry::open(PluginSearch search) {
  PluginRegistry registry;
  registry.search_ = std::move(search);
  if (!registry.search_.lock_file.empty()) {
    TENON_ASSIGN_OR_RETURN(registry.pins_, read_plugin_lock(registry.search_.lock_file));
  }
  // A file that both a folder and the configuration name is one file.
  for (const PluginSearch::Folder& folder : registry.search_.folders) {
    if (folder.required) TENON_RETURN_IF_ERROR(registry.add_folder(folder));
  }
  for (const PluginSearch::NamedFile& file : registry.search_.files) {
    TENON_RETURN_IF_ERROR(registry.add_named(file));
  }
  for (const PluginSearch::Folder& folder : registry.search_.folders) {
    if (!folder.required) TENON_RETURN_IF_ERROR(registry.add_folder(folder));
  }
  return registry;
}

Status PluginRegistry::add_folder(const PluginSearch::Folder& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::directory_iterator entry(folder.path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (plugin_file_name(entry->path().filename())) paths.push_back(entry->path());
  }
  if (error && (folder.required || error != std::errc::no_such_file_or_directory)) {
    return not_found(folder.source + ": cannot read the folder '" + folder.path +
                     "': " + error.message());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) add_file(path);
  return {};
}

Status PluginRegistry::add_named(const PluginSearch::NamedFile& file) {
  if (!add_file(file.path)) return {};
  const PluginFile& added = files_.back();
  if (added.problem.ok()) return {};
  return with_context(file.origin.text() + ": plugins.load", added.problem);
}

// False when the same file was there already.
bool PluginRegistry::add_file(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  PluginFile file;
  file.path = error ? path : real.string();
  for (const PluginFile& known : files_) {
    if (known.path == file.path) return false;
  }
  auto stamp = read_stamp(file.path);
  if (stamp.ok()) {
    file.problem = check_stamp(*stamp, host_stamp(), file.path);
    file.stamp = *std::move(stamp);
  } else {
    file.problem = stamp.take_status();
  }
  files_.push_back(std::move(file));
  return true;
}

std::vector<PluginName> PluginRegistry::names(std::string_view interface) const {
  std::vector<PluginName> names;
  for (const PluginFile& file : files_) {
    if (!file.stamp) continue;
    for (const PluginName& plugin : file.stamp->plugins) {
      if (interface.empty() || plugin.interface == interface) names.push_back(plugin);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string PluginRegistry::searched() const {
  std::vector<std::string> places;
  for (const auto& folder : search_.folders) places.push_back(folder.path);
  for (const auto& file : search_.files) places.push_back(file.path);
  return places.empty() ? "nowhere was searched" : "searched: " + join(places);
}

Status PluginRegistry::unknown_id(std::string_view interface, std::string_view id,
                                  const Origin& asked) const {
  std::vector<std::string> ids;
  for (const PluginName& plugin : names(interface)) ids.push_back(plugin.id);
  const std::string word(interface_word(interface));
  if (ids.empty()) {
    return not_found(lead(asked) + "no " + word + " plugin '" + std::string(id) +
                     "': there are no " + word + " plugins at all (" + searched() +
                     "); give their folder with --plugin-path or TENON_PLUGIN_PATH");
  }
  const std::string guess = did_you_mean(id, ids);
  return not_found(lead(asked) + "no " + word + " plugin '" + std::string(id) + "'" +
                   (guess.empty() ? "." : guess) + " There are: " + join(ids) + " (" + searched() +
                   ")");
}

// Nothing that the search for `id` (empty: any of the interface) meets is unusable or ambiguous.
Status PluginRegistry::check_files(std::string_view interface, std::string_view id) const {
  for (const PluginFile& file : files_) {
    const bool may_contain = !file.stamp || contains(file, interface, id);
    if (may_contain && !file.problem.ok()) return copy(file.problem);
  }
  const std::vector<PluginName> all = names(interface);
  const auto twice = std::adjacent_find(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return a == b && (id.empty() || a.id == id);
  });
  if (twice == all.end()) return {};
  std::string paths;
  for (const PluginFile& file : files_) {
    if (contains(file, interface, twice->id)) paths += "\n  " + file.path;
  }
  return invalid_argument(std::string(interface_word(interface)) + " plugin '" + twice->id +
                          "' is in more than one file; remove or rename all but one:" + paths);
}

Result<PluginRef> PluginRegistry::load(const PluginFile& file, std::string_view interface,
                                       std::string_view id) {
  std::string sha256;
  if (pins_) {
    const std::string name = fs::path(file.path).filename();
    const auto pin = std::find_if(pins_->begin(), pins_->end(),
                                  [&](const PluginPin& p) { return p.file_name == name; });
    if (pin == pins_->end()) {
      return failed(file.path + ": not pinned in '" + search_.lock_file +
                    "'; add its line if you trust it (sha256sum prints it)");
    }
    sha256 = pin->sha256;
  }
  TENON_ASSIGN_OR_RETURN(const LoadedLibrary* library, load_library(file.path, sha256));
  const PluginDescriptor* descriptor = library->find(interface, id);
  if (descriptor == nullptr) {
    return failed(file.path + ": it changed since it was listed; start again");
  }
  return PluginRef{library, descriptor};
}

Result<PluginRef> PluginRegistry::find(std::string_view interface, std::string_view id,
                                       const Origin& asked) {
  TENON_RETURN_IF_ERROR(check_files(interface, id));
  for (const PluginFile& file : files_) {
    if (contains(file, interface, id)) return load(file, interface, id);
  }
  return unknown_id(interface, id, asked);
}

Result<PluginRef> PluginRegistry::find_usable(std::string_view interface, std::string_view id,
                                              const HostFacts& host, const Origin& asked) {
  TENON_ASSIGN_OR_RETURN(const PluginRef plugin, find(interface, id, asked));
  if (score_of(*plugin.descriptor, host) > 0) return plugin;
  const std::string_view why = plugin.descriptor->unavailable;
  return unsupported(
      lead(asked) + std::string(interface_word(interface)) + " plugin '" + std::string(id) +
      "' cannot run here: " + (why.empty() ? "it gives no reason" : std::string(why)));
}

Result<std::vector<PluginRef>> PluginRegistry::candidates(std::string_view interface,
                                                          const HostFacts& host) {
  TENON_RETURN_IF_ERROR(check_files(interface, {}));
  std::vector<PluginRef> usable;
  std::vector<std::string> reasons;
  for (const PluginName& name : names(interface)) {
    auto plugin = find_usable(interface, name.id, host);
    if (plugin.ok()) {
      usable.push_back(*plugin);
    } else if (plugin.status().code() == StatusCode::unsupported) {
      reasons.emplace_back(plugin.status().message());
    } else {
      return plugin.take_status();
    }
  }
  if (usable.empty() && reasons.empty()) return unknown_id(interface, "auto", {});
  if (usable.empty()) {
    return unsupported("no " + std::string(interface_word(interface)) +
                       " plugin can run here:\n  " + join(reasons, "\n  "));
  }
  // `names` is sorted, so a stable sort leaves ties in alphabetical order.
  std::stable_sort(usable.begin(), usable.end(), [&](const PluginRef& a, const PluginRef& b) {
    return score_of(*a.descriptor, host) > score_of(*b.descriptor, host);
  });
  return usable;
}

}  // namespace tenon
