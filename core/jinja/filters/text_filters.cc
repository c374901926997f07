// Filters that make texts.
#include <algorithm>

#include "core/jinja/case_mapping.h"
#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/format.h"
#include "core/jinja/text_functions.h"
#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

Result<Value> as_string(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("string", arguments, {}).take_status());
  if (value.is_text()) return value;
  TENON_ASSIGN_OR_RETURN(MarkedText text, to_text(value, run.budget()));
  return run.text(std::move(text));
}

using AddMapped = void (*)(const MarkedText&, size_t, size_t, TextBuilder&);
Result<Value> mapped(Interpreter& run, const Value& value, AddMapped add) {
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  TextBuilder out(run.budget());
  add(text, 0, text.size(), out);
  return run.text(out.take());
}
Result<Value> upper(Interpreter& run, const Value& value, const Arguments&) {
  return mapped(run, value, add_upper);
}
Result<Value> lower(Interpreter& run, const Value& value, const Arguments&) {
  return mapped(run, value, add_lower);
}
Result<Value> capitalize(Interpreter& run, const Value& value, const Arguments&) {
  return mapped(run, value, add_capitalized);
}

// Unlike the method of this name, a word begins only after a space or an opening bracket.
Result<Value> title(Interpreter& run, const Value& value, const Arguments&) {
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  const std::string_view bytes = text.bytes();
  TextBuilder out(run.budget());
  bool begins_word = true;
  for (size_t at = 0; at < bytes.size();) {
    const tok::Rune rune = tok::first_rune(bytes.substr(at));
    (begins_word ? add_upper : add_lower)(text, at, at + rune.bytes, out);
    begins_word = is_python_space(rune.code) ||
                  std::u32string_view(U"-({[<").find(rune.code) != std::u32string_view::npos;
    at += rune.bytes;
  }
  return run.text(out.take());
}

Result<Value> trim(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("trim", arguments, {"chars"}));
  TENON_ASSIGN_OR_RETURN(const MarkedText* set, text_argument("trim", bound[0]));
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  return stripped_text(run, text, set, true, true);
}

Result<Value> replace(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("replace", arguments, {"old", "new", "count"}, 2));
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  TENON_ASSIGN_OR_RETURN(const MarkedText old, to_text(*bound[0], run.budget()));
  TENON_ASSIGN_OR_RETURN(const MarkedText with, to_text(*bound[1], run.budget()));
  const Value* count = bound[2] != nullptr && bound[2]->is_none() ? nullptr : bound[2];
  TENON_ASSIGN_OR_RETURN(const Integer most, whole_argument("replace", count, -1));
  return replace_all(run, text, old, with, most);
}

Result<Value> indent(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("indent", arguments, {"width", "first", "blank"}));
  TENON_ASSIGN_OR_RETURN(const bool first, flag_argument(bound[1], false));
  TENON_ASSIGN_OR_RETURN(const bool blank, flag_argument(bound[2], false));
  TextBuilder spaces(run.budget());
  if (bound[0] != nullptr && bound[0]->is_text()) {
    spaces.add(bound[0]->text());
  } else {
    TENON_ASSIGN_OR_RETURN(const Integer width, whole_argument("indent", bound[0], 4));
    spaces.add_repeated(" ", static_cast<uint64_t>(std::clamp<Integer>(width, 0, 1 << 30)));
  }
  TENON_ASSIGN_OR_RETURN(MarkedText text, to_text(value, run.budget()));
  text.append("\n", true);
  TextBuilder out(run.budget());
  bool is_first = true;
  for (const ByteRange line : split_lines(text.bytes(), false)) {
    if (!is_first) out.add("\n");
    const bool is_indented = is_first ? first : blank || line.begin < line.end;
    if (is_indented) out.add(spaces.text());
    out.add(text, line.begin, line.end);
    is_first = false;
  }
  return run.text(out.take());
}

Result<Value> center(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("center", arguments, {"width"}));
  TENON_ASSIGN_OR_RETURN(const Integer width, whole_argument("center", bound[0], 80));
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  return centered(run, text, width, " ");
}

// Lists and dictionaries are measured too, and cannot be cut.
bool is_short(const Value& value, Integer most) {
  size_t items = 0;
  if (const List* list = value.list(); list != nullptr && list->kind != ListKind::generator) {
    items = list->items.size();
  } else if (value.dict() != nullptr) {
    items = value.dict()->items.size();
  } else {
    return false;
  }
  return static_cast<Integer>(items) <= most;
}

