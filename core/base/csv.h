// Lines of tables whose cells stand between commas (RFC 4180), as spreadsheets and published traces
// write them. A cell that goes on in a second line is not read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/text.h"

namespace tenon {
namespace csv_line {

// Where the cell at the beginning of `line` ends: its comma, or npos.
inline size_t end_of_cell(std::string_view line) {
  if (!trim(line).starts_with('"')) return line.find(',');
  bool quoted = false;
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '"') quoted = !quoted;  // one that is written twice ends and begins
    if (line[at] == ',' && !quoted) return at;
  }
  return std::string_view::npos;
}

inline std::string content_of(std::string_view cell) {
  cell = trim(cell);
  const bool quoted = cell.size() >= 2 && cell.front() == '"' && cell.back() == '"';
  if (!quoted) return std::string(cell);
  cell = cell.substr(1, cell.size() - 2);
  std::string content;
  for (size_t i = 0; i < cell.size(); ++i) {
    content += cell[i];
    if (cell[i] == '"' && i + 1 < cell.size() && cell[i + 1] == '"') ++i;
  }
  return content;
}

}  // namespace csv_line

// The cells of a line, without white space around them and without the quotes that they stand in,
// where a comma may be in them, and a quote that is written twice. At least one.
inline std::vector<std::string> csv_cells(std::string_view line) {
  std::vector<std::string> cells;
  for (;;) {
    const size_t comma = csv_line::end_of_cell(line);
    cells.push_back(csv_line::content_of(line.substr(0, comma)));
    if (comma == line.npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace tenon
