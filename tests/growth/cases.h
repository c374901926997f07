// What the tests of growth share: inputs of any size, and reading them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/growth/counted_work.h"

namespace tenon::growth {

// `part` so many times, "@" in it being which.
inline std::string repeated(const std::string& part, size_t times,
                            const std::string& between = "") {
  std::string text;
  for (size_t i = 0; i < times; ++i) {
    if (i > 0) text += between;
    for (const char c : part) text += c == '@' ? std::to_string(i) : std::string(1, c);
  }
  return text;
}

// before · part between part between … · after, with `size` parts.
struct Case {
  std::string name;
  size_t size = 0;
  std::string before = {}, part = {}, between = {}, after = {};

  Maker maker() const {
    return [this](size_t times) { return before + repeated(part, times, between) + after; };
  }
};

inline void expect_proportional(const std::vector<Case>& cases, const Reading& read) {
  for (const Case& one : cases) {
    EXPECT_EQ(growth_fault(one.size, one.maker(), read), "") << one.name;
  }
}

}  // namespace tenon::growth
