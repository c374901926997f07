// Filters that lay text out for readers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "core/jinja/compare.h"
#include "core/jinja/pretty_print.h"
#include "core/jinja/read_number.h"
#include "core/jinja/represent.h"
#include "core/jinja/text_functions.h"
#include "core/jinja/word_wrap.h"

namespace tenon::chat {
namespace {

Result<Value> word_wrap(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(
      const Bound bound,
      bind("wordwrap", arguments, {"width", "break_long_words", "wrapstring", "break_on_hyphens"}));
  TENON_ASSIGN_OR_RETURN(const Integer width, whole_argument("wordwrap", bound[0], 79));
  if (width < 1) return invalid_argument("'wordwrap' needs a width of at least 1");
  WrapStyle style;
  style.width = static_cast<size_t>(std::min<Integer>(width, 1 << 30));
  TENON_ASSIGN_OR_RETURN(style.breaks_words, flag_argument(bound[1], true));
  TENON_ASSIGN_OR_RETURN(style.breaks_at_hyphens, flag_argument(bound[3], true));
  TENON_ASSIGN_OR_RETURN(const MarkedText* given, text_argument("wordwrap", bound[2]));
  const MarkedText line_end = given == nullptr ? MarkedText("\n", true) : *given;
  if (!value.is_text()) return type_error("wrapped", value);
  const MarkedText& text = value.text();
  TextBuilder out(run.budget());
  bool is_first = true;
  for (const ByteRange whole : split_lines(text.bytes(), false)) {
    if (!std::exchange(is_first, false)) out.add(line_end);
    const std::string_view line = text.bytes().substr(whole.begin, whole.end - whole.begin);
    bool begins = true;
    for (const auto& parts : wrapped_lines(line, style, run.budget())) {
      if (!std::exchange(begins, false)) out.add(line_end);
      for (const ByteRange part : parts) {
        out.add(text, whole.begin + part.begin, whole.begin + part.end);
      }
    }
  }
  return run.text(out.take());
}

Result<Value> file_size(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("filesizeformat", arguments, {"binary"}));
  TENON_ASSIGN_OR_RETURN(const bool is_binary, flag_argument(bound[0], false));
  std::optional<double> bytes;
  if (value.is_number()) bytes = value.real();
  if (value.is_text()) bytes = read_real(value.bytes());
  if (!bytes || !std::isfinite(*bytes)) return type_error("the size of a file", value);
  const double base = is_binary ? 1024 : 1000;
  if (*bytes == 1) return run.text("1 Byte");
  if (*bytes < base) return run.text(integer_text(static_cast<Integer>(*bytes)) + " Bytes");
  constexpr std::string_view kUnits = "kMGTPEZY";
  double unit = base * base;
  size_t index = 0;
  for (; index + 1 < kUnits.size() && *bytes >= unit; ++index) unit *= base;
  char number[400];
  std::snprintf(number, sizeof number, "%.1f ", base * *bytes / unit);
  const char letter = is_binary && index == 0 ? 'K' : kUnits[index];
  return run.text(std::string(number) + letter + (is_binary ? "iB" : "B"));
}

Result<Value> pretty_print(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("pprint", arguments, {}).take_status());
  TextBuilder out(run.budget());
  TENON_RETURN_IF_ERROR(add_pretty(value, out));
  return run.text(out.take());
}

}  // namespace

std::span<const Filter> layout_filters() {
  static constexpr Filter kFilters[] = {
      {"wordwrap", word_wrap}, {"filesizeformat", file_size}, {"pprint", pretty_print}};
  return kFilters;
}

}  // namespace tenon::chat
