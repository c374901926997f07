#include "core/report/pages/charts.h"

#include <algorithm>
#include <cmath>

#include "core/report/pages/format.h"
#include "core/report/statistics/interval.h"

namespace tenon {
namespace {

constexpr double kWidth = 720;   // of every picture, in its own units
constexpr double kLabels = 150;  // for names on the left
constexpr double kValues = 150;  // for figures on the right

std::string open_svg(double height, std::string_view label) {
  return format("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", kWidth, height) +
         html_text(label) + "\">\n";
}
std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1,
                x2, y2, style);
}
std::string text(double x, double y, std::string_view content, const char* style) {
  return format("<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style) + html_text(content) +
         "</text>\n";
}
std::string box(double x, double y, double width, double height, const std::string& fill,
                const std::string& title = "") {
  return format(
             "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" "
             "style=\"fill:%s\">",
             x, y, std::max(0.0, width), height, fill.c_str()) +
         (title.empty() ? "" : "<title>" + html_text(title) + "</title>") + "</rect>\n";
}
std::string path(const std::string& points, const std::string& stroke) {
  return "<path d=\"" + points + "\" style=\"stroke:" + stroke + "\" class=\"curve\"/>\n";
}

// A round number not below a tenth of the span, for the distance of grid lines.
double step_for(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= span / 5) return factor * power;
  }
  return 10 * power;
}
std::string tick(double value) {
  return std::abs(value) < 1e-12 ? "0" : format("%.3g", value);
}

// Log ratios on the x axis of a forest plot.
struct RatioAxis {
  double most;  // |log ratio| at the edges

  double at(double log_ratio) const {
    const double middle = (kLabels + kWidth - kValues) / 2;
    const double half = (kWidth - kValues - kLabels) / 2;
    return middle + half * std::clamp(log_ratio / most, -1.0, 1.0);
  }
};

RatioAxis axis_for(const ArmResult& arm, double margin) {
  double most = 3 * std::log1p(margin);
  for (const MetricResult& result : arm.metrics) {
    if (!result.absent.empty()) continue;
    most = std::max(most, 1.15 * std::abs(result.log_ratio.estimate));
    // One wild interval must not squeeze the others: its ends are cut at the edge.
    for (const double end : {result.log_ratio.low, result.log_ratio.high}) {
      if (std::isfinite(end)) most = std::max(most, std::min(1.1 * std::abs(end), 1.5));
    }
  }
  return {most};
}

std::string forest_grid(const RatioAxis& axis, double margin, double height) {
  const double band = std::log1p(margin);
  std::string out = box(axis.at(-band), 8, axis.at(band) - axis.at(-band), height - 36,
                        "var(--band)", "differences that were declared not to matter");
  out += line(axis.at(0), 8, axis.at(0), height - 28, "zero");
  const double percent = 100 * std::expm1(axis.most);
  const double step = step_for(2 * percent);
  for (double value = -std::floor(percent / step) * step; value <= percent; value += step) {
    if (value <= -100) continue;
    const double x = axis.at(std::log1p(value / 100));
    if (x <= axis.at(-axis.most) || x >= axis.at(axis.most)) continue;
    out += line(x, 8, x, height - 28, "grid");
    out += text(x, height - 12, (value > 0 ? "+" : "") + tick(value) + " %", "tick");
  }
  return out;
}

std::string steps_of(const std::vector<std::pair<double, double>>& points) {
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) {
    out += i == 0 ? format("M%.1f %.1f", points[i].first, points[i].second)
                  : format("H%.1fV%.1f", points[i].first, points[i].second);
  }
  return out;
}

struct ValueAxis {
  double low, high;
  bool logarithmic;

  double at(double value) const {
    const double share =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return 50 + (kWidth - 70) * std::clamp(share, 0.0, 1.0);
  }
};

ValueAxis axis_of(const std::vector<Curve>& curves) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Curve& curve : curves) {
    for (const double value : curve.values) {
      if (value > 0) low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (high <= 0 || low > high) return {0, 1, false};
  if (high > 10 * low) return {low / 1.1, high * 1.1, true};
  return {0, high * 1.05, false};
}

std::string value_ticks(const ValueAxis& axis, double height, std::string_view unit) {
  std::string out;
  const auto mark = [&](double value) {
    out += line(axis.at(value), 10, axis.at(value), height - 28, "grid");
    out += text(axis.at(value), height - 12, tick(value), "tick");
  };
  if (axis.logarithmic) {
    for (double power = std::pow(10, std::floor(std::log10(axis.low))); power < axis.high;
         power *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power > axis.low && factor * power < axis.high) mark(factor * power);
      }
    }
  } else {
    const double step = step_for(axis.high);
    for (double value = 0; value < axis.high; value += step) mark(value);
  }
  return out + text(kWidth - 4, height - 12, unit, "unit");
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

std::string arm_colour(size_t arm) {
  return format("var(--c%zu)", arm % 6);
}
std::string part_colour(size_t part) {
  return format("var(--p%zu)", part % 6);
}

