#include "core/report/load.h"

#include <algorithm>
#include <functional>

#include "core/base/quote.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/report/pages/format.h"
#include "core/report/statistics/steady.h"

namespace tenon {
namespace {

constexpr double kConfidence = 0.95;
constexpr size_t kMostTroubles = 8;
// With fewer values beyond it a quantile is the largest value under another name.
constexpr double kLeastBeyond = 1 - 1e-9;

Interval quantile_figure(const std::vector<double>& values, double q, bool with_interval) {
  if (with_interval) return quantile_interval(values, q, kConfidence);
  return {.estimate = quantile(values, q), .confidence = kConfidence};
}

void add_figure(const char* name, const char* unit, const std::vector<double>& values,
                bool with_intervals, LoadSummary& out) {
  if (values.empty()) return;
  out.figures.push_back({.name = name,
                         .unit = unit,
                         .count = values.size(),
                         .mean = mean_of(values),
                         .most = *std::max_element(values.begin(), values.end()),
                         .p50 = quantile_figure(values, 0.5, with_intervals),
                         .p90 = quantile_figure(values, 0.9, with_intervals),
                         .p99 = quantile_figure(values, 0.99, with_intervals),
                         .has_intervals = with_intervals});
}

void add_figures(const LoadRun& run, LoadSummary& out) {
  std::vector<double> ttft, tpot, gaps, latency, late;
  for (const LoadSample& sample : run.samples) {
    late.push_back(sample.late_ms);
    if (!sample.ok()) continue;
    if (sample.ttft_ms >= 0) ttft.push_back(sample.ttft_ms);
    if (sample.tpot_ms >= 0) tpot.push_back(sample.tpot_ms);
    gaps.insert(gaps.end(), sample.gaps_ms.begin(), sample.gaps_ms.end());
    latency.push_back(sample.latency_ms);
  }
  add_figure("ttft", "ms", ttft, true, out);
  add_figure("tpot", "ms", tpot, true, out);
  add_figure("gap", "ms", gaps, false, out);
  add_figure("latency", "ms", latency, true, out);
  add_figure("lateness", "ms", late, false, out);
  if (late.empty()) return;
  const auto count =
      std::count_if(late.begin(), late.end(), [](double ms) { return ms > kLateMs; });
  out.late_share = static_cast<double>(count) / static_cast<double>(late.size());
}

void add_troubles(const LoadRun& run, LoadSummary& out) {
  for (const LoadSample& sample : run.samples) {
    if (sample.ok() || sample.trouble == "stopped") continue;
    const auto same =
        std::find_if(out.troubles.begin(), out.troubles.end(), [&](const LoadTrouble& known) {
          return known.kind == sample.trouble && known.message == sample.message;
        });
    if (same != out.troubles.end()) {
      ++same->count;
    } else if (out.troubles.size() < 1000) {
      out.troubles.push_back({sample.trouble, sample.message, 1});
    }
  }
  std::stable_sort(out.troubles.begin(), out.troubles.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
}

// Requests wait longer the later they come.
bool grows(const LoadRun& run) {
  std::vector<const LoadSample*> order;
  for (const LoadSample& sample : run.samples) {
    if (sample.ok() && sample.ttft_ms >= 0) order.push_back(&sample);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->due_ms < b->due_ms; });
  std::vector<double> waits;
  for (const LoadSample* sample : order) waits.push_back(sample->ttft_ms);
  return is_saturated(waits);
}

void add_notes(const LoadRun& run, LoadSummary& out) {
  out.queue_grows = run.open_loop && grows(run);
  if (out.queue_grows) {
    out.notes.emplace_back(
        "saturated: later requests waited longer, so that the figures depend on how long it ran");
  }
  if (out.late_share > 0.01) {
    out.notes.push_back(
        format("%.1f %% of the requests were sent more than %.0f ms late: part of "
               "what was measured is this program",
               100 * out.late_share, kLateMs));
  }
  if (run.processor_share > 0.8) {
    out.notes.emplace_back(
        "this program was busy for most of the time: send less, or from several");
  }
  const size_t guessed = out.counted_by.contains("events") ? out.counted_by.at("events") : 0;
  if (guessed > 0) {
    out.notes.push_back(
        format("the server did not count the tokens of %zu answers: pieces of text "
               "were counted in their place",
               guessed));
  }
  if (out.counted_by.contains("nothing")) {
    out.notes.emplace_back(
        "the server did not count the tokens of some answers: they count as none");
  }
}

// Columns count characters, not bytes.
std::string in_column(const std::string& text, size_t width) {
  const auto characters = static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  return text + std::string(width > characters ? width - characters : 1, ' ');
}

std::string figure_text(double value) {
  return format(value >= 1000 ? "%.0f" : value >= 10 ? "%.1f" : "%.3f", value);
}

// "41.2 [39.1, 44.0]", "≥ 80.1", "–".
std::string quantile_text(const LoadFigure& figure, const Interval& interval, double q) {
  const bool is_known = static_cast<double>(figure.count) * (1 - q) >= kLeastBeyond;
  if (!figure.has_intervals) return is_known ? figure_text(interval.estimate) : "–";
  if (interval.bounded()) {
    return figure_text(interval.estimate) + " [" + figure_text(interval.low) + ", " +
           figure_text(interval.high) + "]";
  }
  return std::isfinite(interval.low) ? "≥ " + figure_text(interval.low) : "–";
}

std::string figure_line(const LoadFigure& figure) {
  return "  " + in_column(figure.name + " " + figure.unit, 14) +
         in_column(quantile_text(figure, figure.p50, 0.5), 25) +
         in_column(quantile_text(figure, figure.p90, 0.9), 25) +
         in_column(quantile_text(figure, figure.p99, 0.99), 25) +
         in_column(figure_text(figure.mean), 10) + in_column(figure_text(figure.most), 10) +
         std::to_string(figure.count) + "\n";
}

std::string csv_cell(double value, bool is_known = true) {
  return is_known && std::isfinite(value) ? format("%.6g", value) : "";
}

std::string csv_quantile(const LoadFigure& figure, const Interval& interval, double q) {
  const bool is_known = static_cast<double>(figure.count) * (1 - q) >= kLeastBeyond;
  return csv_cell(interval.estimate, is_known) + "," + csv_cell(interval.low) + "," +
         csv_cell(interval.high);
}

}  // namespace

LoadSummary summary_of(const LoadRun& run) {
  LoadSummary out;
  for (const LoadSample& sample : run.samples) {
    if (sample.trouble == "stopped") {
      ++out.unanswered;
    } else if (!sample.ok()) {
      ++out.failed;
    } else {
      ++out.answered;
      ++out.counted_by[sample.counted_by];
      out.prompt_tokens += sample.prompt_tokens;
      out.tokens += sample.tokens;
      out.cached_tokens += sample.cached_tokens;
    }
  }
  if (run.seconds > 0) {
    out.tokens_per_second = static_cast<double>(out.tokens) / run.seconds;
    out.requests_per_second = static_cast<double>(out.answered) / run.seconds;
  }
  add_figures(run, out);
  add_troubles(run, out);
  add_notes(run, out);
  return out;
}

std::string load_text(const LoadRun& run, const LoadSummary& summary) {
  std::string out = run.server + " · " + one_line(run.model) + " · " + run.work + "\n";
  if (!run.ended_by.empty()) {
    out += format("  partial: ended by %s, %zu requests not answered, %zu not sent\n",
                  run.ended_by.c_str(), summary.unanswered, run.unsent);
  }
  out += format("  %zu answered, %zu failed, in %.3f s\n", summary.answered, summary.failed,
                run.seconds);
  out += format("  throughput    %s tokens/s, %s requests/s\n",
                figure_text(summary.tokens_per_second).c_str(),
                figure_text(summary.requests_per_second).c_str());
  out += format("  tokens        %llu of prompts (%llu of them cached), %llu answered\n",
                static_cast<unsigned long long>(summary.prompt_tokens),
                static_cast<unsigned long long>(summary.cached_tokens),
                static_cast<unsigned long long>(summary.tokens));
  if (!summary.figures.empty()) {
    out += "  " + in_column("", 14) + in_column("p50 [95 %]", 25) + in_column("p90 [95 %]", 25) +
           in_column("p99 [95 %]", 25) + in_column("mean", 10) + in_column("most", 10) + "of\n";
  }
  for (const LoadFigure& figure : summary.figures) out += figure_line(figure);
  out += format("  generator     %.1f %% of a core, waited %.3f s for one\n",
                100 * run.processor_share, run.processor_wait);
  for (size_t i = 0; i < summary.troubles.size() && i < kMostTroubles; ++i) {
    const LoadTrouble& trouble = summary.troubles[i];
    out += "  failed        " + std::to_string(trouble.count) + " × " + trouble.kind + ": " +
           one_line(trouble.message) + "\n";
  }
  if (summary.troubles.size() > kMostTroubles) {
    out += format("  failed        and %zu other kinds\n", summary.troubles.size() - kMostTroubles);
  }
  for (const std::string& note : summary.notes) out += "  note          " + note + "\n";
  return out;
}

std::string load_csv(const LoadSummary& summary) {
  std::string out =
      "figure,unit,count,mean,most,p50,p50_low,p50_high,p90,p90_low,p90_high,p99,"
      "p99_low,p99_high\n";
  const auto single = [&](const char* name, const char* unit, double value) {
    out += std::string(name) + "," + unit + "," + std::to_string(summary.answered) + "," +
           csv_cell(value) + ",,,,,,,,,,\n";
  };
  single("throughput", "tokens/s", summary.tokens_per_second);
  single("requests", "1/s", summary.requests_per_second);
  for (const LoadFigure& figure : summary.figures) {
    out += figure.name + "," + figure.unit + "," + std::to_string(figure.count) + "," +
           csv_cell(figure.mean) + "," + csv_cell(figure.most) + "," +
           csv_quantile(figure, figure.p50, 0.5) + "," + csv_quantile(figure, figure.p90, 0.9) +
           "," + csv_quantile(figure, figure.p99, 0.99) + "\n";
  }
  return out;
}

}  // namespace tenon
