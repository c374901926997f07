#include "core/base/files/given_text.h"

#include <unistd.h>

#include "core/base/files/read_stream.h"

namespace tenon {

Result<std::string> read_standard_input(size_t limit_bytes) {
  return read_to_end(STDIN_FILENO, "standard input", limit_bytes);
}

Result<std::string> read_given_text(const std::string& path) {
  if (path == "-") return read_standard_input();
  return read_file_or_pipe(path, kMostInputBytes);
}

}  // namespace tenon
