#include "core/plugin/registry.h"

#include <algorithm>
#include <filesystem>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/plugin/descriptor_check.h"
#include "core/plugin/signature.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

bool plugin_file_name(const std::string& name) {
  return name.starts_with("libtenon-") && name.ends_with(".so");
}

// Best first; names come sorted, so a stable sort leaves ties in alphabetical order.
void sort_by_score(std::vector<PluginRef>& plugins, const HostFacts& host) {
  std::stable_sort(plugins.begin(), plugins.end(), [&](const PluginRef& a, const PluginRef& b) {
    return score_of(a, host) > score_of(b, host);
  });
}

void tell_file(const PluginFile& file, const std::string& source) {
  if (log_level() > LogLevel::debug) return;
  std::string text = path_in_quotes(file.path) + " (" + source + ")";
  if (file.stamp) {
    for (const PluginName& plugin : file.stamp->plugins) {
      text += " " + plugin.interface + ":" + plugin.id;
    }
  }
  if (!file.problem.ok()) text += " cannot be used: " + one_line(file.problem);
  log(LogLevel::debug, "plugins", text);
}

// For "auto", which takes the first that fits.
void tell_order(const std::vector<PluginRef>& plugins, const HostFacts& host) {
  if (log_level() > LogLevel::debug) return;
  std::string text;
  for (const PluginRef& plugin : plugins) {
    text += (text.empty() ? "" : ", ") + std::string(plugin.descriptor->id) + " (score " +
            std::to_string(score_of(plugin, host)) + ")";
  }
  log(LogLevel::debug, "plugins",
      std::string(interface_word(plugins[0].descriptor->interface)) + ", best first: " + text);
}

void warn_of_writers(const std::string& folder) {
  std::error_code error;
  const fs::perms perms = fs::status(folder, error).permissions();
  if (error || (perms & fs::perms::others_write) == fs::perms::none) return;
  log(LogLevel::warning, "plugins",
      "everybody on this machine can write to the plugin folder '" + folder +
          "', and so run code in this program – chmod o-w it");
}

std::string lead(const Origin& asked) {
  return asked.file.empty() ? "" : asked.text() + ": ";
}

}  // namespace

std::string one_line(const Status& problem) {
  std::string text(problem.message());
  std::replace(text.begin(), text.end(), '\n', ' ');
  return one_line(text, kMostMessageBytes);
}

bool PluginFile::has(std::string_view interface, std::string_view id) const {
  return stamp &&
         std::find(stamp->plugins.begin(), stamp->plugins.end(),
                   PluginName{std::string(interface), std::string(id)}) != stamp->plugins.end();
}

uint32_t score_of(const PluginDescriptor& descriptor, const HostFacts& host) {
  return descriptor.score == nullptr ? 1 : descriptor.score(host);
}

uint32_t score_of(const PluginRef& plugin, const HostFacts& host) {
  const ForeignLibrary* foreign = plugin.library->foreign;
  return foreign == nullptr ? score_of(*plugin.descriptor, host)
                            : foreign->score(*plugin.descriptor, host);
}

namespace {

// Why a plugin of an interface cannot have a process of its own.
std::string_view why_in_process(std::string_view interface) {
  return interface_word(interface) == "kv_store"
             ? " open files and sockets, which a process of their own may not"
             : " share memory with the executor and cannot have a process of their own";
}

}  // namespace

bool may_be_isolated(std::string_view interface) {
  return interface == kSchedulerInterface || interface == kSamplerInterface ||
         interface == kDrafterInterface;
}

Result<PluginRegistry> PluginRegistry::open(PluginSearch search) {
  PluginRegistry registry;
  registry.search_ = std::move(search);
  if (registry.search_.policy == PluginPolicy::locked && registry.search_.lock_file.empty()) {
    return not_found(
        "plugins.policy is \"locked\", but there is no plugins.lock beside the configuration; "
        "write "
        "it with `tenon plugins lock`, and look at what it lists");
  }
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
    return not_found(folder.source + ": cannot read the folder " + path_in_quotes(folder.path) +
                     ": " + error.message());
  }
  if (!paths.empty()) warn_of_writers(folder.path);
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) add_file(path, folder.source);
  return {};
}

