#include "core/report/pages/text_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/report/pages/format.h"
#include "core/report/pages/story.h"
#include "core/report/power.h"
#include "core/report/statistics/units.h"

namespace tenon {
namespace {

// Columns count characters, not bytes.
std::string padded(const std::string& text, size_t width, bool right = false) {
  const auto characters = static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  const std::string space(width > characters ? width - characters : 0, ' ');
  return right ? space + text : text + space;
}

std::string field(const std::string& name, const std::string& value) {
  return "  " + padded(name, 15) + value + "\n";
}

std::string figure(double value) {
  return format(value >= 1000 ? "%.0f" : value >= 10 ? "%.1f" : "%.3f", value);
}

std::string header_of(const MeasuredComparison& measured, const Analysis& analysis) {
  const MeasuredPlan& plan = measured.plan;
  std::string out = one_line(title_of(measured)) + "\n";
  if (!plan.claim.empty()) out += field("claim", one_line(plan.claim));
  if (!plan.loses.empty()) out += field("loses", one_line(plan.loses));
  out += field("work", plan.work + " · cache " + plan.cache + " · sha256 " +
                           plan.workload_hash.substr(0, 12));
  for (const auto& [name, value] : facts_of(measured)) {
    if (name != "work") out += field(name, one_line(value));
  }
  out += field("A against A", noise_text(measured.plan.primary, analysis.noise));
  return out;
}

std::string row_of(const MetricResult& result, const Metric& primary) {
  const std::string name = std::string(result.metric == &primary ? "› " : "  ") +
                           std::string(result.metric->name) + " " +
                           std::string(result.metric->unit);
  return "  " + padded(name, 24) + padded(figure(result.base), 12, true) +
         padded(figure(result.arm), 12, true) + "   " + padded(percent_text(result.log_ratio), 28) +
         std::string(verdict_name(result.verdict)) + "\n";
}

std::string starts_text(size_t starts) {
  return std::to_string(starts) + (starts == 1 ? " start" : " starts");
}

std::string arm_text(const MeasuredComparison& measured, const ArmResult& arm, double confidence) {
  const Metric* primary = find_metric(measured.plan.primary);
  std::string out = "\n" + arm.arm->name + " against " + measured.arms.front().name + "\n";
  out += field("differs in", differences_text(*arm.arm));
  out += field("answers", arm.answers);
  if (arm.different_answers)
    return out + field("verdict", "different answers – no speed is ranked");
  out += field("pairs", std::to_string(arm.pairs) +
                            (arm.dropped == 0 ? ", none dropped"
                                              : " (" + std::to_string(arm.dropped) +
                                                    " dropped: unlike states of the machine)") +
                            of_starts_text(measured, arm));
  // A space before each name, however long it is.
  out += "  " + padded("geometric means", 24) + " " + padded(measured.arms.front().name, 11, true) +
         " " + padded(arm.arm->name, 11, true) + "   " +
         padded(format("difference [%.4g %%]", 100 * confidence), 28) + "verdict\n";
  std::map<std::string, std::vector<std::string>> absent;  // metrics by the reason
  for (const MetricResult& result : arm.metrics) {
    if (result.absent.empty()) {
      out += row_of(result, *primary);
    } else if (result.metric == primary ||
               (measured.plan.probes == 0 && !result.metric->name.starts_with("goodput"))) {
      absent[result.absent].emplace_back(result.metric->name);
    }
  }
  for (const auto& [why, names] : absent) out += field("not there", join(names) + ": " + why);
  if (const MetricResult* result = arm.find(primary->name); result != nullptr) {
    if (const std::string band = band_text(measured.plan, *result); !band.empty()) {
      out += field("expected", band);
    }
  }
  for (const std::string& why : arm.why) out += field("why", why);
  for (const std::string& use : arm.machine_use) out += field("machine", use);
  for (const std::string& note : arm.notes) out += field("note", note);
  return out;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}
std::string csv_number(double value) {
  return std::isfinite(value) ? format("%.6g", value) : "";
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

std::string band_text(const MeasuredPlan& plan, const MetricResult& result) {
  for (const MeasuredPlan::Band& band : plan.expect) {
    if (band.metric != result.metric->name || !result.absent.empty()) continue;
    const double ratio = std::exp(result.log_ratio.estimate);
    const double low = std::exp(result.log_ratio.low), high = std::exp(result.log_ratio.high);
    const char* where = high < band.low || low > band.high     ? "outside"
                        : low >= band.low && high <= band.high ? "within"
                                                               : "not told from";
    return format("%.3g times, %s the expected band of %.3g to %.3g times", ratio, where, band.low,
                  band.high);
  }
  return "";
}

double seconds_of_block(const MeasuredComparison& measured) {
  double seconds = 0, blocks = 0;
  const std::string& base = measured.arms.front().name;
  for (const PieceKind kind : {PieceKind::measured, PieceKind::warm_up}) {
    for (const MeasuredPiece& piece : measured.pieces) {
      if (piece.kind != kind) continue;
      seconds += piece.seconds;
      blocks += piece.arm == base ? 1 : 0;
    }
    if (blocks > 0) break;
  }
  return blocks > 0 ? seconds / blocks : 0;
}

namespace {

std::string pairs_text(size_t pairs) {
  return std::to_string(pairs) + (pairs == 1 ? " pair" : " pairs");
}

std::string time_text(double seconds) {
  if (seconds < 1) return format("%.2g s", seconds);
  if (seconds < 90) return format("%.0f s", seconds);
  return seconds < 5400 ? format("%.0f min", seconds / 60) : format("%.0f h", seconds / 3600);
}

// How many pairs, or starts, like these it takes until half an interval is as wide as a difference.
std::string more_text(const MeasuredComparison& measured, const MetricResult& result) {
  const double margin = std::log1p(measured.plan.margin);
  const Interval& found = result.log_ratio;
  const MeasuredPlan& plan = measured.plan;
  if (result.of_few_starts && found.bounded() &&
      (!found.holds(0) || (found.low > -margin && found.high < margin))) {
    const double pair = plan.pairs_seconds / static_cast<double>(result.log_ratios.size());
    return "Up to " + format("%.3g %%", 100 * kOfPlaces) +
           " of that may be where a process's memory lies, which arms that are started anew " +
           std::to_string(kFewestStarts) + " times tell from a difference: give it " +
           time_text(static_cast<double>(kFewestStarts) * (plan.start_seconds + pair)) +
           " more (--budget). With large models it matters less: --restart 0 leaves it out.";
  }
  if (result.units < 3 || result.deviation <= 0) return "More pairs would tell.";
  const bool starts = result.units < result.log_ratios.size();
  const double seconds = plan.pairs_seconds > 0
                             ? plan.pairs_seconds / static_cast<double>(result.units)
                             : seconds_of_block(measured);
  const auto needed = [&](double effect) {
    const double units = pairs_like_these(effect, result.deviation, found.confidence);
    const auto count = static_cast<size_t>(units);
    return "about " + (starts ? starts_text(count) : pairs_text(count)) + " (" +
           time_text(units * seconds) + ")";
  };
  const double seen = std::abs(found.estimate);
  std::string out = "A difference of " + format("%.3g %%", 100 * plan.margin) + " would take " +
                    needed(margin) + " on the machine as it was";
  if (seen > 1.5 * margin) out += ", one of " + percent_text(seen) + " " + needed(seen);
  return out + ".";
}

}  // namespace

std::string of_starts_text(const MeasuredComparison& measured, const ArmResult& arm) {
  const MeasuredPlan& plan = measured.plan;
  const MetricResult* primary = arm.find(plan.primary);
  if (primary == nullptr || (plan.restart == 0 && !plan.restart_affordable)) return "";
  const size_t starts =
      primary->of_few_starts ? starts_of(pairs_of(measured, arm.arm->name)) : primary->units;
  return ", of " + starts_text(starts) + " of both arms";
}

std::string no_pair_text(const MeasuredComparison& measured, const Analysis& analysis) {
  const bool ranked = std::any_of(analysis.arms.begin(), analysis.arms.end(),
                                  [](const ArmResult& arm) { return !arm.different_answers; });
  const bool any = std::any_of(analysis.arms.begin(), analysis.arms.end(),
                               [](const ArmResult& arm) { return arm.pairs > 0; });
  if (!ranked || any || measured.plan.probes > 0) return "";
  const double block = seconds_of_block(measured);
  size_t dropped = 0;
  for (const ArmResult& arm : analysis.arms) dropped += arm.dropped;
  if (dropped > 0) {
    return "no pair was kept: in " + pairs_text(dropped) +
           " the machine changed between the two pieces – measure when it is quiet, or allow more "
           "(--unlike)";
  }
  std::string out = "no pair was measured before the end (" + one_line(measured.plan.ended) + ")";
  if (block > 0) {
    out += ": a piece of every arm takes about " + time_text(block) + " – five pairs need " +
           time_text(5 * block) + " more (--budget)";
  } else {
    out += " – give it more time (--budget)";
  }
  return out + ", or give it less work (fewer requests, --max-tokens)";
}

std::vector<std::string> summary_of(const MeasuredComparison& measured, const Analysis& analysis) {
  std::vector<std::string> out;
  const Metric* primary = find_metric(measured.plan.primary);
  for (const ArmResult& arm : analysis.arms) {
    const std::string names = arm.arm->name + " and " + measured.arms.front().name;
    if (arm.different_answers) {
      out.push_back(names + " give different answers (" + arm.answers +
                    "), so no speed is ranked.");
      continue;
    }
    const MetricResult& result = *arm.find(primary->name);
    if (!result.absent.empty()) {
      out.push_back(names + " could not be compared: " + result.absent + ".");
      continue;
    }
    const std::string figures = std::string(primary->words) + " " + percent_text(result.log_ratio) +
                                ", " + pairs_text(result.log_ratios.size());
    const std::string margin = format("%.3g %%", 100 * measured.plan.margin);
    switch (result.verdict) {
      case Verdict::better:
      case Verdict::worse:
        out.push_back(arm.arm->name + " is " + std::string(verdict_name(result.verdict)) +
                      " than " + measured.arms.front().name + ": " + figures + ".");
        break;
      case Verdict::equivalent:
        out.push_back(names + " are equivalent within ±" + margin + ": " + figures + ".");
        break;
      case Verdict::inconclusive:
        out.push_back("Whether " + names + " differ is not certain: " + figures + ". " +
                      more_text(measured, result));
    }
  }
  return out;
}

std::vector<std::string> overview_of(const MeasuredComparison& measured, const Analysis& analysis) {
  std::vector<std::string> out;
  for (const ArmResult& arm : analysis.arms) {
    std::string line = padded(arm.arm->name, 17) + " " + padded(measured.plan.primary, 12) + " ";
    const MetricResult* result = arm.find(measured.plan.primary);
    if (arm.different_answers) {
      line += "different answers: " + arm.answers;
    } else if (result == nullptr || !result->absent.empty()) {
      line += "not measured: " + (result == nullptr ? "" : result->absent);
    } else {
      line += padded(percent_text(result->log_ratio), 30) +
              padded(std::string(verdict_name(result->verdict)), 14) +
              padded(pairs_text(arm.pairs), 10) + band_text(measured.plan, *result);
    }
    out.push_back(std::move(line));
  }
  return out;
}

std::string unpaired_report(std::span<const MeasuredComparison> all,
                            std::span<const std::string> names) {
  const MeasuredComparison& first = all.front();
  const Metric* primary = find_metric(first.plan.primary);
  const auto logs = [&](const MeasuredComparison& of, const std::string& arm) {
    std::vector<double> values;
    for (const MeasuredPiece& piece : of.pieces) {
      const auto value = value_of(*primary, piece, of.plan);
      if (piece.kind == PieceKind::measured && piece.arm == arm && value && *value > 0) {
        values.push_back(std::log(*value));
      }
    }
    return values;
  };
  std::string out = "Between folders, against " + names.front() +
                    " (unpaired: the machine of each day is part of every difference)\n";
  for (size_t i = 1; i < all.size(); ++i) {
    for (const MeasuredArm& arm : first.arms) {
      const std::vector<double> a = logs(first, arm.name), b = logs(all[i], arm.name);
      if (a.empty() || b.empty()) continue;
      const auto found = std::ranges::find(all[i].arms, arm.name, &MeasuredArm::name);
      const bool same_arm = found != all[i].arms.end() && found->hash == arm.hash;
      const MeasuredPlan &here = first.plan, &there = all[i].plan;
      const bool same_work = here.workload_hash == there.workload_hash && here.work == there.work &&
                             here.cache == there.cache;
      out += "  " + padded(names[i], 30) + padded(arm.name, 18) + padded(first.plan.primary, 13) +
             percent_text(difference_interval(a, b, first.plan.confidence)) +
             (same_work ? "" : "   other work!") + (same_arm ? "" : "   other arm!") + "\n";
    }
  }
  return out;
}

std::string noise_text(std::string_view primary, const NoiseFloor& noise) {
  if (noise.pairs == 0 && noise.dropped == 0) return "not measured";
  const std::string dropped = std::to_string(noise.dropped);
  if (noise.pairs == 0) {
    return noise.dropped == 1
               ? "not known: the machine changed within the only pair"
               : "not known: the machine changed within each of " + dropped + " pairs";
  }
  const size_t count = noise.planned.count;
  const std::string so_many = noise.planned.starts ? starts_text(count) : pairs_text(count);
  return percent_text(noise.log_ratio) + " " + std::string(primary) + " in " +
         pairs_text(noise.pairs) + " (" + dropped + " dropped); " +
         (noise.pairs < 2 ? "one pair does not tell what more would show"
          : std::isfinite(noise.detectable)
              ? so_many + " show a difference of " + percent_text(noise.detectable) + " or more"
              : so_many + " are too few to show any difference");
}

std::string text_report(const MeasuredComparison& measured, const Analysis& analysis) {
  std::string out = header_of(measured, analysis);
  for (const ArmResult& arm : analysis.arms) out += arm_text(measured, arm, analysis.confidence);
  out += "\n";
  for (const std::string& sentence : summary_of(measured, analysis)) out += sentence + "\n";
  for (const std::string& note : analysis.notes) out += field("note", note);
  if (!measured.plan.ended.empty()) out += field("ended", one_line(measured.plan.ended, 2000));
  return out;
}

std::string markdown_report(const MeasuredComparison& measured, const Analysis& analysis) {
  std::string out = "## " + one_line(title_of(measured)) + "\n\n";
  for (const std::string& sentence : summary_of(measured, analysis)) out += sentence + "\n\n";
  for (const auto& [name, value] : facts_of(measured)) {
    out += "- " + name + ": " + one_line(value) + "\n";
  }
  out += "- A against A: " + noise_text(measured.plan.primary, analysis.noise) + "\n";
  for (const ArmResult& arm : analysis.arms) {
    out += "\n| " + cell(arm.arm->name) + " (" + cell(differences_text(*arm.arm)) + ") | " +
           cell(measured.arms.front().name) + " | " + cell(arm.arm->name) +
           format(" | difference [%.4g %%] | verdict |\n|---|---:|---:|---|---|\n",
                  100 * analysis.confidence);
    if (arm.different_answers) out += "| answers | | | | different answers |\n";
    for (const MetricResult& result : arm.metrics) {
      if (!result.absent.empty()) continue;
      out += "| " + std::string(result.metric->name) + ", " + std::string(result.metric->unit) +
             " | " + figure(result.base) + " | " + figure(result.arm) + " | " +
             percent_text(result.log_ratio) + " | " + std::string(verdict_name(result.verdict)) +
             " |\n";
    }
  }
  return out;
}

std::string csv_report(const Analysis& analysis) {
  return csv_columns() + csv_rows(analysis);
}

std::string csv_columns(std::string_view lead) {
  return std::string(lead) +
         "arm,metric,unit,base,arm_value,ratio,low,high,confidence,pairs,dropped,verdict\n";
}

std::string csv_rows(const Analysis& analysis, std::string_view lead) {
  const std::string begin(lead);
  std::string out;
  for (const ArmResult& arm : analysis.arms) {
    if (arm.different_answers) {
      out += begin + csv_field(arm.arm->name) + ",,,,,,,,,,,different answers\n";
    }
    for (const MetricResult& result : arm.metrics) {
      if (!result.absent.empty()) continue;
      const Interval& ratio = result.log_ratio;
      out += begin + csv_field(arm.arm->name) + "," + std::string(result.metric->name) + "," +
             std::string(result.metric->unit) + "," + csv_number(result.base) + "," +
             csv_number(result.arm) + "," + csv_number(std::exp(ratio.estimate)) + "," +
             (std::isfinite(ratio.low) ? csv_number(std::exp(ratio.low)) : "") + "," +
             (std::isfinite(ratio.high) ? csv_number(std::exp(ratio.high)) : "") + "," +
             csv_number(ratio.confidence) + "," + std::to_string(result.log_ratios.size()) + "," +
             std::to_string(arm.dropped) + "," + std::string(verdict_name(result.verdict)) + "\n";
    }
  }
  return out;
}

}  // namespace tenon
