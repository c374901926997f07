// A plugin's options, declared once. From one table come validation, `tenon plugins inspect`, the
// reference pages, and the tests that try every option at its bounds. A plugin never sees TOML: it
// receives its own option struct, already filled and checked.
//
// Build tables with <tenon/sdk/options.h>, which checks them at compile time.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon {

// Values are never reordered.
enum class OptionType : uint8_t {
  boolean = 0,   // true | false
  integer = 1,   // int64, within [min, max]
  real = 2,      // double, within [min_real, max_real]
  text = 3,      // any UTF-8 text
  choice = 4,    // one of `choices`; stored as its index
  bytes = 5,     // an integer of bytes, or text such as "64MiB" (powers of 1024)
  duration = 6,  // text such as "5ms"; stored as nanoseconds
  path = 7,      // text; relative paths are resolved against the file that sets them
};

// One value. Which member counts follows from the option's type; `text` serves text and path.
struct OptionValue {
  bool boolean = false;
  bool automatic = false;  // the word "auto", where the option accepts it
  int64_t integer = 0;     // integer, bytes, duration (ns), choice (index)
  double real = 0.0;
  std::string_view text;  // lives until the plugin instance is destroyed
};

struct OptionSpec {
  std::string_view key;  // [a-z][a-z0-9_]*
  OptionType type = OptionType::boolean;
  bool accepts_auto = false;
  bool required = false;
  OptionValue default_value;
  int64_t min = 0;  // for integer, bytes and duration
  int64_t max = 0;
  double min_real = 0.0;
  double max_real = 0.0;
  const std::string_view* choices = nullptr;
  uint32_t choice_count = 0;
  std::string_view unit;      // "tokens", "sequences", … or empty
  std::string_view sentence;  // what it does, one sentence
  // Writes a checked value into the plugin's option struct. `automatic` values arrive as the
  // sentinel that the option's declaration names.
  void (*store)(void* options, const OptionValue& value) noexcept = nullptr;
};

}  // namespace tenon
