// A kernel plugin of the build folder, made with default options.
#pragma once

#include <tenon/plugin.h>

#include <string_view>

namespace tenon::bench {

// Leaves the process with a message when the plugin cannot be made: a benchmark has nothing to
// measure then. The instance lives as long as the process.
void* make_plugin(std::string_view library, std::string_view interface, std::string_view id);

template <typename Interface>
Interface& kernel(std::string_view library, std::string_view interface, std::string_view id) {
  return *static_cast<Interface*>(make_plugin(library, interface, id));
}

}  // namespace tenon::bench
