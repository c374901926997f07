// Methods of texts that change or make texts.
#include <algorithm>

#include "core/base/quote.h"
#include "core/jinja/case_mapping.h"
#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/format.h"
#include "core/jinja/text_functions.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

template <bool kLeft, bool kRight>
Result<Value> strip(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("strip", arguments, {"chars"}));
  TENON_ASSIGN_OR_RETURN(const MarkedText* set, text_argument("strip", bound[0]));
  return stripped_text(run, self.text(), set, kLeft, kRight);
}

template <void (*kAdd)(const MarkedText&, size_t, size_t, TextBuilder&)>
Result<Value> mapped(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("the method", arguments, {}).take_status());
  TextBuilder out(run.budget());
  kAdd(self.text(), 0, self.text().size(), out);
  return run.text(out.take());
}

template <void (*kAdd)(const MarkedText&, TextBuilder&)>
Result<Value> mapped_whole(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("the method", arguments, {}).take_status());
  TextBuilder out(run.budget());
  kAdd(self.text(), out);
  return run.text(out.take());
}

Result<Value> replace(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("replace", arguments, {"old", "new", "count"}, 2));
  TENON_ASSIGN_OR_RETURN(const MarkedText* old, text_argument("replace", bound[0]));
  TENON_ASSIGN_OR_RETURN(const MarkedText* with, text_argument("replace", bound[1]));
  if (old == nullptr || with == nullptr) return type_error("replaced", Value(None()));
  TENON_ASSIGN_OR_RETURN(const Integer most, whole_argument("replace", bound[2], -1));
  return replace_all(run, self.text(), *old, *with, most);
}

// Splits where `separator` stands, `most` times at most, from the left or from the right.
Values split_at(Interpreter& run, const MarkedText& text, std::string_view separator, Integer most,
                bool from_right) {
  Values parts;
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  run.budget().spend(bytes.size() / 16);
  while ((most < 0 || static_cast<Integer>(parts.size()) < most) && !run.budget().is_exceeded()) {
    const std::string_view rest = bytes.substr(begin, end - begin);
    const size_t found = from_right ? rest.rfind(separator) : rest.find(separator);
    if (found == std::string_view::npos) break;
    const size_t at = begin + found;
    parts.push_back(from_right ? text_part(run, text, at + separator.size(), end)
                               : text_part(run, text, begin, at));
    if (from_right) {
      end = at;
    } else {
      begin = at + separator.size();
    }
  }
  parts.push_back(text_part(run, text, begin, end));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

// Splits at runs of white space, none of which is left at the ends.
Values split_at_spaces(Interpreter& run, const MarkedText& text, Integer most, bool from_right) {
  Values parts;
  const std::string_view bytes = text.bytes();
  std::vector<ByteRange> words;
  run.budget().spend(bytes.size() / 16);
  for (size_t at = 0; at < bytes.size();) {
    const tok::Rune rune = tok::first_rune(bytes.substr(at));
    const bool continues = !words.empty() && words.back().end == at;
    if (!is_python_space(rune.code)) {
      if (continues) {
        words.back().end += rune.bytes;
      } else {
        words.push_back({at, at + rune.bytes});
      }
    }
    at += rune.bytes;
  }
  if (most >= 0 && static_cast<Integer>(words.size()) > most + 1) {
    const auto kept = static_cast<size_t>(most);
    const ByteRange all = stripped(bytes, nullptr, true, true);
    if (from_right) {
      words.erase(words.begin(), words.end() - static_cast<ptrdiff_t>(kept) - 1);
      words.front().begin = all.begin;
    } else {
      words.resize(kept + 1);
      words.back().end = all.end;
    }
  }
  for (const ByteRange word : words) parts.push_back(text_part(run, text, word.begin, word.end));
  return parts;
}

template <bool kFromRight>
Result<Value> split(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("split", arguments, {"sep", "maxsplit"}));
  TENON_ASSIGN_OR_RETURN(const MarkedText* separator, text_argument("split", bound[0]));
  TENON_ASSIGN_OR_RETURN(const Integer most, whole_argument("split", bound[1], -1));
  if (separator == nullptr) return run.list(split_at_spaces(run, self.text(), most, kFromRight));
  if (separator->empty()) return invalid_argument("'split' needs a separator that is not empty");
  return run.list(split_at(run, self.text(), separator->bytes(), most, kFromRight));
}

Result<Value> lines(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("splitlines", arguments, {"keepends"}));
  TENON_ASSIGN_OR_RETURN(const bool keeps_ends, flag_argument(bound[0], false));
  Values parts;
  run.budget().spend(self.bytes().size() / 16);
  for (const ByteRange line : split_lines(self.bytes(), keeps_ends)) {
    parts.push_back(text_part(run, self.text(), line.begin, line.end));
  }
  return run.list(std::move(parts));
}

