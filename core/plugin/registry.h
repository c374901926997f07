// The plugins that can be found, by interface and id. Opening reads stamps only; a library is
// loaded when one of its plugins is asked for.
#pragma once

#include <tenon/plugin.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plugin/library.h"
#include "core/plugin/search.h"
#include "core/plugin/stamp.h"

namespace tenon {

// A file of the search path. Either it has a stamp that fits this program, or a problem says why
// not; with a stamp that does not fit it has both.
struct PluginFile {
  std::string path;
  std::optional<PluginStamp> stamp;
  Status problem;
  bool stray = false;      // a sound library that is no plugin: nobody misses anything in it
  bool installed = false;  // lies in a folder of the installation

  bool has(std::string_view interface, std::string_view id) const;
};

// The whole of a problem on one line, for lists of them.
std::string one_line(const Status& problem);

// A plugin whose library is loaded. Valid for the rest of the process.
struct PluginRef {
  const LoadedLibrary* library = nullptr;
  const PluginDescriptor* descriptor = nullptr;
};

// Threads: [control], one at a time.
class PluginRegistry {
 public:
  // Makes a library known without loading it into this process (core/isolation).
  using Isolate = std::function<Result<const LoadedLibrary*>(const std::string& path,
                                                             const std::string& sha256)>;

  // Looks into every folder and named file of `search`. Errors: a required folder that does not
  // exist, a named file that cannot be used, a plugins.lock that cannot be read. Files of folders
  // that cannot be used are kept with their reason: whoever finds no other plugin hears of them.
  static Result<PluginRegistry> open(PluginSearch search);

  // From here on plugins of files that are not part of the installation are not loaded into this
  // process: schedulers, samplers and drafters come by `isolate`, others are refused. Empty: all
  // are loaded, as at first.
  void isolate_others(Isolate isolate) { isolate_ = std::move(isolate); }

  // From here on libraries are known by what `look` says of them, and nothing is loaded into this
  // process. What `find` returns can be read, and not created.
  void only_look(Isolate look) {
    isolate_ = std::move(look);
    only_looks_ = true;
  }

  const std::vector<PluginFile>& files() const { return files_; }
  // Names from stamps of files that can be used, sorted, of one interface or (empty) of all that
  // this program knows.
  std::vector<PluginName> names(std::string_view interface = {}) const;

  // The plugin, its library loaded. `asked` is where it was asked for, for messages. Errors: no
  // such id (with the nearest, the same id for another revision, and the files that might have had
  // it), the same id in two files, a file that cannot be loaded.
  Result<PluginRef> find(std::string_view interface, std::string_view id, const Origin& asked = {});

  // As `find`, and the plugin says that it can run on `host`.
  Result<PluginRef> find_usable(std::string_view interface, std::string_view id,
                                const HostFacts& host, const Origin& asked = {});

  // Every plugin of an interface that can run on `host`: what "auto" chooses from. Best score
  // first, ties in alphabetical order. A library that cannot be loaded is left out with a warning.
  // Error when there is none, with the reasons; where a lock pins files, also when one is not as
  // pinned.
  Result<std::vector<PluginRef>> candidates(std::string_view interface, const HostFacts& host);

 private:
  Status add_folder(const PluginSearch::Folder& folder);
  Status add_named(const PluginSearch::NamedFile& file);
  bool add_file(const std::string& path, const std::string& source);
  std::string searched() const;
  Status unknown_id(std::string_view interface, std::string_view id, const Origin& asked) const;
  Status no_file(std::string_view interface, std::string_view id, const Origin& asked) const;
  Status check_unique(std::string_view interface, std::string_view id) const;
  Result<PluginRef> load(const PluginFile& file, std::string_view interface, std::string_view id);

  bool lies_in_installation(const std::string& path) const;

  PluginSearch search_;
  Isolate isolate_;
  bool only_looks_ = false;     // at all of them, by `isolate_`
  std::set<std::string> told_;  // of files that cannot be loaded: once is enough
  std::vector<PluginFile> files_;
  std::optional<std::vector<PluginPin>> pins_;
};

uint32_t score_of(const PluginDescriptor& descriptor, const HostFacts& host);
uint32_t score_of(const PluginRef& plugin, const HostFacts& host);
// Whether a plugin of this interface can run in a process of its own.
bool may_be_isolated(std::string_view interface);

}  // namespace tenon
