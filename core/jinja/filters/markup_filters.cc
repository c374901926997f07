// Filters that write HTML, XML and addresses, and take them apart.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/quote.h"
#include "core/jinja/compare.h"
#include "core/jinja/html_entities.h"
#include "core/jinja/represent.h"
#include "core/jinja/text_functions.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

Value as_markup(Interpreter& run, MarkedText text) {
  return std::make_shared<const TextObject>(std::move(text), &run.budget(), true);
}

bool is_markup(const Value& value) {
  return value.is_text() && value.text_object()->is_markup;
}

Result<Value> force_escape(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("forceescape", arguments, {}).take_status());
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  TextBuilder out(run.budget());
  add_html_escaped(text, out);
  return as_markup(run, out.take());
}

Result<Value> escape(Interpreter& run, const Value& value, const Arguments& arguments) {
  return is_markup(value) ? value : force_escape(run, value, arguments);
}

// Drops what stands from each `begin` to the next `end`, both included.
void drop_between(const MarkedText& text, std::string_view begin, std::string_view end,
                  TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  size_t done = 0;
  for (size_t at = bytes.find(begin); at != std::string_view::npos; at = bytes.find(begin, done)) {
    const size_t close = bytes.find(end, at);
    if (close == std::string_view::npos) break;
    out.add(text, done, at);
    done = close + end.size();
  }
  out.add(text, done, bytes.size());
}

// With one space for each run of white space, and none at the ends.
MarkedText with_single_spaces(const MarkedText& text, Budget& budget) {
  TextBuilder out(budget);
  bool waits = false;
  for (size_t at = 0; at < text.size();) {
    const tok::Rune rune = tok::first_rune(text.bytes().substr(at));
    const bool is_space = is_python_space(rune.code);
    if (!is_space && std::exchange(waits, false) && out.size() > 0) {
      out.add(" ", text.is_trusted_at(at));
    }
    if (is_space) {
      waits = true;
    } else {
      out.add(text, at, at + rune.bytes);
    }
    at += rune.bytes;
  }
  return out.take();
}

Result<Value> strip_tags(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("striptags", arguments, {}).take_status());
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
  TextBuilder without_comments(run.budget());
  drop_between(text, "<!--", "-->", without_comments);
  TextBuilder without_tags(run.budget());
  drop_between(without_comments.text(), "<", ">", without_tags);
  TextBuilder out(run.budget());
  add_html_unescaped(with_single_spaces(without_tags.text(), run.budget()), out);
  return run.text(out.take());
}

// Letters, digits and a few signs stay, and the slash where it does not separate fields.
void add_percent_encoded(const MarkedText& text, bool in_query, TextBuilder& out) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (size_t at = 0; at < text.size() && !out.budget().is_exceeded(); ++at) {
    const auto byte = static_cast<uint8_t>(text.bytes()[at]);
    const char letter = static_cast<char>(byte | 0x20);
    const bool stays = (byte < 0x80 && letter >= 'a' && letter <= 'z') ||
                       (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-' ||
                       byte == '~' || (byte == '/' && !in_query);
    const bool is_trusted = text.is_trusted_at(at);
    if (stays) {
      out.add(text, at, at + 1);
    } else if (byte == ' ' && in_query) {
      out.add("+", is_trusted);
    } else {
      const char escape[] = {'%', kDigits[byte >> 4], kDigits[byte & 15]};
      out.add({escape, 3}, is_trusted);
    }
  }
}

Result<Value> encode_url(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("urlencode", arguments, {}).take_status());
  TextBuilder out(run.budget());
  const bool has_pairs = value.is_undefined() || value.list() != nullptr || value.dict() != nullptr;
  if (!has_pairs) {
    TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, run.budget()));
    add_percent_encoded(text, /*in_query=*/false, out);
    return run.text(out.take());
  }
  std::vector<Dict::Item> pairs;
  if (value.dict() != nullptr) {
    pairs = value.dict()->items;
  } else {
    TENON_ASSIGN_OR_RETURN(const Values items, run.items_of(value));
    for (const Value& item : items) {
      TENON_ASSIGN_OR_RETURN(Values both, run.items_of(item));
      if (both.size() != 2)
        return invalid_argument("'urlencode' needs pairs of a name and a value");
      pairs.emplace_back(std::move(both[0]), std::move(both[1]));
    }
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const MarkedText name, to_text(pairs[i].first, run.budget()));
    TENON_ASSIGN_OR_RETURN(const MarkedText item, to_text(pairs[i].second, run.budget()));
    if (i > 0) out.add("&");
    add_percent_encoded(name, /*in_query=*/true, out);
    out.add("=");
    add_percent_encoded(item, /*in_query=*/true, out);
  }
  return run.text(out.take());
}

Status add_attribute(const Value& name, const Value& value, TextBuilder& out) {
  TENON_ASSIGN_OR_RETURN(const MarkedText key, to_text(name, out.budget()));
  for (size_t at = 0; at < key.size();) {
    const tok::Rune rune = tok::first_rune(key.bytes().substr(at));
    at += rune.bytes;
    if (!is_python_space(rune.code) && rune.code != U'/' && rune.code != U'>' &&
        rune.code != U'=') {
      continue;
    }
    return invalid_argument("'xmlattr' gets the name " + in_quotes(key.bytes(), 80) +
                            " – expected one without white space, '/', '>' and '='");
  }
  TENON_ASSIGN_OR_RETURN(const MarkedText text, to_text(value, out.budget()));
  add_html_escaped(key, out);
  out.add("=\"");
  if (is_markup(value)) {
    out.add(text);
  } else {
    add_html_escaped(text, out);
  }
  out.add("\"");
  return Status();
}

Result<Value> xml_attributes(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("xmlattr", arguments, {"autospace"}));
  TENON_ASSIGN_OR_RETURN(const bool begins_with_space, flag_argument(bound[0], true));
  if (value.dict() == nullptr) return type_error("written as attributes", value);
  TextBuilder out(run.budget());
  for (const auto& [name, item] : value.dict()->items) {
    if (item.is_none() || item.is_undefined()) continue;
    if (out.size() > 0 || begins_with_space) out.add(" ");
    TENON_RETURN_IF_ERROR(add_attribute(name, item, out));
  }
  return run.text(out.take());
}

}  // namespace

std::span<const Filter> markup_filters() {
  static constexpr Filter kFilters[] = {{"e", escape},
                                        {"escape", escape},
                                        {"forceescape", force_escape},
                                        {"xmlattr", xml_attributes},
                                        {"striptags", strip_tags},
                                        {"urlencode", encode_url}};
  return kFilters;
}

}  // namespace tenon::chat
