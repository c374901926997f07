// Values as people set them, before anyone checked what they mean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/origin.h"

namespace tenon {

using SettingValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

struct Setting {
  std::string key;
  SettingValue value;
  Origin origin;
};

// "the integer 5", "the text \"many\"", for messages.
std::string describe(const SettingValue& value);
// As it would stand in a TOML file.
std::string to_toml(const SettingValue& value);
// A TOML basic string, quotes included.
std::string quote_toml(std::string_view text);

}  // namespace tenon
