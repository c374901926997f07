#include "core/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

using Codes = std::vector<utf8proc_int32_t>;

bool composes(NormalForm form) {
  return form == NormalForm::nfc || form == NormalForm::nfkc;
}
bool is_compatible(NormalForm form) {
  return form == NormalForm::nfkc || form == NormalForm::nfkd;
}

// Text whose characters all lie below the first one that the form can change.
bool is_unchanged(std::string_view text, NormalForm form) {
  // U+0300 is the first character that NFC touches; its lead byte is 0xCC.
  const uint8_t limit = form == NormalForm::nfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [limit](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte < limit;
  });
}

int combining_class(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

void append_decomposed(Codes& codes, char32_t code, utf8proc_option_t options) {
  // The longest decomposition in Unicode (U+FDFA) has 18 characters.
  utf8proc_int32_t buffer[32];
  int last_boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), buffer, 32,
                                             options, &last_boundary);
  if (count < 0 || count > 32) {
    codes.push_back(static_cast<utf8proc_int32_t>(code));
  } else {
    codes.insert(codes.end(), buffer, buffer + count);
  }
}

// Canonical ordering: every run of marks sorted by combining class, equal ones in place.
// (utf8proc's own ordering takes quadratic time on long runs.)
void sort_marks(Codes& codes) {
  for (size_t begin = 0; begin < codes.size(); ++begin) {
    if (combining_class(codes[begin]) == 0) continue;
    size_t end = begin + 1;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    if (end - begin > 1) {
      std::stable_sort(codes.begin() + static_cast<ptrdiff_t>(begin),
                       codes.begin() + static_cast<ptrdiff_t>(end),
                       [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    }
    begin = end;
  }
}

Codes decompose(std::string_view text, NormalForm form) {
  int options = UTF8PROC_DECOMPOSE;
  if (is_compatible(form)) options |= UTF8PROC_COMPAT;
  Codes codes;
  codes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Rune rune = first_rune(text.substr(at));
    if (rune.code < 0x80) {
      codes.push_back(static_cast<utf8proc_int32_t>(rune.code));
    } else {
      append_decomposed(codes, rune.code, static_cast<utf8proc_option_t>(options));
    }
    at += rune.bytes;
  }
  return codes;
}

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// Letters by property, not by category: circled and squared Latin letters.
bool is_other_alphabetic(char32_t code) {
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm form) {
  if (is_unchanged(text, form)) return std::string(text);
  Codes codes = decompose(text, form);
  sort_marks(codes);
  auto length = static_cast<utf8proc_ssize_t>(codes.size());
  if (composes(form)) {
    constexpr int kOptions = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    length =
        utf8proc_normalize_utf32(codes.data(), length, static_cast<utf8proc_option_t>(kOptions));
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    append_rune(out, static_cast<char32_t>(codes[static_cast<size_t>(i)]));
  }
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Rune rune = first_rune(text.substr(at));
    if (rune.code == 0x130) {
      out += "i\xCC\x87";  // the only character whose lower case is two
    } else {
      append_rune(
          out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(rune.code))));
    }
    at += rune.bytes;
  }
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Rune rune = first_rune(text.substr(at));
    if (rune.code == 0xDF) {
      out += "SS";
    } else {
      append_rune(
          out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(rune.code))));
    }
    at += rune.bytes;
  }
  return out;
}

bool is_letter(char32_t code) {
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_ND;
}

bool is_upper(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LU;
}

bool is_lower(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LL;
}

bool is_printable(char32_t code) {
  const auto kind = category(code);
  const bool is_other = kind == UTF8PROC_CATEGORY_CN || kind >= UTF8PROC_CATEGORY_CC;
  const bool is_separator = kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_ZP;
  return code == 0x20 || (!is_other && !is_separator);
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_number(char32_t code) {
  const auto kind = category(code);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t code) {
  const auto kind = category(code);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_ME;
}

bool is_punctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
           (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
  }
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_word(char32_t code) {
  const auto kind = category(code);
  return is_letter(code) || is_mark(code) || kind == UTF8PROC_CATEGORY_ND ||
         kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC || code == 0x200C ||
         code == 0x200D || is_other_alphabetic(code);
}

}  // namespace tenon::tok
