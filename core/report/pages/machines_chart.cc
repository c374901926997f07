#include "core/report/pages/machines_chart.h"

#include <algorithm>

#include "core/report/pages/charts.h"
#include "core/report/pages/format.h"
#include "core/report/pages/svg_parts.h"

namespace tenon {
namespace {

constexpr double kWidth = 560, kLeft = 44, kRight = 12, kTop = 8, kBottom = 30;
constexpr double kRow = 12;  // of a machine
constexpr double kLine = 2;  // below it, where requests wait
constexpr size_t kColumns = 96;
constexpr size_t kMostRows = 64;  // more machines share rows

// Means of what a machine did in each column.
struct Strip {
  std::vector<double> running = std::vector<double>(kColumns);
  std::vector<double> waiting = std::vector<double>(kColumns);
};

// A point holds until the next one.
Strip strip_of(const std::vector<TimelinePoint>& points, double end_ms) {
  Strip out;
  size_t at = 0;
  for (size_t column = 0; column < kColumns; ++column) {
    const double from = end_ms * static_cast<double>(column) / kColumns;
    const double to = end_ms * static_cast<double>(column + 1) / kColumns;
    double running = 0, waiting = 0, count = 0;
    while (at < points.size() && points[at].ms <= to) {
      if (points[at].ms >= from) {
        running += points[at].running;
        waiting += points[at].waiting;
        ++count;
      }
      ++at;
    }
    if (count == 0) continue;
    out.running[column] = running / count;
    out.waiting[column] = waiting / count;
  }
  return out;
}

// Machines from `first` on that share a row: means of them all.
Strip strip_of_group(const std::vector<std::vector<TimelinePoint>>& machines, size_t first,
                     size_t end, double end_ms) {
  Strip out;
  for (size_t machine = first; machine < end; ++machine) {
    const Strip one = strip_of(machines[machine], end_ms);
    for (size_t column = 0; column < kColumns; ++column) {
      out.running[column] += one.running[column] / static_cast<double>(end - first);
      out.waiting[column] += one.waiting[column] / static_cast<double>(end - first);
    }
  }
  return out;
}

std::string cell(double x, double y, double width, double height, const std::string& colour,
                 double opacity) {
  return format(
      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" style=\"fill:%s;"
      "opacity:%.2f\"/>\n",
      x, y, width, height, colour.c_str(), opacity);
}

}  // namespace

Picture machines_chart(const std::vector<std::vector<TimelinePoint>>& machines, size_t arm) {
  double end_ms = 1, most = 1;
  for (const auto& points : machines) {
    for (const TimelinePoint& point : points) {
      end_ms = std::max(end_ms, point.ms);
      most = std::max<double>(most, point.running);
    }
  }
  const size_t group = (machines.size() + kMostRows - 1) / kMostRows;
  const size_t rows = (machines.size() + group - 1) / group;
  Picture out{.width = kWidth, .height = kTop + kRow * static_cast<double>(rows) + kBottom};
  const double width = (kWidth - kLeft - kRight) / kColumns;
  const double foot = out.height - kBottom;
  const double step = svg::step_for(end_ms / 1000);
  for (double seconds = 0; seconds * 1000 < end_ms; seconds += step) {
    const double x = kLeft + (kWidth - kLeft - kRight) * seconds * 1000 / end_ms;
    out.body += svg::line(x, kTop, x, foot, "grid");
    out.body += svg::text(x, foot + 16, svg::tick(seconds), "tick");
  }
  out.body += svg::text(kWidth - kRight, out.height - 2, "s", "unit");
  for (size_t row = 0; row < rows; ++row) {
    const size_t first = row * group;
    const Strip strip =
        strip_of_group(machines, first, std::min(first + group, machines.size()), end_ms);
    const double y = kTop + kRow * static_cast<double>(row);
    if (rows <= 16 || row % 8 == 0 || row + 1 == rows) {
      out.body += svg::text(kLeft - 6, y + kRow - 2, std::to_string(first + 1), "side");
    }
    for (size_t column = 0; column < kColumns; ++column) {
      const double x = kLeft + width * static_cast<double>(column);
      if (strip.running[column] > 0) {
        out.body += cell(x, y, width, kRow - kLine - 1, arm_colour(arm),
                         0.15 + 0.85 * std::min(1.0, strip.running[column] / most));
      }
      if (strip.waiting[column] > 0) {
        out.body += cell(x, y + kRow - kLine - 1, width, kLine, "var(--bad)", 1);
      }
    }
  }
  out.legend = {{format("sequences running, %.0f at most", most), arm_colour(arm)},
                {"requests wait", "var(--bad)"}};
  if (group > 1) {
    out.legend.front().first += ", the mean of " + std::to_string(group) + " machines in each row";
  }
  return out;
}

}  // namespace tenon
