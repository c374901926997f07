// Plugin libraries in this process. Loaded once, checked before any of their code runs, and never
// unloaded: a stray thread or a unique symbol would make unloading a lottery. The floating-point
// state is what it was, whatever a library's constructors did to it.
#pragma once

#include <tenon/plugin.h>

#include <deque>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/plugin/stamp.h"

namespace tenon {

class FilledOptions;
struct PluginSurroundings;

// What became of the processes that an instance had.
struct ProcessLosses {
  uint32_t times = 0;
  std::string why;   // of the latest: "its process was ended by signal 9 (Killed) in plan"
  std::string then;  // who went on: "'continuous' plans in its place"
  // The first system call that one of them made and was refused: "socket". Lost or not.
  std::string refused;
};

// What the functions of descriptors do where the library is loaded in another process. [control]
class ForeignLibrary {
 public:
  virtual uint32_t score(const PluginDescriptor& descriptor, const HostFacts& host) const = 0;
  // A pointer to the descriptor's interface, as `PluginDescriptor::create` makes it; `services` are
  // the instance's.
  virtual Result<void*> create(const PluginDescriptor& descriptor, const FilledOptions& options,
                               const PluginSurroundings& surroundings,
                               const HostServices& services) const = 0;
  virtual void destroy(const PluginDescriptor& descriptor, void* instance) const = 0;
  // [any]
  virtual ProcessLosses losses(const PluginDescriptor& descriptor, void* instance) const = 0;

 protected:
  ~ForeignLibrary() = default;
};

struct LoadedLibrary {
  std::string path;
  PluginStamp stamp;
  // Of the interfaces that this program knows, as records of its own.
  std::deque<PluginDescriptor> descriptors;
  // Not null: descriptors say what a library in another process has, and their functions are here.
  const ForeignLibrary* foreign = nullptr;

  // Null when the library has no such plugin.
  const PluginDescriptor* find(std::string_view interface, std::string_view id) const;
};

// Reads and checks the stamp, then loads the file and checks its table. With `sha256` (64 hex
// digits, else empty) the file's bytes must have that digest, and exactly the bytes that were
// hashed are loaded. Loading the same file again returns the same library. [control]
Result<const LoadedLibrary*> load_library(const std::string& path, const std::string& sha256 = {});

}  // namespace tenon
