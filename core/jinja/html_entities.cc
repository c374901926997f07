#include "core/jinja/html_entities.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

struct Entity {
  std::string_view name;
  char32_t code;
};

// Sorted. These are known without ";" too, and then also where more letters follow.
constexpr Entity kShort[] = {
    {"AElig", 0xC6},  {"AMP", 0x26},    {"Aacute", 0xC1}, {"Acirc", 0xC2},  {"Agrave", 0xC0},
    {"Aring", 0xC5},  {"Atilde", 0xC3}, {"Auml", 0xC4},   {"COPY", 0xA9},   {"Ccedil", 0xC7},
    {"ETH", 0xD0},    {"Eacute", 0xC9}, {"Ecirc", 0xCA},  {"Egrave", 0xC8}, {"Euml", 0xCB},
    {"GT", 0x3E},     {"Iacute", 0xCD}, {"Icirc", 0xCE},  {"Igrave", 0xCC}, {"Iuml", 0xCF},
    {"LT", 0x3C},     {"Ntilde", 0xD1}, {"Oacute", 0xD3}, {"Ocirc", 0xD4},  {"Ograve", 0xD2},
    {"Oslash", 0xD8}, {"Otilde", 0xD5}, {"Ouml", 0xD6},   {"QUOT", 0x22},   {"REG", 0xAE},
    {"THORN", 0xDE},  {"Uacute", 0xDA}, {"Ucirc", 0xDB},  {"Ugrave", 0xD9}, {"Uuml", 0xDC},
    {"Yacute", 0xDD}, {"aacute", 0xE1}, {"acirc", 0xE2},  {"acute", 0xB4},  {"aelig", 0xE6},
    {"agrave", 0xE0}, {"amp", 0x26},    {"aring", 0xE5},  {"atilde", 0xE3}, {"auml", 0xE4},
    {"brvbar", 0xA6}, {"ccedil", 0xE7}, {"cedil", 0xB8},  {"cent", 0xA2},   {"copy", 0xA9},
    {"curren", 0xA4}, {"deg", 0xB0},    {"divide", 0xF7}, {"eacute", 0xE9}, {"ecirc", 0xEA},
    {"egrave", 0xE8}, {"eth", 0xF0},    {"euml", 0xEB},   {"frac12", 0xBD}, {"frac14", 0xBC},
    {"frac34", 0xBE}, {"gt", 0x3E},     {"iacute", 0xED}, {"icirc", 0xEE},  {"iexcl", 0xA1},
    {"igrave", 0xEC}, {"iquest", 0xBF}, {"iuml", 0xEF},   {"laquo", 0xAB},  {"lt", 0x3C},
    {"macr", 0xAF},   {"micro", 0xB5},  {"middot", 0xB7}, {"nbsp", 0xA0},   {"not", 0xAC},
    {"ntilde", 0xF1}, {"oacute", 0xF3}, {"ocirc", 0xF4},  {"ograve", 0xF2}, {"ordf", 0xAA},
    {"ordm", 0xBA},   {"oslash", 0xF8}, {"otilde", 0xF5}, {"ouml", 0xF6},   {"para", 0xB6},
    {"plusmn", 0xB1}, {"pound", 0xA3},  {"quot", 0x22},   {"raquo", 0xBB},  {"reg", 0xAE},
    {"sect", 0xA7},   {"shy", 0xAD},    {"sup1", 0xB9},   {"sup2", 0xB2},   {"sup3", 0xB3},
    {"szlig", 0xDF},  {"thorn", 0xFE},  {"times", 0xD7},  {"uacute", 0xFA}, {"ucirc", 0xFB},
    {"ugrave", 0xF9}, {"uml", 0xA8},    {"uuml", 0xFC},   {"yacute", 0xFD}, {"yen", 0xA5},
    {"yuml", 0xFF},
};
constexpr Entity kLong[] = {
    {"Alpha", 0x391},   {"Beta", 0x392},     {"Chi", 0x3A7},     {"Dagger", 0x2021},
    {"Delta", 0x394},   {"Epsilon", 0x395},  {"Eta", 0x397},     {"Gamma", 0x393},
    {"Iota", 0x399},    {"Kappa", 0x39A},    {"Lambda", 0x39B},  {"Mu", 0x39C},
    {"Nu", 0x39D},      {"OElig", 0x152},    {"Omega", 0x3A9},   {"Omicron", 0x39F},
    {"Phi", 0x3A6},     {"Pi", 0x3A0},       {"Prime", 0x2033},  {"Psi", 0x3A8},
    {"Rho", 0x3A1},     {"Scaron", 0x160},   {"Sigma", 0x3A3},   {"Tau", 0x3A4},
    {"Theta", 0x398},   {"Upsilon", 0x3A5},  {"Xi", 0x39E},      {"Yuml", 0x178},
    {"Zeta", 0x396},    {"alefsym", 0x2135}, {"alpha", 0x3B1},   {"and", 0x2227},
    {"ang", 0x2220},    {"asymp", 0x2248},   {"bdquo", 0x201E},  {"beta", 0x3B2},
    {"bull", 0x2022},   {"cap", 0x2229},     {"chi", 0x3C7},     {"circ", 0x2C6},
    {"clubs", 0x2663},  {"cong", 0x2245},    {"crarr", 0x21B5},  {"cup", 0x222A},
    {"dArr", 0x21D3},   {"dagger", 0x2020},  {"darr", 0x2193},   {"delta", 0x3B4},
    {"diams", 0x2666},  {"empty", 0x2205},   {"emsp", 0x2003},   {"ensp", 0x2002},
    {"epsilon", 0x3B5}, {"equiv", 0x2261},   {"eta", 0x3B7},     {"euro", 0x20AC},
    {"exist", 0x2203},  {"fnof", 0x192},     {"forall", 0x2200}, {"frasl", 0x2044},
    {"gamma", 0x3B3},   {"ge", 0x2265},      {"hArr", 0x21D4},   {"harr", 0x2194},
    {"hearts", 0x2665}, {"hellip", 0x2026},  {"image", 0x2111},  {"infin", 0x221E},
    {"int", 0x222B},    {"iota", 0x3B9},     {"isin", 0x2208},   {"kappa", 0x3BA},
    {"lArr", 0x21D0},   {"lambda", 0x3BB},   {"lang", 0x27E8},   {"larr", 0x2190},
    {"lceil", 0x2308},  {"ldquo", 0x201C},   {"le", 0x2264},     {"lfloor", 0x230A},
    {"lowast", 0x2217}, {"loz", 0x25CA},     {"lrm", 0x200E},    {"lsaquo", 0x2039},
    {"lsquo", 0x2018},  {"mdash", 0x2014},   {"minus", 0x2212},  {"mu", 0x3BC},
    {"nabla", 0x2207},  {"ndash", 0x2013},   {"ne", 0x2260},     {"ni", 0x220B},
    {"notin", 0x2209},  {"nsub", 0x2284},    {"nu", 0x3BD},      {"oelig", 0x153},
    {"oline", 0x203E},  {"omega", 0x3C9},    {"omicron", 0x3BF}, {"oplus", 0x2295},
    {"or", 0x2228},     {"otimes", 0x2297},  {"part", 0x2202},   {"permil", 0x2030},
    {"perp", 0x22A5},   {"phi", 0x3C6},      {"pi", 0x3C0},      {"piv", 0x3D6},
    {"prime", 0x2032},  {"prod", 0x220F},    {"prop", 0x221D},   {"psi", 0x3C8},
    {"rArr", 0x21D2},   {"radic", 0x221A},   {"rang", 0x27E9},   {"rarr", 0x2192},
    {"rceil", 0x2309},  {"rdquo", 0x201D},   {"real", 0x211C},   {"rfloor", 0x230B},
    {"rho", 0x3C1},     {"rlm", 0x200F},     {"rsaquo", 0x203A}, {"rsquo", 0x2019},
    {"sbquo", 0x201A},  {"scaron", 0x161},   {"sdot", 0x22C5},   {"sigma", 0x3C3},
    {"sigmaf", 0x3C2},  {"sim", 0x223C},     {"spades", 0x2660}, {"sub", 0x2282},
    {"sube", 0x2286},   {"sum", 0x2211},     {"sup", 0x2283},    {"supe", 0x2287},
    {"tau", 0x3C4},     {"there4", 0x2234},  {"theta", 0x3B8},   {"thetasym", 0x3D1},
    {"thinsp", 0x2009}, {"tilde", 0x2DC},    {"trade", 0x2122},  {"uArr", 0x21D1},
    {"uarr", 0x2191},   {"upsih", 0x3D2},    {"upsilon", 0x3C5}, {"weierp", 0x2118},
    {"xi", 0x3BE},      {"zeta", 0x3B6},     {"zwj", 0x200D},    {"zwnj", 0x200C},
};
// What browsers take the numbers of some control characters for: those of Windows-1252.
constexpr char32_t kWindows[] = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                 0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x8D,   0x17D,  0x8F,
                                 0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};
