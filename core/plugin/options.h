// A plugin's option struct, filled from settings and checked against the plugin's own table.
#pragma once

#include <tenon/plugin.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/plugin/settings.h"

namespace tenon {

// Owns the struct and the texts that it views; both stay where they are when this moves.
class FilledOptions {
 public:
  // One option as it stands after defaults were filled in.
  struct Item {
    std::string key;
    std::string toml;  // the value, as TOML
    Origin origin;     // empty when it is the default
    bool is_path = false;
  };

  const void* data() const { return memory_.get(); }
  std::span<const Item> items() const { return items_; }  // in the table's order
  // As they were given.
  std::span<const Setting> settings() const { return settings_; }

 private:
  friend Result<FilledOptions> fill_options(const PluginDescriptor&, std::span<const Setting>);
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  std::unique_ptr<void, Free> memory_;
  std::deque<std::string> texts_;
  std::vector<Item> items_;
  std::vector<Setting> settings_;
};

// Every error of every setting in one message, a line each, led by where it was set. Relative path
// options are taken from the folder of the file that sets them.
Result<FilledOptions> fill_options(const PluginDescriptor& descriptor,
                                   std::span<const Setting> settings);

// The setting as a value of the option's type, range checked; nothing when it is none. Texts of the
// value are kept in `texts`.
std::optional<OptionValue> convert_setting(const OptionSpec& spec, const Setting& setting,
                                           std::deque<std::string>& texts);

// "an integer from 1 to 64 tokens, or \"auto\"": what an option accepts, in words.
std::string describe_option(const OptionSpec& spec);
// A value of the option's type as TOML, in one way of writing it.
std::string value_as_toml(const OptionSpec& spec, const OptionValue& value);
std::string default_as_toml(const OptionSpec& spec);

}  // namespace tenon
