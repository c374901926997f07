// Text that knows which of its bytes can be trusted.
//
// What a template spells out itself is trusted; what came with a conversation is not, and stays so
// through every operation that moves it: slicing, joining, replacing, formatting. Only trusted
// bytes may later become special tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/jinja/budget.h"

namespace tenon::chat {

class MarkedText {
 public:
  // A stretch up to `end`; it begins where the one before ends.
  struct Run {
    size_t end = 0;
    bool is_trusted = false;
  };

  MarkedText() = default;
  MarkedText(std::string bytes, bool is_trusted);

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Neighbours differ in trust; none is empty.
  const std::vector<Run>& runs() const { return runs_; }
  bool is_trusted_at(size_t byte) const;

  void append(std::string_view bytes, bool is_trusted);
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  void append(const MarkedText& other, size_t begin, size_t end);
  void truncate(size_t bytes);
  MarkedText part(size_t begin, size_t end) const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

// Puts a text together within a budget. Once that is exceeded nothing more is added.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget) {}

  void add(std::string_view bytes, bool is_trusted = true) {
    if (allows(bytes.size())) text_.append(bytes, is_trusted);
  }
  void add(const MarkedText& other) { add(other, 0, other.size()); }
  void add(const MarkedText& other, size_t begin, size_t end) {
    if (begin < end && allows(end - begin)) text_.append(other, begin, end);
  }
  void add_repeated(std::string_view bytes, uint64_t times, bool is_trusted = true);
  size_t size() const { return text_.size(); }
  Budget& budget() { return budget_; }
  const MarkedText& text() const { return text_; }
  MarkedText take() { return std::move(text_); }

 private:
  bool allows(size_t bytes) {
    budget_.spend(1 + bytes / 64);
    return budget_.allows_text(text_.size() + bytes);
  }
  Budget& budget_;
  MarkedText text_;
};

// Characters. Positions are bytes here; counts and indices of templates are characters.
size_t count_characters(std::string_view utf8);
// The byte at which the character with this index begins; the size where there are fewer.
size_t byte_of_character(std::string_view utf8, size_t index);
// What Python takes for white space.
bool is_python_space(char32_t code);
// [begin, end) of the text without the characters of `set` at its ends; null: white space.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
};
ByteRange stripped(std::string_view text, const std::string_view* set, bool left, bool right);

}  // namespace tenon::chat
