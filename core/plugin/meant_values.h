// What somebody probably meant whose value an option does not take: other programs write "512MB"
// and "int8".
#pragma once

#include <tenon/options.h>

#include <string>

#include "core/plugin/settings.h"

namespace tenon {

// "; did you mean \"512MiB\"?", or nothing.
std::string did_you_mean_value(const OptionSpec& spec, const SettingValue& value);

}  // namespace tenon
