#include "core/jinja/text_functions.h"

#include <algorithm>

#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

}  // namespace

std::vector<ByteRange> split_lines(std::string_view text, bool keep_ends) {
  std::vector<ByteRange> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const tok::Rune rune = tok::first_rune(text.substr(at));
    const size_t end = at;
    at += rune.bytes;
    if (!is_line_end(rune.code)) continue;
    if (rune.code == U'\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back({begin, keep_ends ? at : end});
    begin = at;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

Value replace_all(Interpreter& run, const MarkedText& text, const MarkedText& old,
                  const MarkedText& with, Integer most) {
  const std::string_view bytes = text.bytes();
  TextBuilder out(run.budget());
  run.budget().spend(bytes.size() / 16);
  size_t done = 0;
  Integer count = 0;
  while (done <= bytes.size() && (most < 0 || count < most) && !run.budget().is_exceeded()) {
    const size_t found = bytes.find(old.bytes(), done);
    if (found == std::string_view::npos) break;
    out.add(text, done, found);
    out.add(with);
    ++count;
    if (!old.empty()) {
      done = found + old.size();
      continue;
    }
    // Between all characters, and at both ends.
    if (found == bytes.size()) return run.text(out.take());
    done = found + tok::rune_bytes(bytes[found]);
    out.add(text, found, done);
  }
  out.add(text, std::min(done, bytes.size()), bytes.size());
  return run.text(out.take());
}

Value stripped_text(Interpreter& run, const MarkedText& text, const MarkedText* set, bool left,
                    bool right) {
  const std::string_view characters = set == nullptr ? std::string_view() : set->bytes();
  const ByteRange kept =
      stripped(text.bytes(), set == nullptr ? nullptr : &characters, left, right);
  return text_part(run, text, kept.begin, kept.end);
}

Value centered(Interpreter& run, const MarkedText& text, Integer width, std::string_view fill) {
  const auto length = static_cast<Integer>(count_characters(text.bytes()));
  const Integer padding = std::max<Integer>(0, width - length);
  if (padding > static_cast<Integer>(run.budget().limits().text_bytes)) {
    run.budget().exceed("bytes of text");
    return run.text(text);
  }
  // Python gives the odd one to the left only where the width is odd.
  const Integer left = padding / 2 + (padding & width & 1);
  TextBuilder out(run.budget());
  out.add_repeated(fill, static_cast<uint64_t>(left));
  out.add(text);
  out.add_repeated(fill, static_cast<uint64_t>(padding - left));
  return run.text(out.take());
}

Value text_part(Interpreter& run, const MarkedText& text, size_t begin, size_t end) {
  TextBuilder out(run.budget());
  out.add(text, begin, end);
  return run.text(out.take());
}

}  // namespace tenon::chat
