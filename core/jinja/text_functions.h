// What filters and methods of texts share.
#pragma once

#include <vector>

#include "core/base/result.h"
#include "core/jinja/run/interpreter.h"

namespace tenon::chat {

// The parts of a text between line ends, which may be kept.
std::vector<ByteRange> split_lines(std::string_view text, bool keep_ends);
// Every `old` becomes `with`, `most` times at most (negative: all).
Value replace_all(Interpreter& run, const MarkedText& text, const MarkedText& old,
                  const MarkedText& with, Integer most);
Value stripped_text(Interpreter& run, const MarkedText& text, const MarkedText* set, bool left,
                    bool right);
// In the middle of a line of `width` characters.
Value centered(Interpreter& run, const MarkedText& text, Integer width, std::string_view fill);
Value text_part(Interpreter& run, const MarkedText& text, size_t begin, size_t end);

}  // namespace tenon::chat