Status PluginRegistry::add_named(const PluginSearch::NamedFile& file) {
  if (!add_file(file.path, file.origin.text())) return {};
  const PluginFile& added = files_.back();
  if (added.problem.ok()) return {};
  return with_context(file.origin.text() + ": plugins.load", added.problem);
}

// False when the same file was there already.
bool PluginRegistry::add_file(const std::string& path, const std::string& source) {
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
    file.stray = file.problem.code() == StatusCode::unsupported;
  }
  file.installed = lies_in_installation(file.path);
  tell_file(file, source);
  files_.push_back(std::move(file));
  return true;
}

bool PluginRegistry::lies_in_installation(const std::string& path) const {
  const fs::path folder = fs::path(path).parent_path();
  return std::ranges::any_of(search_.folders, [&](const PluginSearch::Folder& known) {
    std::error_code error;
    return known.source == "install" && fs::canonical(known.path, error) == folder && !error;
  });
}

std::vector<PluginName> PluginRegistry::names(std::string_view interface) const {
  std::vector<PluginName> names;
  for (const PluginFile& file : files_) {
    if (!file.problem.ok()) continue;
    for (const PluginName& plugin : file.stamp->plugins) {
      const bool wanted =
          interface.empty() ? knows_interface(plugin.interface) : plugin.interface == interface;
      if (wanted) names.push_back(plugin);
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
    return not_found(lead(asked) + "no " + word + " plugin " + in_quotes(id) + ": there are no " +
                     word + " plugins at all (" + searched() +
                     "); give their folder with --plugin-path or TENON_PLUGIN_PATH");
  }
  const std::string guess = did_you_mean(id, ids);
  return not_found(lead(asked) + "no " + word + " plugin " + in_quotes(id) +
                   (guess.empty() ? "." : guess) + " There are: " + join(ids) + " (" + searched() +
                   ")");
}

// Why there is nothing to load: what files say that cannot be used, else that nobody has it.
Status PluginRegistry::no_file(std::string_view interface, std::string_view id,
                               const Origin& asked) const {
  const std::string what = std::string(interface_word(interface)) + " plugin " + in_quotes(id);
  for (const PluginFile& file : files_) {
    if (file.has(interface, id)) return copy(file.problem);
  }
  for (const PluginFile& file : files_) {
    if (!file.stamp) continue;
    for (const PluginName& plugin : file.stamp->plugins) {
      if (plugin.id != id || interface_word(plugin.interface) != interface_word(interface))
        continue;
      return unsupported(lead(asked) + what + " is there for " + plugin.interface +
                         ", this host speaks " + std::string(interface) +
                         ": rebuild it against this host's SDK (" + host_stamp().sdk + ")\n  " +
                         file.path);
    }
  }
  const Status unknown = unknown_id(interface, id, asked);
  std::string broken;
  for (const PluginFile& file : files_) {
    if (!file.stamp && !file.stray) broken += "\n  " + one_line(file.problem);
  }
  if (broken.empty()) return copy(unknown);
  return Status::error(unknown.code(),
                       message_of(unknown) + "\nIt may be in a file that cannot be read:" + broken);
}

// No id of the interface (or this one alone) is in two files.
Status PluginRegistry::check_unique(std::string_view interface, std::string_view id) const {
  const std::vector<PluginName> all = names(interface);
  const auto twice = std::adjacent_find(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return a == b && (id.empty() || a.id == id);
  });
  if (twice == all.end()) return {};
  std::string paths;
  for (const PluginFile& file : files_) {
    if (file.problem.ok() && file.has(interface, twice->id)) paths += "\n  " + file.path;
  }
  return invalid_argument(std::string(interface_word(interface)) + " plugin " +
                          in_quotes(twice->id) +
                          " is in more than one file; remove or rename all but one:" + paths);
}

