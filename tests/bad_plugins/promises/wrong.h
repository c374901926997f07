// Plugins that break one promise each: the sound one that `tenon plugins new` writes, with one
// answer spoilt. A source defines SOUND_PLUGIN, the sound one's source, before it includes this.
#pragma once

#include <tenon/plugin.h>
#include <tenon/sdk/plugin.h>

#pragma push_macro("TENON_PLUGIN_LIBRARY")
#undef TENON_PLUGIN_LIBRARY
#define TENON_PLUGIN_LIBRARY(...)
#include SOUND_PLUGIN
#pragma pop_macro("TENON_PLUGIN_LIBRARY")

namespace {

// The sound plugin's descriptor with another class after it.
template <typename Interface, typename Class, typename Options = tenon::sdk::NoOptions>
constexpr tenon::PluginDescriptor wrong(std::string_view id) {
  tenon::PluginDescriptor made = kPlugin;
  made.id = id;
  made.create = &tenon::sdk::create<Interface, Class, Options>;
  made.destroy = &tenon::sdk::destroy<Interface, Class>;
  if constexpr (tenon::sdk::HasExtensions<Class>) {
    made.extension = &tenon::sdk::extension<Interface, Class>;
  }
  return made;
}

}  // namespace
