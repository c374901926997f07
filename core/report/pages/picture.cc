#include "core/report/pages/picture.h"

#include <algorithm>
#include <cctype>

#include "core/report/pages/format.h"

namespace tenon {
namespace {

struct Colour {
  const char* name;
  const char* light;
  const char* dark;
};
constexpr Colour kPalette[] = {
    {"paper", "#ffffff", "#12151a"}, {"card", "#f7f8fa", "#1a1f26"}, {"ink", "#14181f", "#e8ebf0"},
    {"soft", "#5b6472", "#9aa5b4"},  {"rule", "#dfe3e8", "#2c333d"}, {"band", "#e3e9f1", "#242c38"},
    {"good", "#0a7d4f", "#4cc38a"},  {"bad", "#c0362c", "#f2766b"},  {"same", "#2563c9", "#74a9f7"},
    {"open", "#8a6d1a", "#d8b44a"},  {"c0", "#5b6472", "#9aa5b4"},   {"c1", "#2563c9", "#74a9f7"},
    {"c2", "#c2570c", "#f0a05a"},    {"c3", "#0a7d4f", "#4cc38a"},   {"c4", "#7c3aed", "#b394f5"},
    {"c5", "#be185d", "#f286b5"},    {"c6", "#0e7490", "#5cc8dc"},   {"c7", "#5f7a14", "#b5cf5c"},
    {"c8", "#7c4a21", "#c99a6e"},    {"c9", "#14181f", "#e8ebf0"},   {"c10", "#a16207", "#e0b43c"},
    {"c11", "#9d4c97", "#d99ad3"},   {"p0", "#3b6fb6", "#6f9ee0"},   {"p1", "#d97b29", "#eba05c"},
    {"p2", "#4c9a6a", "#6fbf8d"},    {"p3", "#b5527a", "#db85a8"},   {"p4", "#8464b8", "#ab90dc"},
    {"p5", "#9aa3ae", "#6b7684"}};

constexpr double kMargin = 16;  // around a picture in a file
constexpr double kLine = 20;

// Renderers of files know no custom properties.
std::string with_light_colours(std::string text) {
  for (const Colour& colour : kPalette) {
    const std::string name = "var(--" + std::string(colour.name) + ")";
    for (size_t at = 0; (at = text.find(name, at)) != text.npos;) {
      text.replace(at, name.size(), colour.light);
    }
  }
  return text;
}

std::string svg_text(double x, double y, std::string_view text, const char* style) {
  return format("<text x=\"%.1f\" y=\"%.1f\" style=\"%s\">", x, y, style) + html_text(text) +
         "</text>\n";
}

// Words that do not fit a line begin the next one.
std::vector<std::string> lines_of(std::string_view text, double width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
    if (!line.empty() && text_width(line + " " + word) > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

// Coloured squares with their words, in rows of at most `width`; moves y below them.
std::string legend_of(const Picture& picture, double width, double& y) {
  std::string out;
  double x = kMargin;
  for (const auto& [words, colour] : picture.legend) {
    const double wide = 18 + text_width(words) + 14;
    if (x > kMargin && x + wide > width) {
      x = kMargin;
      y += kLine;
    }
    out +=
        format(
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" rx=\"2\" style=\"fill:%s\"/>\n",
            x, y - 10, colour.c_str()) +
        svg_text(x + 16, y, words, "fill:var(--soft)");
    x += wide;
  }
  if (!picture.legend.empty()) y += kLine;
  return out;
}

}  // namespace

std::string html_text(std::string_view content) {
  std::string out;
  for (const char c : content) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

double text_width(std::string_view text) {
  // Of DejaVu Sans, which is among the wide ones.
  constexpr double kCharacter = 7.4;
  return kCharacter * static_cast<double>(std::count_if(text.begin(), text.end(),
                                                        [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string palette_style() {
  std::string light = ":root {", dark = light;
  for (const Colour& colour : kPalette) {
    light += std::string(" --") + colour.name + ":" + colour.light + ";";
    dark += std::string(" --") + colour.name + ":" + colour.dark + ";";
  }
  return light + " }\n@media (prefers-color-scheme: dark) { " + dark + " } }\n";
}

std::string_view picture_style() {
  return R"(svg text { fill:var(--ink) } .grid { stroke:var(--rule) }
.zero { stroke:var(--soft); stroke-width:1.5 }
svg .tick,svg .side,svg .unit,svg .mark { fill:var(--soft); font-size:11px } .tick { text-anchor:middle }
.side,.unit,.name { text-anchor:end } .curve { fill:none; stroke-width:2; stroke-linejoin:round }
.bar { stroke-width:3; stroke-linecap:round } .unbounded { stroke-dasharray:2 7; opacity:.5 }
g.better { stroke:var(--good); fill:var(--good) } g.worse { stroke:var(--bad); fill:var(--bad) }
g.equivalent { stroke:var(--same); fill:var(--same) }
g.inconclusive { stroke:var(--open); fill:var(--paper) }
)";
}

std::string embedded_svg(const Picture& picture) {
  return format(
             "<svg viewBox=\"0 0 %.0f %.0f\" style=\"max-width:%.0fpx\" role=\"img\" "
             "aria-label=\"",
             picture.width, picture.height, 1.3 * picture.width) +
         html_text(picture.title) + "\">\n" + picture.body + "</svg>\n";
}

std::string svg_file(const Picture& picture, std::string_view caption) {
  const double width = picture.width + 2 * kMargin;
  double y = kMargin + 12;
  std::string out;
  for (const std::string& line : lines_of(picture.title, picture.width / 1.25)) {
    out += svg_text(kMargin, y, line, "font-size:15px;font-weight:600");
    y += kLine;
  }
  y += 2;
  out += legend_of(picture, width, y);
  out +=
      format("<g transform=\"translate(%.0f %.1f)\">\n", kMargin, y - 8) + picture.body + "</g>\n";
  y += picture.height + 12;
  for (const std::string& line : lines_of(caption, picture.width)) {
    out += svg_text(kMargin, y, line, "fill:var(--soft);font-size:11px");
    y += 16;
  }
  const double height = y;
  return with_light_colours(
      format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
             "viewBox=\"0 0 %.0f %.0f\">\n",
             width, height, width, height) +
      "<style>svg { font:12px \"DejaVu Sans\",sans-serif }\n" + std::string(picture_style()) +
      "</style>\n<rect width=\"100%\" height=\"100%\" style=\"fill:var(--paper)\"/>\n" + out +
      "</svg>\n");
}

std::string file_word(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (out.ends_with('-')) out.pop_back();
  return out.empty() ? "arm" : out.substr(0, 60);
}

}  // namespace tenon
