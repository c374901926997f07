#include "tools/tenon/load/sweeps.h"

#include <nlohmann/json.hpp>

#include "core/base/files/new_file.h"
#include "core/report/pages/sweep_chart.h"
#include "core/report/sweep_json.h"
#include "tools/tenon/process/json_text.h"

namespace tenon {
namespace {

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

std::string measured_sweep_json(const Sweep& sweep, const LoadRun& last) {
  nlohmann::ordered_json json = sweep_json(sweep);
  json["server"] = last.server;
  json["model"] = last.model;
  return json_text(json);
}

Status write_sweep_charts(const std::vector<Sweep>& sweeps, const std::string& folder,
                          const std::string& caption) {
  for (const Picture& picture : sweep_charts(sweeps)) {
    TENON_RETURN_IF_ERROR(
        write_file(folder + "/" + picture.name + ".svg", {svg_file(picture, caption)}));
  }
  return {};
}

}  // namespace tenon
