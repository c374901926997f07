// What a descriptor must be before the host relies on it. The SDK checks most of it at compile
// time; a library built without the SDK's helpers is checked here, when it is loaded.
#pragma once

#include <tenon/plugin.h>

#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// The interfaces that this program can use.
std::span<const std::string_view> known_interfaces();
bool knows_interface(std::string_view interface);
// "interface "scheduler/9" is not known to this host (it knows …)": the same word where there is
// one, else all of them.
std::string unknown_interface(std::string_view interface);

// A descriptor of any size that a library may have been built with, as this program's own: what the
// library does not know keeps its default, what this program does not know is dropped. Error: it is
// smaller than the first one that ever was.
Result<PluginDescriptor> own_descriptor(const PluginDescriptor& theirs);
// The same for a library's table. Error: not a table.
Result<PluginLibrary> own_table(const PluginLibrary& theirs);

// All faults in one message, without a path.
Status check_descriptor(const PluginDescriptor& descriptor);

}  // namespace tenon
