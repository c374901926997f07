#include "core/base/files/given_text.h"

#include <unistd.h>

#include "core/base/files/read_stream.h"
#include "core/base/quote.h"

namespace tenon {

Result<std::string> read_standard_input(size_t limit_bytes) {
  return read_to_end(STDIN_FILENO, "standard input", limit_bytes);
}

Result<std::string> read_given_text(const std::string& path) {
  const bool is_input = path == "-";
  TENON_ASSIGN_OR_RETURN(std::string text, is_input ? read_standard_input()
                                                    : read_file_or_pipe(path, kMostInputBytes));
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return invalid_argument((is_input ? "standard input" : path_in_quotes(path)) +
                            " is text in UTF-16 or UTF-32, as its first bytes say – texts are "
                            "read as UTF-8 – save it so");
  }
  text.erase(0, text.size() - without_byte_order_mark(text).size());
  return text;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

}  // namespace tenon
