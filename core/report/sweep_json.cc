#include "core/report/sweep_json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestSweepBytes = 16 << 20;

Json interval_json(const Interval& value) {
  const auto or_null = [](double number) { return std::isfinite(number) ? Json(number) : Json(); };
  return {{"value", value.estimate}, {"low", or_null(value.low)}, {"high", or_null(value.high)}};
}

double number_of(const Json& json, const char* key, double otherwise) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : otherwise;
}

Interval interval_from(const Json& point, const char* key) {
  const auto found = point.find(key);
  if (found == point.end() || !found->is_object()) return {};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {.estimate = number_of(*found, "value", 0),
          .low = number_of(*found, "low", -kInfinity),
          .high = number_of(*found, "high", kInfinity)};
}

SweepPoint point_from(const Json& json) {
  const auto number = [&](const char* key) { return number_of(json, key, 0); };
  const auto count = [&](const char* key) {
    return static_cast<size_t>(std::clamp(number(key), 0.0, 1e15));
  };
  const auto grows = json.find("queue_grows");
  return {.load = number("load"),
          .tokens_per_second = number("tokens_per_second"),
          .requests_per_second = number("requests_per_second"),
          .ttft_ms = interval_from(json, "ttft_ms"),
          .latency_ms = interval_from(json, "latency_ms"),
          .gap_ms = number("gap_ms"),
          .answered = count("answered"),
          .failed = count("failed"),
          .queue_grows = grows != json.end() && grows->is_boolean() && grows->get<bool>()};
}

std::optional<Sweep> sweep_from(const Json& json) {
  if (!json.is_object()) return {};
  const auto word = json.find("sweep"), points = json.find("points"), name = json.find("name");
  if (word == json.end() || points == json.end() || !points->is_array()) return {};
  Sweep sweep;
  if (*word == sweep_word(SweepOf::concurrency)) {
    sweep.what = SweepOf::concurrency;
  } else if (*word != sweep_word(SweepOf::rate)) {
    return {};
  }
  if (name != json.end() && name->is_string()) sweep.name = one_line(name->get<std::string>());
  for (const Json& point : *points) {
    if (point.is_object()) sweep.points.push_back(point_from(point));
  }
  if (sweep.points.empty()) return {};
  return sweep;
}

}  // namespace

Json sweep_json(const Sweep& sweep) {
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
  return {{"name", sweep.name},
          {"sweep", sweep_word(sweep.what)},
          {"knee", load_at(knee_of(sweep))},
          {"saturated", load_at(saturation_of(sweep))},
          {"points", std::move(points)}};
}

Result<std::vector<Sweep>> read_sweeps(const std::string& path) {
  std::error_code ignored;
  const std::string file =
      std::filesystem::is_directory(path, ignored) ? path + "/sweep.json" : path;
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(file, kLargestSweepBytes));
  const Json json = Json::parse(text, nullptr, false);
  std::vector<Sweep> sweeps;
  const auto add = [&](const Json& one) {
    std::optional<Sweep> sweep = sweep_from(one);
    if (sweep && sweep->name.empty()) sweep->name = path;
    if (sweep) sweeps.push_back(std::move(*sweep));
    return sweep.has_value();
  };
  bool whole = true;
  if (json.is_object() && json.contains("curves") && json["curves"].is_array()) {
    for (const Json& one : json["curves"]) whole = add(one) && whole;
  } else {
    whole = add(json);
  }
  if (!whole || sweeps.empty()) {
    return invalid_argument(path_in_quotes(file) +
                            " is no sweep – expected what `tenon load --sweep … --json` prints, or "
                            "a folder of `tenon compare --sweep`");
  }
  return sweeps;
}

}  // namespace tenon
