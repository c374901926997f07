// TOML text as a flat list of dotted keys with their values and positions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plugin/settings.h"

namespace tenon {

struct FlatToml {
  struct Table {
    std::string key;  // "scheduler.options"
    Origin origin;
  };
  std::vector<Setting> values;  // in the order of the file, keys dotted
  std::vector<Table> tables;    // every table, empty ones included
};

// `name` is the file's path, for origins. Errors (all in one message): syntax, a value of a kind
// that configurations do not use, a key that is no plain word. Safe on any text.
Result<FlatToml> read_toml(std::string_view text, const std::string& name);

// "a.b=value" of a command line. The value is read as TOML where it is one, else as bare text.
Result<Setting> read_override(std::string_view text);

}  // namespace tenon
