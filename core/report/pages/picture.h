// A picture of a report: part of a page, or a file of its own.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

struct Picture {
  std::string name = {};   // of its file: "differences-chunked"
  std::string title = {};  // what it shows
  double width = 0, height = 0;
  std::string body = {};  // SVG elements, whose colours are custom properties of the page
  // What colours stand for: words, and "var(--c1)". The page shows them as text.
  std::vector<std::pair<std::string, std::string>> legend = {};
};

// As HTML text: &, <, >, " and ' escaped.
std::string html_text(std::string_view text);
// How wide a text of 12 units is at most, in the units of a picture.
double text_width(std::string_view text);

// The custom properties of all colours, light and dark, as a page's style sheet has them.
std::string palette_style();
// How pictures look, as CSS that uses these properties.
std::string_view picture_style();

// An <svg> in a page that has both.
std::string embedded_svg(const Picture& picture);
// A file that needs nothing else: on white, with its title, its legend and `caption` below.
std::string svg_file(const Picture& picture, std::string_view caption);
// Without what file systems or people trip over: "K/V i8" becomes "k-v-i8".
std::string file_word(std::string_view text);

}  // namespace tenon
