#include "core/jinja/marked_text.h"

#include <algorithm>

#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

bool is_continuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}

bool is_stripped(std::string_view character, const std::string_view* set) {
  if (set == nullptr) return is_python_space(tok::first_rune(character).code);
  return set->find(character) != std::string_view::npos;
}

}  // namespace

MarkedText::MarkedText(std::string bytes, bool is_trusted) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), is_trusted});
}

bool MarkedText::is_trusted_at(size_t byte) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), byte,
                                    [](size_t at, const Run& r) { return at < r.end; });
  return run != runs_.end() && run->is_trusted;
}

void MarkedText::append(std::string_view bytes, bool is_trusted) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().is_trusted == is_trusted) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), is_trusted});
  }
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t at, const Run& r) { return at < r.end; });
  while (begin < end && run != other.runs_.end()) {
    const size_t stop = std::min(end, run->end);
    append(other.bytes().substr(begin, stop - begin), run->is_trusted);
    begin = stop;
    ++run;
  }
}

void MarkedText::truncate(size_t bytes) {
  bytes_.resize(std::min(bytes, bytes_.size()));
  while (!runs_.empty() && (runs_.size() < 2 ? 0 : runs_[runs_.size() - 2].end) >= bytes_.size()) {
    runs_.pop_back();
  }
  if (!runs_.empty()) runs_.back().end = bytes_.size();
}

MarkedText MarkedText::part(size_t begin, size_t end) const {
  MarkedText out;
  out.append(*this, begin, end);
  return out;
}

void TextBuilder::add_repeated(std::string_view bytes, uint64_t times, bool is_trusted) {
  if (bytes.empty() || times == 0) return;
  if (times > budget_.limits().text_bytes / bytes.size() + 1) {
    budget_.exceed("bytes of text");
    return;
  }
  if (!budget_.allows_text(text_.size() + bytes.size() * times)) return;
  std::string all;
  all.reserve(bytes.size() * times);
  for (uint64_t i = 0; i < times; ++i) all += bytes;
  add(all, is_trusted);
}

size_t count_characters(std::string_view utf8) {
  return utf8.size() -
         static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), is_continuation));
}

size_t byte_of_character(std::string_view utf8, size_t index) {
  size_t at = 0;
  for (; at < utf8.size() && index > 0; --index) at += tok::rune_bytes(utf8[at]);
  return std::min(at, utf8.size());
}

bool is_python_space(char32_t code) {
  return (code >= 0x1C && code <= 0x1F) || tok::is_space(code);
}

ByteRange stripped(std::string_view text, const std::string_view* set, bool left, bool right) {
  ByteRange range{0, text.size()};
  while (left && range.begin < range.end) {
    const size_t bytes = tok::rune_bytes(text[range.begin]);
    if (!is_stripped(text.substr(range.begin, bytes), set)) break;
    range.begin += bytes;
  }
  while (right && range.begin < range.end) {
    size_t begin = range.end - 1;
    while (begin > range.begin && is_continuation(text[begin])) --begin;
    if (!is_stripped(text.substr(begin, range.end - begin), set)) break;
    range.end = begin;
  }
  return range;
}

}  // namespace tenon::chat
