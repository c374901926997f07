#include "core/report/sweep.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/report/pages/format.h"

namespace tenon {
namespace {

constexpr size_t kMostPoints = 64;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

Status wrong(std::string_view text) {
  return invalid_argument("--sweep " + in_quotes(text) +
                          " – expected rate=LOW..HIGH, concurrency=LOW..HIGH or a list of rising "
                          "values, such as rate=1..20 or concurrency=1,4,16");
}

bool may_be(SweepOf what, double value) {
  if (what == SweepOf::rate) return value >= 1e-3 && value <= 1e6;
  return value >= 1 && value <= 65536 && value == std::floor(value);
}

std::vector<double> doubling(double low, double high) {
  std::vector<double> values;
  for (double value = low; value < high; value *= 2) values.push_back(value);
  values.push_back(high);
  return values;
}

double power_of(const SweepPoint& point) {
  return point.requests_per_second / point.latency_ms.estimate;
}

std::string figure(double value) {
  return format(value >= 1000 ? "%.0f" : value >= 10 ? "%.1f" : "%.3f", value);
}

std::string with_interval(const Interval& value) {
  if (!value.bounded()) return figure(value.estimate);
  return figure(value.estimate) + " [" + figure(value.low) + ", " + figure(value.high) + "]";
}

std::string load_text_of(SweepOf what, double load) {
  return what == SweepOf::rate ? format("%g requests a second", load) : format("%g at once", load);
}

}  // namespace

std::string_view sweep_word(SweepOf what) {
  return what == SweepOf::rate ? "rate" : "concurrency";
}

Result<SweepRange> parse_sweep(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) return wrong(text);
  SweepRange range;
  const std::string_view word = text.substr(0, equals), values = text.substr(equals + 1);
  if (word != sweep_word(SweepOf::rate) && word != sweep_word(SweepOf::concurrency)) {
    return wrong(text);
  }
  if (word == sweep_word(SweepOf::concurrency)) range.what = SweepOf::concurrency;
  if (const size_t dots = values.find(".."); dots != values.npos) {
    const auto low = number(values.substr(0, dots)), high = number(values.substr(dots + 2));
    if (!low || !high || !may_be(range.what, *low) || *high <= *low) return wrong(text);
    range.values = doubling(*low, *high);
  } else {
    const auto entries = list_entries(values);
    if (!entries) return wrong(text);
    for (const std::string_view one : *entries) {
      const auto value = number(one);
      if (!value) return wrong(text);
      range.values.push_back(*value);
    }
  }
  for (size_t i = 0; i < range.values.size(); ++i) {
    const bool rises = i == 0 || range.values[i] > range.values[i - 1];
    if (!rises || !may_be(range.what, range.values[i])) return wrong(text);
  }
  if (range.values.empty() || range.values.size() > kMostPoints) return wrong(text);
  return range;
}

std::optional<size_t> knee_of(const Sweep& sweep) {
  std::optional<size_t> best;
  size_t answered = 0;
  for (size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    if (point.answered == 0 || point.latency_ms.estimate <= 0) continue;
    ++answered;
    if (!best || power_of(point) > power_of(sweep.points[*best])) best = i;
  }
  if (answered < 3 || *best + 1 == sweep.points.size()) return {};
  return best;
}

std::optional<size_t> saturation_of(const Sweep& sweep) {
  double best = 0, best_load = 0;
  for (size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    if (sweep.what == SweepOf::rate) {
      if (point.queue_grows) return i;
      continue;
    }
    if (best > 0 && point.load >= 1.5 * best_load && point.tokens_per_second <= 1.05 * best) {
      return i;
    }
    if (point.tokens_per_second > best) {
      best = point.tokens_per_second;
      best_load = point.load;
    }
  }
  return {};
}

std::string sweep_text(const Sweep& sweep) {
  const auto knee = knee_of(sweep), saturated = saturation_of(sweep);
  std::string out =
      sweep.name + "\n" +
      format("  %-12s%-12s%-12s%-26s%-26s%-10s\n", std::string(sweep_word(sweep.what)).c_str(),
             "tokens/s", "requests/s", "ttft p50 ms [95 %]", "latency p50 ms [95 %]", "gap p50 ms");
  for (size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    if (point.answered == 0) {
      out += format("  %-12gnothing was measured, %zu failed\n", point.load, point.failed);
      continue;
    }
    out += format("  %-12g%-12s%-12s%-26s%-26s%-10s", point.load,
                  figure(point.tokens_per_second).c_str(),
                  figure(point.requests_per_second).c_str(), with_interval(point.ttft_ms).c_str(),
                  with_interval(point.latency_ms).c_str(), figure(point.gap_ms).c_str());
    if (i == knee) out += "  knee";
    if (i == saturated) out += "  saturated";
    if (point.failed > 0) out += format("  %zu failed", point.failed);
    out += "\n";
  }
  if (knee) {
    out += "  knee          the most throughput for its latency, at " +
           load_text_of(sweep.what, sweep.points[*knee].load) + "\n";
  } else {
    out +=
        "  knee          not in this range: the load with the most throughput for its latency is "
        "the last, or too few were answered\n";
  }
  out += saturated ? "  saturated     from " +
                         load_text_of(sweep.what, sweep.points[*saturated].load) + " on\n"
                   : std::string("  saturated     not in this range\n");
  return out;
}

}  // namespace tenon