template <bool kFromRight>
Result<Value> partition(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("partition", arguments, {"sep"}, 1));
  TENON_ASSIGN_OR_RETURN(const MarkedText* separator, text_argument("partition", bound[0]));
  if (separator == nullptr || separator->empty()) {
    return invalid_argument("'partition' needs a separator that is not empty");
  }
  const std::string_view bytes = self.bytes();
  const size_t found =
      kFromRight ? bytes.rfind(separator->bytes()) : bytes.find(separator->bytes());
  const Value empty = run.text(std::string_view());
  if (found == std::string_view::npos) {
    return kFromRight ? run.list({empty, empty, self}, ListKind::tuple)
                      : run.list({self, empty, empty}, ListKind::tuple);
  }
  return run.list({text_part(run, self.text(), 0, found), *bound[0],
                   text_part(run, self.text(), found + separator->size(), bytes.size())},
                  ListKind::tuple);
}

template <bool kPrefix>
Result<Value> remove_end(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("the method", arguments, {"end"}, 1));
  TENON_ASSIGN_OR_RETURN(const MarkedText* end, text_argument("the method", bound[0]));
  if (end == nullptr) return type_error("the end of a text", *bound[0]);
  const std::string_view bytes = self.bytes();
  if (kPrefix && bytes.starts_with(end->bytes())) {
    return text_part(run, self.text(), end->size(), bytes.size());
  }
  if (!kPrefix && bytes.ends_with(end->bytes())) {
    return text_part(run, self.text(), 0, bytes.size() - end->size());
  }
  return self;
}

Result<Value> join(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("join", arguments, {"iterable"}, 1));
  TENON_ASSIGN_OR_RETURN(const Values items, run.items_of(*bound[0]));
  TextBuilder out(run.budget());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_text()) return type_error("joined", items[i]);
    if (i > 0) out.add(self.text());
    out.add(items[i].text());
  }
  return run.text(out.take());
}

Result<Value> format(Interpreter& run, const Value& self, const Arguments& arguments) {
  return format_braces(run, self.text(), arguments);
}

// '<' fills on the right, '>' on the left.
template <char kAlign>
Result<Value> justify(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("the method", arguments, {"width", "fill"}, 1));
  TENON_ASSIGN_OR_RETURN(const Integer width, whole_argument("the method", bound[0], 0));
  TENON_ASSIGN_OR_RETURN(const MarkedText* fill, text_argument("the method", bound[1]));
  const std::string_view character = fill == nullptr ? " " : fill->bytes();
  if (count_characters(character) != 1) {
    return invalid_argument("a text is filled up with one character, not with " +
                            in_quotes(character, 80));
  }
  if (kAlign == '^') return centered(run, self.text(), width, character);
  if (width > static_cast<Integer>(run.budget().limits().text_bytes)) {
    run.budget().exceed("bytes of text");
    return run.budget().status();
  }
  FormatSpec spec;
  spec.fill = character;
  spec.width = static_cast<size_t>(std::max<Integer>(width, 0));
  TextBuilder out(run.budget());
  add_aligned(self.text(), spec, kAlign, out);
  return run.text(out.take());
}

Result<Value> fill_zeros(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("zfill", arguments, {"width"}, 1));
  TENON_ASSIGN_OR_RETURN(const Integer width, whole_argument("zfill", bound[0], 0));
  const auto length = static_cast<Integer>(count_characters(self.bytes()));
  const Integer zeros = std::clamp<Integer>(width - length, 0, Integer{1} << 40);
  const bool has_sign = self.bytes().starts_with('+') || self.bytes().starts_with('-');
  TextBuilder out(run.budget());
  out.add(self.text(), 0, has_sign ? 1 : 0);
  out.add_repeated("0", static_cast<uint64_t>(zeros));
  out.add(self.text(), has_sign ? 1 : 0, self.bytes().size());
  return run.text(out.take());
}

}  // namespace

std::span<const MethodEntry> text_methods() {
  static constexpr MethodEntry kMethods[] = {{"strip", strip<true, true>},
                                             {"lstrip", strip<true, false>},
                                             {"rstrip", strip<false, true>},
                                             {"upper", mapped<add_upper>},
                                             {"lower", mapped<add_lower>},
                                             {"casefold", mapped<add_lower>},
                                             {"capitalize", mapped<add_capitalized>},
                                             {"title", mapped_whole<add_title>},
                                             {"swapcase", mapped_whole<add_swapped>},
                                             {"replace", replace},
                                             {"split", split<false>},
                                             {"rsplit", split<true>},
                                             {"splitlines", lines},
                                             {"partition", partition<false>},
                                             {"rpartition", partition<true>},
                                             {"removeprefix", remove_end<true>},
                                             {"removesuffix", remove_end<false>},
                                             {"join", join},
                                             {"format", format},
                                             {"ljust", justify<'<'>},
                                             {"rjust", justify<'>'>},
                                             {"center", justify<'^'>},
                                             {"zfill", fill_zeros}};
  return kMethods;
}

}  // namespace tenon::chat
