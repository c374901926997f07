// Where the libraries of tests/bad_plugins are, and copies of them with changed bytes.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace tenon {

inline std::string bad_plugin(const std::string& name) {
  return build_folder() + "/tests/bad_plugins/libtenon-" + name + ".so";
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string copy_plugin(const std::string& plugin, const TemporaryFolder& folder,
                               const std::string& name) {
  return folder.write_file(name, read_bytes(bad_plugin(plugin)));
}

// Replaces the value of `key` in a stamp. A longer value takes its room from lines that nobody
// needs.
inline std::string with_stamp(std::string bytes, const std::string& key, const std::string& value) {
  const size_t note = bytes.find("note=1\n");
  EXPECT_NE(note, bytes.npos);
  const size_t end = bytes.find('\0', note);
  std::string text = bytes.substr(note, end - note);
  const size_t at = key == "note" ? 0 : text.find("\n" + key + "=") + 1;
  EXPECT_NE(at, 0u + (key == "note" ? text.npos : 0));
  const size_t line_end = text.find('\n', at);
  text.replace(at, line_end - at, key + "=" + value);
  for (const char* spare : {"\ncompiler=", "\nbuild="}) {
    const size_t line = text.find(spare);
    if (text.size() > end - note) text.erase(line, text.find('\n', line + 1) - line);
  }
  EXPECT_LE(text.size(), end - note);
  text.resize(std::max(text.size(), end - note));  // old text after a shorter one is cleared
  return bytes.replace(note, text.size(), text);
}

}  // namespace tenon
