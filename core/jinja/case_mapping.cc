#include "core/jinja/case_mapping.h"

#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

bool is_cased(char32_t code) {
  return tok::is_upper(code) || tok::is_lower(code);
}

void add_mapped(const MarkedText& text, size_t begin, size_t end, bool to_upper, TextBuilder& out) {
  while (begin < end) {
    // A stretch of one trust at a time, so that most texts are mapped at once.
    size_t stop = end;
    for (const MarkedText::Run& run : text.runs()) {
      if (run.end > begin) {
        stop = std::min(run.end, end);
        break;
      }
    }
    const std::string_view part = text.bytes().substr(begin, stop - begin);
    out.budget().spend(part.size() / 16);
    out.add(to_upper ? tok::to_upper(part) : tok::to_lower(part), text.is_trusted_at(begin));
    begin = stop;
  }
}

}  // namespace

void add_upper(const MarkedText& text, size_t begin, size_t end, TextBuilder& out) {
  add_mapped(text, begin, end, true, out);
}

void add_lower(const MarkedText& text, size_t begin, size_t end, TextBuilder& out) {
  add_mapped(text, begin, end, false, out);
}

void add_capitalized(const MarkedText& text, size_t begin, size_t end, TextBuilder& out) {
  if (begin >= end) return;
  const size_t first = begin + tok::rune_bytes(text.bytes()[begin]);
  add_upper(text, begin, first, out);
  add_lower(text, first, end, out);
}

void add_title(const MarkedText& text, TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  bool after_letter = false;
  for (size_t at = 0; at < bytes.size();) {
    const tok::Rune rune = tok::first_rune(bytes.substr(at));
    (after_letter ? add_lower : add_upper)(text, at, at + rune.bytes, out);
    after_letter = is_cased(rune.code);
    at += rune.bytes;
  }
}

void add_swapped(const MarkedText& text, TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const tok::Rune rune = tok::first_rune(bytes.substr(at));
    (tok::is_upper(rune.code) ? add_lower : add_upper)(text, at, at + rune.bytes, out);
    at += rune.bytes;
  }
}

}  // namespace tenon::chat
