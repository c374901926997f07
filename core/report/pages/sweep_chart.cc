#include "core/report/pages/sweep_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/report/pages/charts.h"
#include "core/report/pages/format.h"
#include "core/report/pages/svg_parts.h"

namespace tenon {
namespace {

constexpr double kWidth = 560, kHeight = 300;
constexpr double kLeft = 62, kRight = 76, kTop = 14, kBottom = 44;
constexpr double kRing = 11, kWordsHeight = 13;  // of marks

// A median and the ends of its interval, which are the median itself where it has none.
struct Band {
  double low, middle, high;
};

Band band_of(const SweepPoint& point, SweepLatency latency) {
  if (latency == SweepLatency::gap) return {point.gap_ms, point.gap_ms, point.gap_ms};
  const Interval& value = latency == SweepLatency::ttft ? point.ttft_ms : point.latency_ms;
  const bool bounded = value.bounded();
  return {bounded ? value.low : value.estimate, value.estimate,
          bounded ? value.high : value.estimate};
}

class Plot {
 public:
  Plot(const std::vector<Sweep>& sweeps, SweepLatency latency) : latency_(latency) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const Sweep& sweep : sweeps) {
      for (const SweepPoint& point : sweep.points) {
        const Band band = band_of(point, latency);
        if (band.middle <= 0) continue;
        least = std::min(least, band.low > 0 ? band.low : band.middle);
        most = std::max(most, band.high);
        throughput_ = std::max(throughput_, 1.05 * point.tokens_per_second);
      }
    }
    if (most <= 0) return;
    logarithmic_ = most > 10 * least;
    low_ = logarithmic_ ? least / 1.2 : 0;
    high_ = logarithmic_ ? most * 1.2 : most * 1.05;
  }

  double x(double tokens_per_second) const {
    return kLeft + (kWidth - kLeft - kRight) * std::min(tokens_per_second / throughput_, 1.0);
  }
  double y(double ms) const {
    const double share = logarithmic_ ? std::log(std::max(ms, low_) / low_) / std::log(high_ / low_)
                                      : (ms - low_) / (high_ - low_);
    return kHeight - kBottom - (kHeight - kBottom - kTop) * std::clamp(share, 0.0, 1.0);
  }

  std::string grid() const {
    std::string out;
    const double step = svg::step_for(throughput_);
    for (double value = 0; value < throughput_; value += step) {
      out += svg::line(x(value), kTop, x(value), kHeight - kBottom, "grid");
      out += svg::text(x(value), kHeight - kBottom + 16, svg::tick(value), "tick");
    }
    for (const double value : latency_ticks()) {
      out += svg::line(kLeft, y(value), kWidth - kRight, y(value), "grid");
      out += svg::text(kLeft - 6, y(value) + 4, svg::tick(value), "side");
    }
    out += svg::text(kWidth - kRight, kHeight - 8, "tokens/s", "unit");
    return out + svg::text(kLeft - 6, kTop - 2, "ms", "side");
  }

  std::string curve(const Sweep& sweep, size_t arm) {
    std::string points, upper, lower;
    for (const SweepPoint& point : sweep.points) {
      const Band band = band_of(point, latency_);
      if (band.middle <= 0) continue;
      const double at = x(point.tokens_per_second);
      points += format("%s%.1f %.1f", points.empty() ? "M" : "L", at, y(band.middle));
      upper += format("%s%.1f %.1f", upper.empty() ? "M" : "L", at, y(band.high));
      lower = format("L%.1f %.1f", at, y(band.low)) + lower;
    }
    if (points.empty()) return {};
    const std::string colour = arm_colour(arm);
    std::string out = "<path d=\"" + upper + lower + "z\" style=\"fill:" + colour +
                      ";opacity:.18\"/>\n" + svg::path(points, colour);
    const auto knee = knee_of(sweep), saturated = saturation_of(sweep);
    for (size_t i = 0; i < sweep.points.size(); ++i) {
      out += dot(sweep, i, colour);
      if (i == knee) out += mark(sweep, i, colour, "knee");
      if (i == saturated && i != knee) out += mark(sweep, i, colour, "saturated");
    }
    return out;
  }

