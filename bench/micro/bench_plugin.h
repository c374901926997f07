// A kernel plugin of the build folder.
#pragma once

#include <tenon/plugin.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon::bench {

// An option that has another value than by default; the index of a word where it is a choice.
struct PluginOption {
  std::string_view key;
  int64_t value = 0;
};

// Leaves the process with a message when the plugin cannot be made: a benchmark has nothing to
// measure then. The instance lives as long as the process.
void* make_plugin(std::string_view library, std::string_view interface, std::string_view id,
                  std::span<const PluginOption> options);

template <typename Interface>
Interface& kernel(std::string_view library, std::string_view interface, std::string_view id,
                  std::span<const PluginOption> options = {}) {
  return *static_cast<Interface*>(make_plugin(library, interface, id, options));
}

}  // namespace tenon::bench
