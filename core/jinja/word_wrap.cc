#include "core/jinja/word_wrap.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

// A line as characters, and where each begins in the bytes.
struct Characters {
  explicit Characters(std::string_view line) {
    for (size_t at = 0; at < line.size();) {
      const tok::Rune rune = tok::first_rune(line.substr(at));
      codes += rune.code;
      begins.push_back(at);
      at += rune.bytes;
    }
    begins.push_back(line.size());
  }
  std::u32string codes;
  std::vector<size_t> begins;
};

using Chunk = ByteRange;  // of characters

bool is_wrap_space(char32_t code) {
  return code == U' ' || (code >= 0x09 && code <= 0x0D);
}
bool is_joining(char32_t code) {
  return tok::is_word(code) || std::u32string_view(U"!\"'&.,?").find(code) != std::u32string::npos;
}
bool is_wrap_letter(char32_t code) {
  return tok::is_word(code) && !tok::is_digit(code);
}

// Splits where a line may end: at white space, after hyphens in words, around long dashes.
class Splitter {
 public:
  explicit Splitter(const std::u32string& text) : text_(text) {}

  std::vector<Chunk> split(bool at_hyphens) const {
    std::vector<Chunk> chunks;
    for (size_t begin = 0; begin < text_.size();) {
      const size_t end = is_wrap_space(text_[begin]) ? space_end(begin)
                         : at_hyphens                ? word_end(begin)
                                                     : simple_end(begin);
      chunks.push_back({begin, end});
      begin = end;
    }
    return chunks;
  }

 private:
  size_t space_end(size_t at) const {
    while (at < text_.size() && is_wrap_space(text_[at])) ++at;
    return at;
  }
  size_t simple_end(size_t at) const {
    while (at < text_.size() && !is_wrap_space(text_[at])) ++at;
    return at;
  }
  // After a word, two or more dashes with a word after them; their end, else 0.
  size_t dash_end(size_t at) const {
    if (at == 0 || at >= text_.size() || text_[at] != U'-' || !is_joining(text_[at - 1])) return 0;
    size_t end = at;
    while (end < text_.size() && text_[end] == U'-') ++end;
    return end - at >= 2 && end < text_.size() && tok::is_word(text_[end]) ? end : 0;
  }
  // A hyphen with letters on both sides.
  bool is_hyphen(size_t at) const {
    if (text_[at] != U'-' || at < 2) return false;
    const bool behind_letters = is_wrap_letter(text_[at - 2]) && is_wrap_letter(text_[at - 1]);
    const bool behind_parts = at >= 3 && is_wrap_letter(text_[at - 3]) && text_[at - 2] == U'-' &&
                              is_joining(text_[at - 1]);
    if (!behind_letters && !behind_parts) return false;
    const auto letter_at = [this](size_t i) {
      return i < text_.size() && is_wrap_letter(text_[i]);
    };
    const bool has_hyphen = at + 2 < text_.size() && text_[at + 2] == U'-';
    return letter_at(at + 1) && letter_at(at + (has_hyphen ? 3 : 2));
  }
  size_t word_end(size_t begin) const {
    if (const size_t end = dash_end(begin)) return end;
    for (size_t end = begin + 1; end < text_.size(); ++end) {
      if (is_wrap_space(text_[end]) || dash_end(end) != 0) return end;
      if (end > begin && is_hyphen(end)) return end + 1;
    }
    return text_.size();
  }

  const std::u32string& text_;
};

class Wrapper {
 public:
  Wrapper(const Characters& characters, const WrapStyle& style)
      : codes_(characters.codes), style_(style) {
    chunks_ = Splitter(codes_).split(style.breaks_at_hyphens);
  }

  std::vector<std::vector<Chunk>> lines(Budget& budget) {
    std::vector<std::vector<Chunk>> lines;
    while (next_ < chunks_.size() && !budget.is_exceeded()) {
      if (!lines.empty() && is_blank(chunks_[next_])) ++next_;
      std::vector<Chunk> line = one_line();
      budget.spend(1 + line.size());
      if (!line.empty()) lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  static size_t length(const Chunk& chunk) { return chunk.end - chunk.begin; }
  bool is_blank(const Chunk& chunk) const {
    return std::all_of(codes_.begin() + static_cast<ptrdiff_t>(chunk.begin),
                       codes_.begin() + static_cast<ptrdiff_t>(chunk.end), is_python_space);
  }

  std::vector<Chunk> one_line() {
    std::vector<Chunk> line;
    size_t used = 0;
    while (next_ < chunks_.size() && used + length(chunks_[next_]) <= style_.width) {
      used += length(chunks_[next_]);
      line.push_back(chunks_[next_++]);
    }
    if (next_ < chunks_.size() && length(chunks_[next_]) > style_.width) take_part(line, used);
    if (!line.empty() && is_blank(line.back())) line.pop_back();
    return line;
  }

  // Of a word that no line has room for.
  void take_part(std::vector<Chunk>& line, size_t used) {
    Chunk& word = chunks_[next_];
    if (!style_.breaks_words) {
      if (line.empty()) line.push_back(chunks_[next_++]);
      return;
    }
    const size_t room = style_.width - used;
    size_t end = word.begin + room;
    if (style_.breaks_at_hyphens && length(word) > room) {
      const auto part = std::u32string_view(codes_).substr(word.begin, room);
      const size_t hyphen = part.rfind(U'-');
      if (hyphen != part.npos && part.substr(0, hyphen).find_first_not_of(U'-') != part.npos) {
        end = word.begin + hyphen + 1;
      }
    }
    line.push_back({word.begin, end});
    word.begin = end;
  }

  const std::u32string& codes_;
  const WrapStyle& style_;
  std::vector<Chunk> chunks_;
  size_t next_ = 0;
};

}  // namespace

std::vector<std::vector<ByteRange>> wrapped_lines(std::string_view line, const WrapStyle& style,
                                                  Budget& budget) {
  budget.spend(line.size() / 8);
  const Characters characters(line);
  std::vector<std::vector<ByteRange>> lines = Wrapper(characters, style).lines(budget);
  for (auto& parts : lines) {
    for (ByteRange& part : parts) {
      part = {characters.begins[part.begin], characters.begins[part.end]};
    }
  }
  return lines;
}

}  // namespace tenon::chat
