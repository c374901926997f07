#include "core/grammar/notation/regex_class.h"

#include <string>
#include <utility>
#include <vector>

namespace tenon::grammar {
namespace {

const CodeSet& word_characters() {
  static const CodeSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return kWord;
}

const CodeSet& space_characters() {
  static const CodeSet kSpace = {
      {0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
      {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
  return kSpace;
}

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

CodeSet one(uint32_t code) {
  return {{code, code}};
}

std::string place(size_t at) {
  return "pattern, at byte " + std::to_string(at) + ": ";
}

// "\u00e4", "\u{1f600}" or a pair of surrogates, after the u.
std::optional<uint32_t> take_unicode(TextReader& reader) {
  if (reader.take("{")) {
    for (size_t digits = 6; digits > 0; --digits) {
      const size_t begin = reader.at;
      const std::optional<uint32_t> code = reader.take_hex(digits);
      if (code && reader.take("}")) return code;
      reader.at = begin;
    }
    return std::nullopt;
  }
  const std::optional<uint32_t> high = reader.take_hex(4);
  if (!high || *high < 0xd800 || *high > 0xdbff) return high;
  if (!reader.take("\\u")) return std::nullopt;
  const std::optional<uint32_t> low = reader.take_hex(4);
  if (!low || *low < 0xdc00 || *low > 0xdfff) return std::nullopt;
  return 0x10000 + ((*high - 0xd800) << 10) + (*low - 0xdc00);
}

}  // namespace

Status malformed(size_t at, std::string_view what) {
  return invalid_argument(place(at) + std::string(what) + " – expected a regular expression");
}

Status refused(size_t at, std::string_view what) {
  return unsupported(place(at) + std::string(what) +
                     " is not supported – docs/structured-output.md lists what is – write the "
                     "pattern without it");
}

CodeSet regex_dot() {
  return CodeSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement();
}

Result<CodeSet> take_escape(TextReader& reader, bool in_class) {
  const size_t begin = reader.at++;
  if (reader.done()) return malformed(begin, "a backslash at the end");
  const char c = reader.peek();
  if (!is_letter_or_digit(c)) return one(reader.take_code());
  ++reader.at;
  std::optional<uint32_t> code;
  switch (c) {
    case 'd':
      return CodeSet{{'0', '9'}};
    case 'D':
      return CodeSet{{'0', '9'}}.complement();
    case 'w':
      return word_characters();
    case 'W':
      return word_characters().complement();
    case 's':
      return space_characters();
    case 'S':
      return space_characters().complement();
    case 't':
      return one('\t');
    case 'n':
      return one('\n');
    case 'r':
      return one('\r');
    case 'f':
      return one('\f');
    case 'v':
      return one('\v');
    case '0':
      if (reader.peek() >= '0' && reader.peek() <= '9') return refused(begin, "an octal escape");
      return one(0);
    case 'b':
      if (in_class) return one('\b');
      return refused(begin, "a word boundary");
    case 'x':
      code = reader.take_hex(2);
      break;
    case 'u':
      code = take_unicode(reader);
      break;
    default:
      if (c >= '1' && c <= '9') return refused(begin, "a back reference");
      return refused(begin, "the escape \\" + std::string(1, c));
  }
  const bool is_code = code && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
  if (!is_code) return malformed(begin, "an escape that names no character");
  return one(*code);
}

Result<CodeSet> take_class(TextReader& reader) {
  const size_t begin = reader.at++;
  const bool negated = reader.take("^");
  std::vector<CodeRange> ranges;
  const auto take_one = [&]() -> Result<CodeSet> {
    if (reader.peek() == '\\') return take_escape(reader, /*in_class=*/true);
    return one(reader.take_code());
  };
  const auto is_single = [](const CodeSet& codes) {
    return codes.ranges().size() == 1 && codes.ranges()[0].first == codes.ranges()[0].last;
  };
  while (!reader.take("]")) {
    if (reader.done()) return malformed(begin, "a class without its closing bracket");
    const size_t at = reader.at;
    TENON_ASSIGN_OR_RETURN(CodeSet low, take_one());
    const bool range =
        reader.peek() == '-' && reader.peek(1) != ']' && reader.at + 1 < reader.text.size();
    if (!range || !is_single(low)) {
      ranges.insert(ranges.end(), low.ranges().begin(), low.ranges().end());
      continue;
    }
    ++reader.at;
    TENON_ASSIGN_OR_RETURN(const CodeSet high, take_one());
    const uint32_t first = low.ranges()[0].first;
    if (!is_single(high) || high.ranges()[0].first < first) {
      return malformed(at, "a range whose ends are no characters in order");
    }
    ranges.push_back({first, high.ranges()[0].first});
  }
  const CodeSet set(std::move(ranges));
  return negated ? set.complement() : set;
}

}  // namespace tenon::grammar
