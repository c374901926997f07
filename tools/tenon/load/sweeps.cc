#include "tools/tenon/load/sweeps.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/files/mapped_file.h"
#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/report/pages/sweep_chart.h"
#include "tools/tenon/process/json_text.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestSweepBytes = 16 << 20;

const LoadFigure* figure_of(const LoadSummary& summary, std::string_view name) {
  for (const LoadFigure& figure : summary.figures) {
    if (figure.name == name) return &figure;
  }
  return nullptr;
}

Interval median_of(const LoadSummary& summary, std::string_view name) {
  const LoadFigure* figure = figure_of(summary, name);
  return figure == nullptr ? Interval{} : figure->p50;
}

Json interval_json(const Interval& value) {
  const auto or_null = [](double number) { return std::isfinite(number) ? Json(number) : Json(); };
  return {{"value", value.estimate}, {"low", or_null(value.low)}, {"high", or_null(value.high)}};
}

Interval interval_from(const Json& json) {
  const auto number = [&](const char* key, double otherwise) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : otherwise;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {.estimate = number("value", 0),
          .low = number("low", -kInfinity),
          .high = number("high", kInfinity)};
}

SweepPoint point_from(const Json& json) {
  const auto number = [&](const char* key) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
  };
  SweepPoint point;
  point.load = number("load");
  point.tokens_per_second = number("tokens_per_second");
  point.requests_per_second = number("requests_per_second");
  point.gap_ms = number("gap_ms");
  point.answered = static_cast<size_t>(number("answered"));
  point.failed = static_cast<size_t>(number("failed"));
  point.queue_grows = json.value("queue_grows", false);
  if (json.contains("ttft_ms")) point.ttft_ms = interval_from(json["ttft_ms"]);
  if (json.contains("latency_ms")) point.latency_ms = interval_from(json["latency_ms"]);
  return point;
}

}  // namespace

SweepPoint sweep_point(double load, const LoadSummary& summary) {
  return {.load = load,
          .tokens_per_second = summary.tokens_per_second,
          .requests_per_second = summary.requests_per_second,
          .ttft_ms = median_of(summary, "ttft"),
          .latency_ms = median_of(summary, "latency"),
          .gap_ms = median_of(summary, "gap").estimate,
          .answered = summary.answered,
          .failed = summary.failed,
          .queue_grows = summary.queue_grows};
}

std::string sweep_json(const Sweep& sweep, const LoadRun& last) {
  Json points = Json::array();
  for (const SweepPoint& point : sweep.points) {
    points.push_back({{"load", point.load},
                      {"tokens_per_second", point.tokens_per_second},
                      {"requests_per_second", point.requests_per_second},
                      {"ttft_ms", interval_json(point.ttft_ms)},
                      {"latency_ms", interval_json(point.latency_ms)},
                      {"gap_ms", point.gap_ms},
                      {"answered", point.answered},
                      {"failed", point.failed},
                      {"queue_grows", point.queue_grows}});
  }
  const auto load_at = [&](std::optional<size_t> index) {
    return index ? Json(sweep.points[*index].load) : Json();
  };
  return json_text(Json{{"name", sweep.name},
                        {"server", last.server},
                        {"model", last.model},
                        {"sweep", sweep_word(sweep.what)},
                        {"knee", load_at(knee_of(sweep))},
                        {"saturated", load_at(saturation_of(sweep))},
                        {"points", std::move(points)}});
}

Result<Sweep> read_sweep(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestSweepBytes));
  const Json json = Json::parse(text, nullptr, false);
  const bool known = json.is_object() && json.contains("points") && json["points"].is_array() &&
                     json.contains("sweep") && json["sweep"].is_string();
  if (!known) {
    return invalid_argument(path_in_quotes(path) +
                            " is no sweep – expected what `tenon load --sweep … --json` prints");
  }
  Sweep sweep;
  sweep.name = one_line(json.value("name", path));
  sweep.what =
      json["sweep"] == sweep_word(SweepOf::concurrency) ? SweepOf::concurrency : SweepOf::rate;
  for (const Json& point : json["points"]) {
    if (point.is_object()) sweep.points.push_back(point_from(point));
  }
  return sweep;
}

Status write_sweep_charts(const std::vector<Sweep>& sweeps, const std::string& folder,
                          const std::string& caption) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failed("cannot make " + path_in_quotes(folder) + ": " + error.message());
  for (const SweepLatency latency :
       {SweepLatency::ttft, SweepLatency::latency, SweepLatency::gap}) {
    const Picture picture = sweep_chart(sweeps, latency);
    TENON_RETURN_IF_ERROR(
        write_file(folder + "/" + picture.name + ".svg", {svg_file(picture, caption)}));
  }
  return {};
}

}  // namespace tenon
