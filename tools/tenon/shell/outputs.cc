#include "tools/tenon/shell/outputs.h"

#include <filesystem>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"

namespace tenon {

namespace fs = std::filesystem;

Status check_output(const std::string& path, std::initializer_list<std::string_view> inputs) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  const bool is_special =
      fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there);
  if (is_special) return {};
  for (const std::string_view input : inputs) {
    if (input.empty() || input == "-" || !fs::equivalent(path, input, error)) continue;
    return invalid_argument(path_in_quotes(path) +
                            " is a file that the command reads, and would be lost – name another "
                            "one to write");
  }
  return NewFile::create(path).take_status();
}

Status make_output_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return failed("cannot make the folder " + path_in_quotes(path) + ": " + error.message());
  return {};
}

}  // namespace tenon
