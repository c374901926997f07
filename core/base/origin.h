// Where a value was set, for messages: "pipeline.toml:14:3", "--set", "default".
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

struct Origin {
  std::string file;     // a path, or a word such as "--set"; empty = not set by anyone
  uint32_t line = 0;    // from 1; 0 = no position
  uint32_t column = 0;  // from 1

  std::string text() const {
    if (file.empty()) return "default";
    if (line == 0) return file;
    return file + ":" + std::to_string(line) + ":" + std::to_string(column);
  }
  friend bool operator==(const Origin&, const Origin&) = default;
};

}  // namespace tenon
