// Text in lines of a width, broken as Python's textwrap breaks it.
#pragma once

#include <string_view>
#include <vector>

#include "core/jinja/marked_text.h"

namespace tenon::chat {

struct WrapStyle {
  size_t width = 79;  // in characters
  bool breaks_words = true;
  bool breaks_at_hyphens = true;
};

// The lines that one line becomes, without white space at their ends; none for an empty line.
// `budget` counts the work.
std::vector<std::vector<ByteRange>> wrapped_lines(std::string_view line, const WrapStyle& style,
                                                  Budget& budget);

}  // namespace tenon::chat
