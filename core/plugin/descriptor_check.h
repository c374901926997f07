// What a descriptor must be before the host relies on it. The SDK checks most of it at compile
// time; a library built without the SDK's helpers is checked here, when it is loaded.
#pragma once

#include <tenon/plugin.h>

#include <span>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// The interfaces that this program can use.
std::span<const std::string_view> known_interfaces();

// All faults in one message, without a path.
Status check_descriptor(const PluginDescriptor& descriptor);

}  // namespace tenon
