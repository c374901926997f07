#include "core/report/pages/charts.h"

#include <algorithm>
#include <cmath>

#include "core/report/pages/format.h"
#include "core/report/pages/svg_parts.h"
#include "core/report/statistics/interval.h"

namespace tenon {
namespace {

using svg::line;
using svg::path;
using svg::step_for;
using svg::text;
using svg::tick;

// Of a picture, in its own units: letters of 12 of them are legible on a screen of 500 pixels.
// Pictures with long names are wider, so that nothing is cut.
constexpr double kWidth = 560;
constexpr double kLeastPlot = 200;  // between the names and the figures
constexpr double kGap = 12;         // between a name and what it names
constexpr double kSide = 50;        // for the figures of a y axis
constexpr double kUnit = 44;        // for the unit at the right end of an x axis

std::string box(double x, double y, double width, double height, const std::string& fill,
                const std::string& title = "") {
  return format(
             "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" "
             "style=\"fill:%s\">",
             x, y, std::max(0.0, width), height, fill.c_str()) +
         (title.empty() ? "" : "<title>" + html_text(title) + "</title>") + "</rect>\n";
}
// Log ratios on the x axis of a forest plot.
struct RatioAxis {
  double most;         // |log ratio| at the edges
  double left, right;  // where the edges are