constexpr size_t kLongestName = 32;

std::optional<char32_t> find_entity(std::span<const Entity> table, std::string_view name) {
  const auto found = std::lower_bound(
      table.begin(), table.end(), name,
      [](const Entity& entity, std::string_view wanted) { return entity.name < wanted; });
  if (found == table.end() || found->name != name) return std::nullopt;
  return found->code;
}

// What stands for an entity, and how many of its bytes that takes; empty text and 0: none.
struct Meaning {
  std::string text;
  size_t bytes = 0;
};

bool is_no_character(char32_t code) {
  const bool is_control = code < 0x20 ? code != 9 && code != 10 && code != 12 && code != 13
                                      : code >= 0x7F && code <= 0x9F;
  return is_control || (code >= 0xFDD0 && code <= 0xFDEF) || (code & 0xFFFE) == 0xFFFE;
}

// "#65" or "#x41", perhaps with ";".
Meaning by_number(std::string_view rest) {
  const bool is_hex = rest.size() > 1 && (rest[1] | 0x20) == 'x';
  const size_t begin = is_hex ? 2 : 1;
  uint32_t code = 0;
  const auto read = std::from_chars(rest.data() + std::min(begin, rest.size()),
                                    rest.data() + rest.size(), code, is_hex ? 16 : 10);
  if (read.ec == std::errc::invalid_argument) return {};
  const bool is_huge = read.ec != std::errc();
  size_t bytes = static_cast<size_t>(read.ptr - rest.data());
  if (rest.substr(bytes).starts_with(';')) ++bytes;
  Meaning meaning{.text = {}, .bytes = bytes};
  if (code == 0 || is_huge || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    tok::append_rune(meaning.text, 0xFFFD);
  } else if (code >= 0x80 && code <= 0x9F) {
    tok::append_rune(meaning.text, kWindows[code - 0x80]);
  } else if (code == 13 || !is_no_character(code)) {
    tok::append_rune(meaning.text, code);
  }
  return meaning;
}

