// Libraries of plugins that are never loaded into this process.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/isolation/process.h"
#include "core/plugin/library.h"
#include "core/plugin/registry.h"

namespace tenon {

// What the file has, as a process of its own says; instances of it each get one too. The same file
// with the same limits is asked once. With `sha256` the process loads exactly those bytes.
// [control]
Result<const LoadedLibrary*> isolate_library(const std::string& path, const std::string& sha256,
                                             const GuestProcess::Limits& limits);

// For PluginRegistry::isolate_others.
PluginRegistry::Isolate isolating(const GuestProcess::Limits& limits);

}  // namespace tenon
