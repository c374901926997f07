// A stretch of a text.
#pragma once

#include <cstddef>

namespace tenon {

// Of bytes, [begin, end).
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
};

}  // namespace tenon