 private:
  std::vector<double> latency_ticks() const {
    std::vector<double> out;
    if (!logarithmic_) {
      const double step = svg::step_for(high_);
      for (double value = 0; value < high_; value += step) out.push_back(value);
      return out;
    }
    for (double power = std::pow(10, std::floor(std::log10(low_))); power < high_; power *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor > 1 && high_ > 1000 * low_) continue;  // their figures would overlap
        if (factor * power > low_ && factor * power < high_) out.push_back(factor * power);
      }
    }
    return out;
  }

  std::string dot(const Sweep& sweep, size_t i, const std::string& colour) const {
    const SweepPoint& point = sweep.points[i];
    const double ms = band_of(point, latency_).middle;
    if (ms <= 0) return {};
    const std::string title = sweep.name + format(", %s %g: %.1f tokens/s, %.3g ms",
                                                  std::string(sweep_word(sweep.what)).c_str(),
                                                  point.load, point.tokens_per_second, ms);
    return format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" style=\"fill:%s\"><title>",
                  x(point.tokens_per_second), y(ms), colour.c_str()) +
           html_text(title) + "</title></circle>\n";
  }

  // A ring around the point, and its words next to it.
  std::string mark(const Sweep& sweep, size_t i, const std::string& colour, const char* word) {
    const SweepPoint& point = sweep.points[i];
    const double ms = band_of(point, latency_).middle;
    if (ms <= 0) return {};
    const double at = x(point.tokens_per_second), up = y(ms);
    const std::string ring =
        format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"7\" style=\"fill:none;stroke:%s\"/>\n", at, up,
               colour.c_str());
    const std::string words = word + format(" %g", point.load);
    const auto place = place_of(words, at, up);
    return place ? ring + svg::text(place->x, place->y, words, "mark") : ring;
  }

  struct Place {
    double x, y, width;
    bool meets(const Place& other) const {
      return std::abs(y - other.y) < kWordsHeight && x < other.x + other.width &&
             other.x < x + width;
    }
  };

  // To the right of the point or to the left, in its line or some lines away, where no other words
  // stand. Nothing: there is no such place.
  std::optional<Place> place_of(std::string_view words, double at, double up) {
    const double width = text_width(words);
    for (const double lines : {0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0}) {
      for (const double x : {at + kRing, at - kRing - width}) {
        const Place place{x, up + 4 + kWordsHeight * lines, width};
        const bool inside =
            x >= kLeft && x + width <= kWidth && place.y >= kTop && place.y <= kHeight - kBottom;
        const auto meets = [&place](const Place& other) { return place.meets(other); };
        if (!inside || std::any_of(words_.begin(), words_.end(), meets)) continue;
        return words_.emplace_back(place);
      }
    }
    return std::nullopt;
  }

  const SweepLatency latency_;
  double throughput_ = 1, low_ = 0, high_ = 1;
  bool logarithmic_ = false;
  std::vector<Place> words_;  // of marks
};

}  // namespace

Picture sweep_chart(const std::vector<Sweep>& sweeps, SweepLatency latency) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"sweep-ttft", "time to the first token over throughput"},
      {"sweep-latency", "latency of whole answers over throughput"},
      {"sweep-gap", "gap between tokens over throughput"}};
  Plot plot(sweeps, latency);
  const auto& [name, title] = kNames[static_cast<size_t>(latency)];
  Picture picture{.name = name, .title = title, .width = kWidth, .height = kHeight};
  picture.body = plot.grid();
  for (size_t i = 0; i < sweeps.size(); ++i) {
    picture.body += plot.curve(sweeps[i], i);
    picture.legend.emplace_back(sweeps[i].name, arm_colour(i));
  }
  return picture;
}

std::vector<Picture> sweep_charts(const std::vector<Sweep>& sweeps) {
  return {sweep_chart(sweeps, SweepLatency::ttft), sweep_chart(sweeps, SweepLatency::latency),
          sweep_chart(sweeps, SweepLatency::gap)};
}

}  // namespace tenon
