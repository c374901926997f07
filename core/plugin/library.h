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

struct LoadedLibrary {
  std::string path;
  PluginStamp stamp;
  // Of the interfaces that this program knows, as records of its own.
  std::deque<PluginDescriptor> descriptors;

  // Null when the library has no such plugin.
  const PluginDescriptor* find(std::string_view interface, std::string_view id) const;
};

// Reads and checks the stamp, then loads the file and checks its table. With `sha256` (64 hex
// digits, else empty) the file's bytes must have that digest, and exactly the bytes that were
// hashed are loaded. Loading the same file again returns the same library. [control]
Result<const LoadedLibrary*> load_library(const std::string& path, const std::string& sha256 = {});

}  // namespace tenon