  double at(double log_ratio) const {
    return (left + right) / 2 + (right - left) / 2 * std::clamp(log_ratio / most, -1.0, 1.0);
  }
};

RatioAxis axis_for(const ArmResult& arm, double margin) {
  double most = 3 * std::log1p(margin), names = 0, values = 0;
  for (const MetricResult& result : arm.metrics) {
    if (!result.absent.empty()) continue;
    names = std::max(names, text_width(result.metric->name));
    values = std::max(values, text_width(percent_text(result.log_ratio)));
    most = std::max(most, 1.15 * std::abs(result.log_ratio.estimate));
    // One wild interval must not squeeze the others: its ends are cut at the edge.
    for (const double end : {result.log_ratio.low, result.log_ratio.high}) {
      if (std::isfinite(end)) most = std::max(most, std::min(1.1 * std::abs(end), 1.5));
    }
  }
  const double left = names + kGap;
  return {most, left, std::max(left + kLeastPlot, kWidth - values - kGap)};
}

// Where an interval goes on beyond the edge, which is to the right where `way` is 1.
std::string arrow(double x, double y, double way) {
  return format("<path d=\"M%.1f %.1fl%.1f -4v8z\"/>", x + 4 * way, y, -7 * way);
}

// Round differences up to `most` per cent and as far down. Far from 0 the axis shows that it is one
// of ratios: a half and twice as much are as far away.
std::vector<double> percent_ticks(double most) {
  if (most > 900) return {-99, -90, 0, 900, 9900};
  if (most > 60) return {-95, -80, -50, 0, 100, 400, 1900};
  std::vector<double> out;
  const double step = step_for(2 * most);
  for (double value = -std::floor(most / step) * step; value <= most; value += step) {
    out.push_back(value);
  }
  return out;
}

std::string forest_grid(const RatioAxis& axis, double margin, double height) {
  const double band = std::log1p(margin);
  std::string out = box(axis.at(-band), 8, axis.at(band) - axis.at(-band), height - 36,
                        "var(--band)", "differences that were declared not to matter");
  out += line(axis.at(0), 8, axis.at(0), height - 28, "zero");
  for (const double value : percent_ticks(100 * std::expm1(axis.most))) {
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
    return kSide + (kWidth - kSide - kUnit) * std::clamp(share, 0.0, 1.0);
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
        if (factor > 1 && axis.high > 200 * axis.low) continue;  // their figures would overlap
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

std::string arm_colour(size_t arm) {
  // The base's is its own.
  constexpr size_t kOthers = 11;
  return format("var(--c%zu)", arm == 0 ? arm : 1 + (arm - 1) % kOthers);
}
std::string part_colour(size_t part) {
  return format("var(--p%zu)", part % 6);
}

Picture forest_chart(const ArmResult& arm, double margin) {
  constexpr double kRow = 26;
  size_t rows = 0;
  for (const MetricResult& result : arm.metrics) rows += result.absent.empty() ? 1 : 0;
  const double height = 44 + kRow * static_cast<double>(rows);
  const RatioAxis axis = axis_for(arm, margin);
  std::string out = forest_grid(axis, margin, height);
  double width = kWidth;
  double y = 8 + kRow / 2;
  for (const MetricResult& result : arm.metrics) {
    if (!result.absent.empty()) continue;
    const Interval& ratio = result.log_ratio;
    const std::string style(verdict_name(result.verdict));
    out += text(axis.left - kGap, y + 4, result.metric->name, "name");
    const double low = std::isfinite(ratio.low) ? ratio.low : -axis.most;
    const double high = std::isfinite(ratio.high) ? ratio.high : axis.most;
    const char* bar = ratio.bounded() ? "bar" : "bar unbounded";
    out += "<g class=\"" + style + "\">" + line(axis.at(low), y, axis.at(high), y, bar);
    if (ratio.low < -axis.most) out += arrow(axis.left, y, -1);
    if (ratio.high > axis.most) out += arrow(axis.right, y, 1);
    out += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/></g>\n", axis.at(ratio.estimate), y);
    const std::string figures = percent_text(ratio);
    out += text(axis.right + kGap, y + 4, figures, "value");
    width = std::max(width, axis.right + kGap + text_width(figures));
    y += kRow;
  }
  return {.width = width, .height = height, .body = std::move(out)};
}

Picture distribution_chart(const std::vector<Curve>& curves, std::string_view unit) {
  constexpr double kHeight = 230;
  const ValueAxis axis = axis_of(curves);
  const auto y_of = [](double share) { return kHeight - 28 - (kHeight - 40) * share; };
  std::string out;
  for (const double share : {0.0, 0.5, 0.9, 1.0}) {
    out += line(kSide, y_of(share), kWidth - kUnit, y_of(share), "grid");
    out += text(kSide - 6, y_of(share) + 4, format("%.0f %%", 100 * share), "side");
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
  return {.width = kWidth, .height = kHeight, .body = std::move(out)};
}

Picture timeline_chart(const std::vector<TimeLine>& lines) {
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
  std::string out;
  for (const double value : {0.0, most}) {
    out += line(kSide, y_of(value), kWidth - kUnit, y_of(value), "grid");
    out += text(kSide - 6, y_of(value) + 4, tick(value), "side");
  }
  out += value_ticks(axis, kHeight, "ms");
  for (const TimeLine& each : lines) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [ms, value] : each.points) points.emplace_back(axis.at(ms), y_of(value));
    out += path(steps_of(points), arm_colour(each.arm));
  }
  return {.width = kWidth, .height = kHeight, .body = std::move(out)};
}

Picture stacked_chart(const std::vector<StackedBar>& bars) {
  constexpr double kRow = 30;
  const double height = 12 + kRow * static_cast<double>(bars.size());
  double most = 0, names = 0, values = 0;
  const auto sum = [](const PartSeconds& parts) {
    double total = 0;
    for (const double part : parts) total += part;
    return total;
  };
  const auto figure = [&](const StackedBar& bar) {
    return format("%.1f ms", 1e3 * sum(bar.parts));
  };
  for (const StackedBar& bar : bars) {
    most = std::max(most, sum(bar.parts));
    names = std::max(names, text_width(bar.name));
    values = std::max(values, text_width(figure(bar)));
  }
  const double left = names + kGap, plot = std::max(kLeastPlot, kWidth - left - values - kGap);
  std::string out;
  double y = 6;
  for (const StackedBar& bar : bars) {
    out += text(left - kGap, y + 18, bar.name, "name");
    double x = left;
    for (size_t i = 0; i < bar.parts.size(); ++i) {
      const double width = most > 0 ? plot * bar.parts[i] / most : 0;
      out += box(x, y + 4, width, kRow - 10, part_colour(i),
                 std::string(kPartNames[i]) + format(" %.2f ms", 1e3 * bar.parts[i]));
      x += width;
    }
    out += text(x + 8, y + 18, figure(bar), "value");
    y += kRow;
  }
  return {.width = left + plot + values + kGap, .height = height, .body = std::move(out)};
}

}  // namespace tenon
