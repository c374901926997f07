#include <charconv>
#include <optional>

#include "core/base/quote.h"
#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/format.h"
#include "core/jinja/run/interpreter.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

constexpr size_t kWidest = size_t{1} << 20;

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

Result<FormatSpec> parse_spec(std::string_view text) {
  FormatSpec spec;
  const size_t first = text.empty() ? 0 : tok::rune_bytes(text[0]);
  size_t at = 0;
  if (first > 0 && first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[at++];
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    ++at;
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
  }
  const auto number = [&]() -> Result<size_t> {
    size_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at) {
      value = value * 10 + static_cast<size_t>(peek() - '0');
      if (value > kWidest) return invalid_argument("a format is too wide");
    }
    return value;
  };
  TENON_ASSIGN_OR_RETURN(spec.width, number());
  if (peek() == ',') {
    spec.groups = true;
    ++at;
  }
  if (peek() == '.') {
    ++at;
    TENON_ASSIGN_OR_RETURN(const size_t precision, number());
    spec.precision = static_cast<int>(precision);
  }
  if (at < text.size()) spec.type = text[at++];
  static constexpr std::string_view kTypes = "sdxXobfFeEgG%";
  if (at < text.size() || (spec.type != '\0' && kTypes.find(spec.type) == std::string::npos)) {
    return invalid_argument("the format " + in_quotes(text, 80) + " is not supported");
  }
  return spec;
}

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& run, const MarkedText& format, const Arguments& values)
      : run_(run), format_(format), bytes_(format.bytes()), values_(values), out_(run.budget()) {}

  Result<Value> format() {
    for (size_t at = 0; at < bytes_.size();) {
      const size_t brace = std::min(bytes_.find_first_of("{}", at), bytes_.size());
      out_.add(format_, at, brace);
      if (brace == bytes_.size()) break;
      if (brace + 1 < bytes_.size() && bytes_[brace + 1] == bytes_[brace]) {
        out_.add(format_, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      const size_t end = bytes_.find('}', brace);
      if (bytes_[brace] == '}' || end == std::string_view::npos) {
        return invalid_argument("a format has a single '" + std::string(1, bytes_[brace]) + "'");
      }
      TENON_RETURN_IF_ERROR(add_field(bytes_.substr(brace + 1, end - brace - 1)));
      at = end + 1;
    }
    return make_text(run_.budget(), out_.take());
  }

 private:
  Result<Value> root(std::string_view name) {
    if (name.empty()) return positional(next_++);
    size_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    if (read.ec == std::errc() && read.ptr == name.data() + name.size()) return positional(index);
    for (const auto& [key, value] : values_.named) {
      if (key == name) return value;
    }
    return invalid_argument("a format names " + in_quotes(name, 80) + ", which was not given");
  }
  Result<Value> positional(size_t index) {
    if (index >= values_.positional.size()) {
      return invalid_argument("the format needs more values than there are");
    }
    return values_.positional[index];
  }

  // "0.name[key].more"
  Result<Value> field_value(std::string_view field) {
    size_t at = std::min(field.find_first_of(".["), field.size());
    TENON_ASSIGN_OR_RETURN(Value value, root(field.substr(0, at)));
    while (at < field.size()) {
      const bool is_item = field[at] == '[';
      const size_t end =
          is_item ? field.find(']', at) : std::min(field.find_first_of(".[", at + 1), field.size());
      if (end == std::string_view::npos) return invalid_argument("a format's '[' has no end");
      const std::string_view name = field.substr(at + 1, end - at - 1);
      if (name.empty() || name.starts_with("__")) {
        return invalid_argument("a format asks for the attribute " + in_quotes(name, 80));
      }
      TENON_ASSIGN_OR_RETURN(value,
                             is_item ? run_.path_of(value, name) : run_.attribute_of(value, name));
      at = end + (is_item ? 1 : 0);
    }
    if (value.is_undefined()) return undefined_error(value);
    return value;
  }

  Status add_field(std::string_view field) {
    std::string_view spec_text;
    if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
      spec_text = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = '\0';
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field = field.substr(0, field.size() - 2);
      if (conversion != 's' && conversion != 'r') {
        return invalid_argument("a format converts with '!" + std::string(1, conversion) +
                                "', which is not supported");
      }
    }
    TENON_ASSIGN_OR_RETURN(const Value value, field_value(field));
    TENON_ASSIGN_OR_RETURN(const FormatSpec spec, parse_spec(spec_text));
    const bool is_number =
        value.is_number() && conversion == '\0' && (!value.is_boolean() || spec.type != '\0');
    if (is_number) {
      TENON_ASSIGN_OR_RETURN(std::string digits, format_number(value, spec));
      add_aligned(MarkedText(std::move(digits), true), spec, '>', out_);
      return Status();
    }
    if (spec.type != '\0' && spec.type != 's') return type_error("written as a number", value);
    TextBuilder text(run_.budget());
    TENON_RETURN_IF_ERROR(conversion == 'r' ? add_representation(value, text)
                                            : add_text(value, text));
    MarkedText shown = text.take();
    if (spec.precision >= 0) {
      shown.truncate(byte_of_character(shown.bytes(), static_cast<size_t>(spec.precision)));
    }
    add_aligned(shown, spec, '<', out_);
    return Status();
  }

  Interpreter& run_;
  const MarkedText& format_;
  std::string_view bytes_;
  const Arguments& values_;
  TextBuilder out_;
  size_t next_ = 0;
};

}  // namespace

Result<Value> format_braces(Interpreter& run, const MarkedText& format, const Arguments& values) {
  return BraceFormatter(run, format, values).format();
}

}  // namespace tenon::chat
