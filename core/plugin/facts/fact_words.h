// Words of facts, which stand side by side with spaces between them.
#pragma once

#include <tenon/plugin.h>

#include <string_view>

namespace tenon {

bool has_word(const Fact& fact, std::string_view word);

// Whether a plugin states among its requirements that it needs `word` of `key`.
bool requires_word(const PluginDescriptor& descriptor, std::string_view key, std::string_view word);

}  // namespace tenon
