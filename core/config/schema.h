// Every key of a pipeline file, declared once: type, range, default, sentence, and where it goes.
#pragma once

#include <tenon/options.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/config/pipeline_config.h"
#include "core/request/parameters.h"

namespace tenon {

struct ConfigKey {
  OptionSpec spec;        // its key is dotted: "limits.max_sequences"
  bool optional = false;  // no default: stays away unless someone sets it
  void (*set)(PipelineConfig&, const OptionValue&, const Origin&) = nullptr;
  const Parameter* parameter = nullptr;  // what a key of [generation] is for a request
  // Null where an optional key was not set. Texts are borrowed from the configuration.
  std::optional<OptionValue> (*get)(const PipelineConfig&) = nullptr;
  Origin (*origin)(const PipelineConfig&) = nullptr;
};

// What an integer or a real may be, named `name`.
NumberSpec number_spec(const ConfigKey& key, std::string_view name);

// In the order of the file format.
std::span<const ConfigKey> config_keys();
const ConfigKey* find_config_key(std::string_view key);

// The parts of "scheduler.options.max_rows": a section and an option's key; else both are empty.
struct OptionKey {
  std::string_view section;
  std::string_view option;
};
OptionKey split_option_key(std::string_view key);

// NAME of "adapters.NAME", a key of [adapters]; else empty.
std::string_view adapter_name(std::string_view key);
// As `engine.guard` is written.
std::string_view guard_level_name(GuardLevel level);

// A table that a file may have: "scheduler", "scheduler.options".
bool known_table(std::string_view key);

// What is wrong with a table or a key that is not known, with the nearest that is.
std::string unknown_table_text(std::string_view table);
std::string unknown_key_text(std::string_view key);

}  // namespace tenon
