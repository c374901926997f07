// Sets of characters, as sorted ranges of code points. Surrogates are no characters.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace tenon::grammar {

struct CodeRange {
  uint32_t first = 0;
  uint32_t last = 0;  // included

  bool operator==(const CodeRange&) const = default;
};

class CodeSet {
 public:
  CodeSet() = default;
  CodeSet(std::initializer_list<CodeRange> ranges);
  explicit CodeSet(std::vector<CodeRange> ranges);

  // Every character there is.
  static CodeSet all();
  // Each character of an ASCII text.
  static CodeSet of(std::string_view characters);

  CodeSet complement() const;
  CodeSet without(const CodeSet& other) const;
  CodeSet common(const CodeSet& other) const;
  bool contains(uint32_t code) const;
  bool contains(const CodeSet& other) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodeRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodeRange> ranges_;  // sorted, apart from each other, without surrogates
};

// What stands in JSON strings as it is, in UTF-8: all but the quote, the backslash and controls.
const CodeSet& plain_characters();

}  // namespace tenon::grammar
