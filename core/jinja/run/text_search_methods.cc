// Methods of texts that answer a question about them.
#include <algorithm>

#include "core/jinja/compare.h"
#include "core/jinja/text_functions.h"
#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

// The bytes between two characters, either of which may be left out or counted from the end. A
// beginning after the end of the text finds nothing, not even an empty text.
struct SearchRange {
  std::string_view text;
  size_t begin = 0;
  bool is_outside = false;
};

Result<SearchRange> search_range(const Value& self, const Value* begin, const Value* end) {
  const std::string_view bytes = self.bytes();
  const auto count = static_cast<Integer>(count_characters(bytes));
  const auto bound = [&](const Value* value, Integer otherwise) -> Result<Integer> {
    if (value == nullptr || value->is_none()) return otherwise;
    TENON_ASSIGN_OR_RETURN(Integer at, whole_argument("a search", value, 0));
    if (at < 0) at = std::max<Integer>(0, at + count);
    return at;
  };
  TENON_ASSIGN_OR_RETURN(const Integer first, bound(begin, 0));
  TENON_ASSIGN_OR_RETURN(Integer last, bound(end, count));
  last = std::min(last, count);
  SearchRange range;
  range.is_outside = first > last;
  if (range.is_outside) return range;
  range.begin = byte_of_character(bytes, static_cast<size_t>(first));
  const size_t stop = byte_of_character(bytes, static_cast<size_t>(last));
  range.text = bytes.substr(range.begin, stop - range.begin);
  return range;
}

template <bool kAtStart>
Result<Value> has_end(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("the method", arguments, {"text", "start", "end"}, 1));
  TENON_ASSIGN_OR_RETURN(const SearchRange range, search_range(self, bound[1], bound[2]));
  const auto holds = [&](const Value& end) {
    if (range.is_outside) return false;
    return kAtStart ? range.text.starts_with(end.bytes()) : range.text.ends_with(end.bytes());
  };
  if (bound[0]->is_text()) return Value(holds(*bound[0]));
  const List* several = bound[0]->list();
  if (several == nullptr || several->kind != ListKind::tuple) {
    return type_error("the end of a text", *bound[0]);
  }
  run.budget().spend(several->items.size());
  for (const Value& end : several->items) {
    if (!end.is_text()) return type_error("the end of a text", end);
    if (holds(end)) return Value(true);
  }
  return Value(false);
}

// The character at which `text` stands, or -1.
Result<Integer> position(Interpreter& run, const Value& self, const Arguments& arguments,
                         bool from_right) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("the method", arguments, {"text", "start", "end"}, 1));
  TENON_ASSIGN_OR_RETURN(const MarkedText* text, text_argument("the method", bound[0]));
  if (text == nullptr) return type_error("looked for", *bound[0]);
  TENON_ASSIGN_OR_RETURN(const SearchRange range, search_range(self, bound[1], bound[2]));
  run.budget().spend(self.bytes().size() / 16);
  if (range.is_outside) return Integer{-1};
  const size_t found =
      from_right ? range.text.rfind(text->bytes()) : range.text.find(text->bytes());
  if (found == std::string_view::npos) return Integer{-1};
  return static_cast<Integer>(count_characters(self.bytes().substr(0, range.begin + found)));
}

template <bool kFromRight, bool kMustBeThere>
Result<Value> find(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Integer at, position(run, self, arguments, kFromRight));
  if (kMustBeThere && at < 0) return invalid_argument("a text that is looked for is not there");
  return Value(at);
}

Result<Value> count(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("count", arguments, {"text", "start", "end"}, 1));
  TENON_ASSIGN_OR_RETURN(const MarkedText* text, text_argument("count", bound[0]));
  if (text == nullptr) return type_error("counted", *bound[0]);
  TENON_ASSIGN_OR_RETURN(const SearchRange range, search_range(self, bound[1], bound[2]));
  run.budget().spend(self.bytes().size() / 16);
  if (range.is_outside) return Value(Integer{0});
  if (text->empty()) return Value(static_cast<Integer>(count_characters(range.text)) + 1);
  Integer times = 0;
  for (size_t at = range.text.find(text->bytes()); at != std::string_view::npos;
       at = range.text.find(text->bytes(), at + text->size())) {
    ++times;
  }
  return Value(times);
}

// Whether the condition holds for all characters, and there are some or need not be.
template <bool (*kHolds)(char32_t), bool kMayBeEmpty = false>
Result<Value> all_are(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("the method", arguments, {}).take_status());
  run.budget().spend(self.bytes().size() / 16);
  for (size_t at = 0; at < self.bytes().size();) {
    const tok::Rune rune = tok::first_rune(self.bytes().substr(at));
    if (!kHolds(rune.code)) return Value(false);
    at += rune.bytes;
  }
  return Value(kMayBeEmpty || !self.bytes().empty());
}

bool is_letter_or_number(char32_t code) {
  return tok::is_letter(code) || tok::is_number(code);
}
bool is_ascii(char32_t code) {
  return code < 0x80;
}

// Whether there is a letter with a case, and none has the other one.
template <bool kUpper>
Result<Value> has_case(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("the method", arguments, {}).take_status());
  const Test* test = find_test(kUpper ? "upper" : "lower");
  TENON_ASSIGN_OR_RETURN(const bool holds, test->run(run, self, Arguments()));
  return Value(holds);
}

}  // namespace

std::span<const MethodEntry> text_search_methods() {
  static constexpr MethodEntry kMethods[] = {{"startswith", has_end<true>},
                                             {"endswith", has_end<false>},
                                             {"find", find<false, false>},
                                             {"rfind", find<true, false>},
                                             {"index", find<false, true>},
                                             {"rindex", find<true, true>},
                                             {"count", count},
                                             {"isspace", all_are<is_python_space>},
                                             {"isalpha", all_are<tok::is_letter>},
                                             {"isalnum", all_are<is_letter_or_number>},
                                             {"isdigit", all_are<tok::is_digit>},
                                             {"isdecimal", all_are<tok::is_digit>},
                                             {"isnumeric", all_are<tok::is_number>},
                                             {"isascii", all_are<is_ascii, true>},
                                             {"isupper", has_case<true>},
                                             {"islower", has_case<false>}};
  return kMethods;
}

}  // namespace tenon::chat