Result<Value> truncate(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("truncate", arguments, {"length", "killwords", "end", "leeway"}));
  TENON_ASSIGN_OR_RETURN(const Integer length, whole_argument("truncate", bound[0], 255));
  TENON_ASSIGN_OR_RETURN(const bool cuts_words, flag_argument(bound[1], false));
  TENON_ASSIGN_OR_RETURN(const MarkedText* end, text_argument("truncate", bound[2]));
  const Value* leeway_value = bound[3] != nullptr && bound[3]->is_none() ? nullptr : bound[3];
  TENON_ASSIGN_OR_RETURN(const Integer leeway, whole_argument("truncate", leeway_value, 5));
  if (is_short(value, length + leeway)) return value;
  if (!value.is_text() && !value.is_undefined()) return type_error("truncated", value);
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  const MarkedText dots("...", true);
  if (end == nullptr) end = &dots;
  if (static_cast<Integer>(count_characters(text.bytes())) <= length + leeway) {
    return run.text(text);
  }
  const Integer kept = length - static_cast<Integer>(count_characters(end->bytes()));
  if (kept < 0) return invalid_argument("'truncate' needs a length that its end fits into");
  const size_t cut = byte_of_character(text.bytes(), static_cast<size_t>(kept));
  const size_t space = cuts_words ? std::string_view::npos : text.bytes().substr(0, cut).rfind(' ');
  TextBuilder out(run.budget());
  out.add(text, 0, space == std::string_view::npos ? cut : space);
  out.add(*end);
  return run.text(out.take());
}

Result<Value> word_count(Interpreter& run, const Value& value, const Arguments&) {
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  Integer count = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const tok::Rune rune = tok::first_rune(text.bytes().substr(at));
    const bool is_word = tok::is_word(rune.code);
    count += is_word && !in_word ? 1 : 0;
    in_word = is_word;
    at += rune.bytes;
  }
  return Value(count);
}

Result<Value> format(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return invalid_argument("'format' takes either positional or named arguments");
  }
  if (arguments.named.empty()) {
    return format_percent(text, run.list(arguments.positional, ListKind::tuple), run.budget());
  }
  std::vector<Dict::Item> items;
  for (const auto& [name, argument] : arguments.named) {
    items.emplace_back(run.text(name), argument);
  }
  return format_percent(text, make_dict(run.budget(), std::move(items)), run.budget());
}

Result<Value> to_json(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(
      const Bound bound,
      bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  TENON_ASSIGN_OR_RETURN(style.ascii_only, flag_argument(bound[0], false));
  TENON_ASSIGN_OR_RETURN(style.sorts_keys, flag_argument(bound[3], false));
  const Value* width = bound[1];
  if (width != nullptr && width->is_text()) {
    style.indent = std::string(width->bytes());
  } else if (width != nullptr && !width->is_none()) {
    TENON_ASSIGN_OR_RETURN(const Integer spaces, whole_argument("tojson", width, 0));
    if (spaces > 1024) return invalid_argument("'tojson' indents by 1024 at most");
    style.indent = std::string(static_cast<size_t>(std::max<Integer>(spaces, 0)), ' ');
  }
  if (style.indent) style.item_separator = ",";
  if (const Value* separators = bound[2]; separators != nullptr && !separators->is_none()) {
    const List* pair = separators->list();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_text() ||
        !pair->items[1].is_text()) {
      return invalid_argument("'tojson' needs two texts as separators");
    }
    style.item_separator = pair->items[0].bytes();
    style.key_separator = pair->items[1].bytes();
  }
  TextBuilder out(run.budget());
  TENON_RETURN_IF_ERROR(add_json(value, style, out));
  return run.text(out.take());
}

Result<Value> safe(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("safe", arguments, {}).take_status());
  TENON_ASSIGN_OR_RETURN(MarkedText text, to_text(value, run.budget()));
  return Value(std::make_shared<const TextObject>(std::move(text), &run.budget(), true));
}

}  // namespace

std::span<const Filter> text_filters() {
  static constexpr Filter kFilters[] = {{"string", as_string},     {"upper", upper},
                                        {"lower", lower},          {"capitalize", capitalize},
                                        {"title", title},          {"trim", trim},
                                        {"replace", replace},      {"indent", indent},
                                        {"center", center},        {"truncate", truncate},
                                        {"wordcount", word_count}, {"format", format},
                                        {"tojson", to_json},       {"safe", safe}};
  return kFilters;
}

}  // namespace tenon::chat
