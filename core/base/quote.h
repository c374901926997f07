// Text from files, plugins, flags and the network as messages may show it: cut at a limit, with
// control characters, characters that reorder text, and bytes that are no UTF-8 escaped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon {

constexpr size_t kMostQuotedBytes = 300;        // of a name, a key
constexpr size_t kMostValueBytes = 80;          // of a value that somebody wrote
constexpr size_t kMostPathBytes = 4096;         // of a path: people need it whole
constexpr size_t kMostMessageBytes = 16 << 10;  // of a whole message

// On one line: a line end is escaped too. What was cut ends in "… (500000 bytes)".
std::string one_line(std::string_view text, size_t limit_bytes = kMostQuotedBytes);
// The same between single quotes.
std::string in_quotes(std::string_view text, size_t limit_bytes = kMostQuotedBytes);
// A value as people write it, between double quotes.
std::string shown_text(std::string_view text);
inline std::string path_in_quotes(std::string_view path) {
  return in_quotes(path, kMostPathBytes);
}
// A word of a command line as a shell takes it back, whatever it holds: as it is where it is plain.
std::string shell_word(const std::string& word);
// A message as a whole: it may have several lines.
std::string printable(std::string_view message, size_t limit_bytes = kMostMessageBytes);

}  // namespace tenon