Result<PluginRef> PluginRegistry::load(const PluginFile& file, std::string_view interface,
                                       std::string_view id) {
  std::string sha256;
  if (pins_) {
    const std::string name = fs::path(file.path).filename();
    const auto pin = std::find_if(pins_->begin(), pins_->end(),
                                  [&](const PluginPin& p) { return p.file_name == name; });
    if (pin == pins_->end()) {
      return failed(file.path + ": not pinned in " + path_in_quotes(search_.lock_file) +
                    "; add it if you trust it (`tenon plugins lock` writes all)");
    }
    sha256 = pin->sha256;
  }
  if (search_.policy == PluginPolicy::is_signed && !file.installed) {
    TENON_ASSIGN_OR_RETURN(const std::string verified,
                           verify_signed_file(file.path, search_.public_key));
    // A pin that says something else is told as such.
    if (sha256.empty()) sha256 = verified;
  }
  const bool isolated = isolate_ && (only_looks_ || !file.installed);
  if (isolated && !only_looks_ && !may_be_isolated(interface)) {
    return unsupported(file.path + ": engine.guard is \"isolate\", but plugins for " +
                       std::string(interface_word(interface)) +
                       std::string(why_in_process(interface)) +
                       "; install the file where the program's own plugins are if you trust it, or "
                       "set engine.guard = \"checks\"");
  }
  TENON_ASSIGN_OR_RETURN(const LoadedLibrary* library,
                         isolated ? isolate_(file.path, sha256) : load_library(file.path, sha256));
  const PluginDescriptor* descriptor = library->find(interface, id);
  if (descriptor == nullptr) {
    return failed(file.path + ": it changed since it was listed; start again");
  }
  return PluginRef{library, descriptor};
}

Result<PluginRef> PluginRegistry::find(std::string_view interface, std::string_view id,
                                       const Origin& asked) {
  TENON_RETURN_IF_ERROR(check_unique(interface, id));
  for (const PluginFile& file : files_) {
    if (file.problem.ok() && file.has(interface, id)) return load(file, interface, id);
  }
  return no_file(interface, id, asked);
}

Result<PluginRef> PluginRegistry::find_usable(std::string_view interface, std::string_view id,
                                              const HostFacts& host, const Origin& asked) {
  TENON_ASSIGN_OR_RETURN(const PluginRef plugin, find(interface, id, asked));
  if (score_of(plugin, host) > 0) return plugin;
  const std::string_view why = plugin.descriptor->unavailable;
  return unsupported(
      lead(asked) + std::string(interface_word(interface)) + " plugin " + in_quotes(id) +
      " cannot run here: " + (why.empty() ? "it gives no reason" : std::string(why)));
}

Result<std::vector<PluginRef>> PluginRegistry::candidates(std::string_view interface,
                                                          const HostFacts& host) {
  TENON_RETURN_IF_ERROR(check_unique(interface, {}));
  std::vector<PluginRef> usable;
  std::vector<std::string> reasons;
  for (const PluginName& name : names(interface)) {
    auto plugin = find_usable(interface, name.id, host);
    if (plugin.ok()) {
      usable.push_back(*plugin);
      continue;
    }
    reasons.emplace_back(plugin.status().message());
    if (plugin.status().code() == StatusCode::unsupported) continue;
    if (pins_) return plugin.take_status();
    const std::string line = one_line(plugin.status());
    if (told_.insert(line).second) log(LogLevel::warning, "plugins", line);
  }
  if (!usable.empty()) {
    sort_by_score(usable, host);
    tell_order(usable, host);
    return usable;
  }
  for (const PluginFile& file : files_) {
    if (!file.problem.ok() && !file.stray) reasons.push_back(one_line(file.problem));
  }
  if (reasons.empty()) return unknown_id(interface, "auto", {});
  return unsupported("no " + std::string(interface_word(interface)) + " plugin can run here:\n  " +
                     join(reasons, "\n  "));
}

}  // namespace tenon
