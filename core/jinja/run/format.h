// Python's two ways to format texts: "%s: %d" % values, and "{}: {:>5}".format(values).
#pragma once

#include "core/base/result.h"
#include "core/jinja/budget.h"
#include "core/jinja/run/builtins.h"
#include "core/jinja/value.h"

namespace tenon::chat {

// A tuple is several values, a dictionary is for %(name)s, anything else is one value.
Result<Value> format_percent(const MarkedText& format, const Value& values, Budget& budget);
// Attributes and items in fields ("{0.name}", "{x[1]}") are looked up by the interpreter.
Result<Value> format_braces(Interpreter& run, const MarkedText& format, const Arguments& values);

// The part of a format after ":" or "%".
struct FormatSpec {
  std::string_view fill = " ";
  char align = '\0';  // '<', '>', '^', '='
  char sign = '-';
  bool alternate = false;
  bool groups = false;  // thousands by commas
  size_t width = 0;
  int precision = -1;
  char type = '\0';
};
// `text` within its width; numbers stand right.
void add_aligned(const MarkedText& text, const FormatSpec& spec, char default_align,
                 TextBuilder& out);
// A number as the type says: d, x, X, o, b, f, F, e, E, g, G, %. Error: invalid_argument.
Result<std::string> format_number(const Value& value, const FormatSpec& spec);

}  // namespace tenon::chat
