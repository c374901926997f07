// Where the libraries of tests/bad_plugins are, and copies of them with changed bytes.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace tenon {

inline std::string bad_plugin(const std::string& name) {
  return std::string(TENON_BINARY_DIR) + "/tests/bad_plugins/libtenon-" + name + ".so";
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder of this test's own, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("tenon-") + info->test_suite_name() + "-" + info->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(const std::string& name = {}) const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string copy(const std::string& plugin, const std::string& name) const {
    return write(name, read_bytes(bad_plugin(plugin)));
  }

 private:
  std::filesystem::path path_;
};

// Replaces the value of `key` in a stamp by one of the same length or shorter lines after it moved.
inline std::string with_stamp(std::string bytes, const std::string& key, const std::string& value) {
  const size_t note = bytes.find("note=1\n");
  EXPECT_NE(note, bytes.npos);
  const size_t end = bytes.find('\0', note);
  std::string text = bytes.substr(note, end - note);
  const size_t at = key == "note" ? 0 : text.find("\n" + key + "=") + 1;
  EXPECT_NE(at, 0u + (key == "note" ? text.npos : 0));
  const size_t line_end = text.find('\n', at);
  text.replace(at, line_end - at, key + "=" + value);
  EXPECT_LT(text.size(), 1000u);
  text.resize(std::max(text.size(), end - note));  // old text behind a shorter one is cleared
  return bytes.replace(note, text.size(), text);
}

}  // namespace tenon
