#include "core/report/pages/svg_parts.h"

#include <cmath>

#include "core/report/pages/format.h"
#include "core/report/pages/picture.h"

namespace tenon::svg {

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1,
                x2, y2, style);
}

std::string text(double x, double y, std::string_view content, const char* style) {
  return format("<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style) + html_text(content) +
         "</text>\n";
}

std::string path(const std::string& points, const std::string& stroke) {
  return "<path d=\"" + points + "\" style=\"stroke:" + stroke + "\" class=\"curve\"/>\n";
}

double step_for(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= span / 5) return factor * power;
  }
  return 10 * power;
}

std::string tick(double value) {
  return std::abs(value) < 1e-12 ? "0" : format(std::abs(value) < 1000 ? "%.3g" : "%.0f", value);
}

}  // namespace tenon::svg
