#include "tools/tenon/calibrate/picture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/report/pages/charts.h"
#include "core/report/pages/svg_parts.h"

namespace tenon {
namespace {

constexpr double kSide = 300, kLeft = 60, kTop = 20, kGap = 90, kBelow = 40;
constexpr double kMostPercent = 50;

struct Scale {
  double low = 0, high = 1;  // log10 of seconds
  double at(double seconds) const { return (std::log10(seconds) - low) / (high - low) * kSide; }
};

std::string point(double x, double y, size_t colour) {
  char text[160];
  std::snprintf(text, sizeof(text), "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" style=\"fill:%s\"/>\n",
                x, y, arm_colour(colour).c_str());
  return text;
}

std::string seconds_text(int power) {
  constexpr const char* kWords[] = {"1 µs",  "10 µs",  "100 µs", "1 ms",
                                    "10 ms", "100 ms", "1 s",    "10 s"};
  const int index = power + 6;
  return index >= 0 && index < 8 ? kWords[index] : "";
}

Scale scale_of(const sim::Fit& fit) {
  double low = 1e9, high = 1e-9;
  for (const sim::FittedStep& each : fit.steps) {
    low = std::min({low, each.seconds, each.step->seconds});
    high = std::max({high, each.seconds, each.step->seconds});
  }
  return {std::floor(std::log10(low)), std::ceil(std::log10(high))};
}

}  // namespace

Picture fit_picture(const sim::Fit& fit) {
  const Scale scale = scale_of(fit);
  const double second = kLeft + kSide + kGap, middle = kTop + kSide / 2;
  Picture out{.name = "fit", .title = "Steps: predicted over measured, and the error of each"};
  out.width = second + kSide + 20;
  out.height = kTop + kSide + kBelow;
  for (auto power = static_cast<int>(scale.low); power <= static_cast<int>(scale.high); ++power) {
    const double at = scale.at(std::pow(10, power));
    const std::string words = seconds_text(power);
    out.body += svg::line(kLeft, kTop + kSide - at, kLeft + kSide, kTop + kSide - at, "grid");
    out.body += svg::text(kLeft - 8, kTop + kSide - at + 4, words, "side");
    for (const double left : {kLeft, second}) {
      out.body += svg::text(left + at, kTop + kSide + 16, words, "tick");
    }
  }
  out.body += svg::line(kLeft, kTop + kSide, kLeft + kSide, kTop, "zero");
  for (const int percent : {-50, -25, 0, 25, 50}) {
    const double y = middle - percent / kMostPercent * kSide / 2;
    out.body += svg::line(second, y, second + kSide, y, percent == 0 ? "zero" : "grid");
    out.body += svg::text(second - 8, y + 4, std::to_string(percent) + " %", "side");
  }
  for (const sim::FittedStep& each : fit.steps) {
    const size_t colour = each.step->held_out ? 1 : 0;
    const double x = scale.at(each.step->seconds);
    const double error = std::clamp(each.error() * 100, -kMostPercent, kMostPercent);
    out.body += point(kLeft + x, kTop + kSide - scale.at(each.seconds), colour);
    out.body += point(second + x, middle - error / kMostPercent * kSide / 2, colour);
  }
  out.body += svg::text(kLeft, kTop + kSide + 34, "measured, a step", "mark");
  out.body += svg::text(second, kTop + kSide + 34, "measured, a step", "mark");
  out.legend = {{"fitted to", arm_colour(0)}, {"held out", arm_colour(1)}};
  return out;
}

}  // namespace tenon