Meaning by_name(std::string_view rest) {
  constexpr std::string_view kEnds = "\t\n\f <&#;";
  const size_t length = std::min({rest.find_first_of(kEnds), rest.size(), kLongestName});
  const std::string_view name = rest.substr(0, length);
  Meaning meaning;
  std::optional<char32_t> code;
  if (rest.substr(length).starts_with(';')) {
    code = find_entity(kShort, name);
    if (!code) code = find_entity(kLong, name);
    meaning.bytes = length + 1;
  }
  for (size_t bytes = length; !code && bytes > 1; --bytes) {
    code = find_entity(kShort, name.substr(0, bytes));
    meaning.bytes = bytes;
  }
  if (!code) return {};
  tok::append_rune(meaning.text, *code);
  return meaning;
}

}  // namespace

void add_html_escaped(const MarkedText& text, TextBuilder& out) {
  static constexpr std::string_view kSpecial = "&<>'\"";
  static constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  const std::string_view bytes = text.bytes();
  size_t done = 0;
  for (size_t at = bytes.find_first_of(kSpecial); at != std::string_view::npos;
       at = bytes.find_first_of(kSpecial, done)) {
    out.add(text, done, at);
    out.add(kEntities[kSpecial.find(bytes[at])], text.is_trusted_at(at));
    done = at + 1;
  }
  out.add(text, done, bytes.size());
}

void add_html_unescaped(const MarkedText& text, TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  size_t done = 0;
  for (size_t at = bytes.find('&'); at != std::string_view::npos; at = bytes.find('&', at + 1)) {
    const std::string_view rest = bytes.substr(at + 1);
    const Meaning meaning = rest.starts_with('#') ? by_number(rest) : by_name(rest);
    if (meaning.bytes == 0) continue;
    out.add(text, done, at);
    out.add(meaning.text, text.is_trusted_at(at));
    done = at + 1 + meaning.bytes;
    at = done - 1;
  }
  out.add(text, done, bytes.size());
}

}  // namespace tenon::chat
