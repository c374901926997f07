// What may follow --set, for the completion of shells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The keys of a pipeline, sorted.
std::vector<std::string> setting_keys();
// The values of a key that can be listed: choices, yes and no, and for plugins the ids that stamps
// name, of which none is loaded; those of TENON_PLUGIN_PATH among them. Empty: a number, a text.
std::vector<std::string> setting_values(std::string_view key);

}  // namespace tenon