std::string forest_chart(const ArmResult& arm, double margin) {
  constexpr double kRow = 26;
  size_t rows = 0;
  for (const MetricResult& result : arm.metrics) rows += result.absent.empty() ? 1 : 0;
  const double height = 44 + kRow * static_cast<double>(rows);
  const RatioAxis axis = axis_for(arm, margin);
  std::string out = open_svg(height, "differences of " + arm.arm->name + " with their intervals");
  out += forest_grid(axis, margin, height);
  double y = 8 + kRow / 2;
  for (const MetricResult& result : arm.metrics) {
    if (!result.absent.empty()) continue;
    const Interval& ratio = result.log_ratio;
    const std::string style(verdict_name(result.verdict));
    out += text(kLabels - 12, y + 4, result.metric->name, "name");
    const double low = std::isfinite(ratio.low) ? ratio.low : -axis.most;
    const double high = std::isfinite(ratio.high) ? ratio.high : axis.most;
    const char* bar = ratio.bounded() ? "bar" : "bar unbounded";
    out += "<g class=\"" + style + "\">" + line(axis.at(low), y, axis.at(high), y, bar) +
           format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/></g>\n", axis.at(ratio.estimate), y);
    out += text(kWidth - kValues + 12, y + 4, percent_text(ratio), "value");
    y += kRow;
  }
  return out + "</svg>\n";
}

std::string distribution_chart(const std::vector<Curve>& curves, std::string_view unit) {
  constexpr double kHeight = 230;
  const ValueAxis axis = axis_of(curves);
  const auto y_of = [](double share) { return kHeight - 28 - (kHeight - 40) * share; };
  std::string out = open_svg(kHeight, "share of requests that were as quick or quicker");
  for (const double share : {0.0, 0.5, 0.9, 1.0}) {
    out += line(50, y_of(share), kWidth - 20, y_of(share), "grid");
    out += text(44, y_of(share) + 4, format("%.0f %%", 100 * share), "side");
  }
  out += value_ticks(axis, kHeight, unit);
  for (const Curve& curve : curves) {
    std::vector<double> sorted = curve.values;
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::pair<double, double>> points;
    const size_t stride = sorted.size() / 400 + 1;
    for (size_t i = 0; i < sorted.size(); i += stride) {
      const double share = static_cast<double>(i + 1) / static_cast<double>(sorted.size());
      points.emplace_back(axis.at(sorted[i]), y_of(share));
    }
    if (!sorted.empty()) points.emplace_back(axis.at(sorted.back()), y_of(1));
    out += path(steps_of(points), arm_colour(curve.arm));
  }
  return out + "</svg>\n";
}

std::string timeline_chart(const std::vector<TimeLine>& lines) {
  constexpr double kHeight = 130;
  double last = 1, most = 1;
  for (const TimeLine& each : lines) {
    for (const auto& [ms, value] : each.points) {
      last = std::max(last, ms);
      most = std::max(most, value);
    }
  }
  const ValueAxis axis{0, last, false};
  const auto y_of = [&](double value) { return kHeight - 28 - (kHeight - 40) * value / most; };
  std::string out = open_svg(kHeight, "over the time of one piece");
  for (const double value : {0.0, most}) {
    out += line(50, y_of(value), kWidth - 20, y_of(value), "grid");
    out += text(44, y_of(value) + 4, tick(value), "side");
  }
  out += value_ticks(axis, kHeight, "ms");
  for (const TimeLine& each : lines) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [ms, value] : each.points) points.emplace_back(axis.at(ms), y_of(value));
    out += path(steps_of(points), arm_colour(each.arm));
  }
  return out + "</svg>\n";
}

std::string stacked_chart(const std::vector<StackedBar>& bars) {
  constexpr double kRow = 30;
  const double height = 12 + kRow * static_cast<double>(bars.size());
  double most = 0;
  const auto sum = [](const PartSeconds& parts) {
    double total = 0;
    for (const double part : parts) total += part;
    return total;
  };
  for (const StackedBar& bar : bars) most = std::max(most, sum(bar.parts));
  std::string out = open_svg(height, "time by part");
  double y = 6;
  for (const StackedBar& bar : bars) {
    out += text(kLabels - 12, y + 18, bar.name, "name");
    double x = kLabels;
    for (size_t i = 0; i < bar.parts.size(); ++i) {
      const double width = most > 0 ? (kWidth - kLabels - 90) * bar.parts[i] / most : 0;
      out += box(x, y + 4, width, kRow - 10, part_colour(i),
                 std::string(kPartNames[i]) + format(" %.2f ms", 1e3 * bar.parts[i]));
      x += width;
    }
    out += text(x + 8, y + 18, format("%.1f ms", 1e3 * sum(bar.parts)), "value");
    y += kRow;
  }
  return out + "</svg>\n";
}

}  // namespace tenon
