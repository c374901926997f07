#include "core/report/pages/page.h"

#include <algorithm>

#include "core/report/pages/charts.h"
#include "core/report/pages/format.h"
#include "core/report/pages/text_report.h"

namespace tenon {
namespace {

constexpr const char* kHead =
    R"(<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
:root { --paper:#ffffff; --card:#f7f8fa; --ink:#14181f; --soft:#5b6472; --rule:#dfe3e8; --band:#e3e9f1;
  --good:#0a7d4f; --bad:#c0362c; --same:#2563c9; --open:#8a6d1a;
  --c0:#5b6472; --c1:#2563c9; --c2:#c2570c; --c3:#0a7d4f; --c4:#7c3aed; --c5:#be185d;
  --p0:#3b6fb6; --p1:#d97b29; --p2:#4c9a6a; --p3:#b5527a; --p4:#8464b8; --p5:#9aa3ae; }
@media (prefers-color-scheme: dark) { :root { --paper:#12151a; --card:#1a1f26; --ink:#e8ebf0; --soft:#9aa5b4;
  --rule:#2c333d; --band:#242c38; --good:#4cc38a; --bad:#f2766b; --same:#74a9f7; --open:#d8b44a;
  --c0:#9aa5b4; --c1:#74a9f7; --c2:#f0a05a; --c3:#4cc38a; --c4:#b394f5; --c5:#f286b5;
  --p0:#6f9ee0; --p1:#eba05c; --p2:#6fbf8d; --p3:#db85a8; --p4:#ab90dc; --p5:#6b7684; } }
* { box-sizing:border-box }
body { margin:0; background:var(--paper); color:var(--ink); font:16px/1.5 system-ui,-apple-system,"Segoe UI",
  Roboto,"DejaVu Sans",sans-serif }
main { max-width:960px; margin:0 auto; padding:32px 20px 64px }
h1 { font-size:1.7rem; line-height:1.2; margin:0 0 .4em } h2 { font-size:1.15rem; margin:2.2em 0 .5em }
h3 { font-size:1rem; margin:1.4em 0 .3em; color:var(--soft); font-weight:600 }
p { margin:.4em 0 } .soft { color:var(--soft); font-size:.9rem }
.card { background:var(--card); border:1px solid var(--rule); border-radius:10px; padding:14px 16px; margin:12px 0;
  overflow-x:auto }
.summary { border-left:5px solid var(--open) } .summary.better { border-color:var(--good) }
.summary.worse,.summary.different { border-color:var(--bad) } .summary.equivalent { border-color:var(--same) }
.word { display:inline-block; font-weight:700; margin-right:.5em } .better .word,td.better { color:var(--good) }
.worse .word,td.worse,.different .word { color:var(--bad) } .equivalent .word,td.equivalent { color:var(--same) }
.inconclusive .word,td.inconclusive { color:var(--open) }
svg { display:block; width:100%; min-width:560px; height:auto; font:12px system-ui,"DejaVu Sans",sans-serif }
svg text { fill:var(--ink) } .grid { stroke:var(--rule) } .zero { stroke:var(--soft); stroke-width:1.5 }
svg .tick,svg .side,svg .unit { fill:var(--soft); font-size:11px } .tick { text-anchor:middle }
.side,.unit,.name { text-anchor:end } .curve { fill:none; stroke-width:2; stroke-linejoin:round }
.bar { stroke-width:3; stroke-linecap:round } .unbounded { stroke-dasharray:2 7; opacity:.5 }
g.better { stroke:var(--good); fill:var(--good) } g.worse { stroke:var(--bad); fill:var(--bad) }
g.equivalent { stroke:var(--same); fill:var(--same) } g.inconclusive { stroke:var(--open); fill:var(--paper) }
table { border-collapse:collapse; width:100%; font-size:.9rem; font-variant-numeric:tabular-nums }
th,td { text-align:left; padding:5px 10px 5px 0; border-bottom:1px solid var(--rule); vertical-align:top }
td.n,th.n { text-align:right; white-space:nowrap } tr:last-child td { border-bottom:0 }
code { font:.85em ui-monospace,"DejaVu Sans Mono",monospace; overflow-wrap:anywhere }
.legend span { display:inline-block; margin-right:1.2em; white-space:nowrap }
.legend i { display:inline-block; width:.8em; height:.8em; border-radius:2px; margin-right:.4em }
ul { margin:.3em 0; padding-left:1.2em }
</style>
)";

std::string element(const char* tag, const std::string& text) {
  return std::string("<") + tag + ">" + html_text(text) + "</" + tag + ">\n";
}
std::string card(const std::string& inside) {
  return "<div class=\"card\">\n" + inside + "</div>\n";
}

std::string arm_legend(const MeasuredComparison& measured) {
  std::string out = "<p class=\"legend soft\">";
  for (size_t i = 0; i < measured.arms.size(); ++i) {
    out += "<span><i style=\"background:" + arm_colour(i) + "\"></i>" +
           html_text(measured.arms[i].name) + "</span>";
  }
  return out + "</p>\n";
}

std::string word_of(const ArmResult& arm, const std::string& primary) {
  if (arm.different_answers) return "different";
  const MetricResult* result = arm.find(primary);
  return std::string(verdict_name(result == nullptr ? Verdict::inconclusive : result->verdict));
}

std::string summary(const MeasuredComparison& measured, const Analysis& analysis) {
  std::string out;
  const std::vector<std::string> sentences = summary_of(measured, analysis);
  for (size_t i = 0; i < sentences.size(); ++i) {
    const std::string word = word_of(analysis.arms[i], measured.plan.primary);
    out += "<div class=\"card summary " + word + "\"><span class=\"word\">" +
           (word == "different" ? "different answers" : word) + "</span>" +
           html_text(sentences[i]) + "</div>\n";
  }
  return out;
}

std::string metric_table(const MeasuredComparison& measured, const ArmResult& arm,
                         double confidence) {
  std::string out =
      "<table><tr><th>measured</th><th class=\"n\">" + html_text(measured.arms.front().name) +
      "</th><th class=\"n\">" + html_text(arm.arm->name) + "</th>" +
      format("<th>difference [%.4g %%]</th><th>verdict</th></tr>\n", 100 * confidence);
  for (const MetricResult& result : arm.metrics) {
    if (!result.absent.empty()) continue;
    const std::string word(verdict_name(result.verdict));
    out += "<tr><td>" + html_text(result.metric->words) + ", " + html_text(result.metric->unit) +
           format("</td><td class=\"n\">%.4g</td><td class=\"n\">%.4g</td><td>", result.base,
                  result.arm) +
           html_text(percent_text(result.log_ratio)) + "</td><td class=\"" + word + "\">" + word +
           "</td></tr>\n";
  }
  return out + "</table>\n";
}

std::string list_of(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return "";
  std::string out = "<ul>\n";
  for (const std::string& sentence : sentences) out += element("li", sentence);
  return out + "</ul>\n";
}

std::string arm_section(const MeasuredComparison& measured, const ArmResult& arm,
                        double confidence) {
  std::string out = element("h2", arm.arm->name + " against " + measured.arms.front().name);
  out += element("p", "Answers: " + arm.answers + ".");
  if (arm.different_answers) return out;
  const bool any = std::any_of(arm.metrics.begin(), arm.metrics.end(),
                               [](const MetricResult& result) { return result.absent.empty(); });
  if (!any)
    return out + element("p", "Nothing can be shown: no pair was measured.") + list_of(arm.notes);
  out += card(forest_chart(arm, measured.plan.margin));
  out +=
      "<p class=\"soft\">" +
      html_text(std::to_string(arm.pairs) + " pairs of pieces, " + std::to_string(arm.dropped) +
                " dropped because the machine changed between them. A line is the interval of the "
                "mean ratio; the shaded band is the margin of ") +
      format("±%.3g %%.</p>\n", 100 * measured.plan.margin);
  out += card(metric_table(measured, arm, confidence));
  if (!arm.why.empty()) out += element("h3", "Why") + list_of(arm.why);
  if (!arm.machine_use.empty()) {
    out += element("h3", "Of what the machine can do") + list_of(arm.machine_use);
  }
  return out + list_of(arm.notes);
}

std::vector<Curve> curves_of(const MeasuredComparison& measured, double RequestRow::*member) {
  std::vector<Curve> curves;
  for (size_t i = 0; i < measured.arms.size(); ++i) {
    Curve curve{.name = measured.arms[i].name, .arm = i};
    for (const MeasuredPiece& piece : measured.pieces) {
      if (piece.kind != PieceKind::measured || piece.arm != curve.name) continue;
      for (const RequestRow& row : piece.requests) {
        if (row.ttft_ms >= 0) curve.values.push_back(row.*member);
      }
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::string distributions(const MeasuredComparison& measured) {
  return element("h2", "Requests") + arm_legend(measured) +
         "<p class=\"soft\">The share of requests that were as quick or quicker, over all pieces. "
         "It "
         "describes them; intervals and verdicts are of pairs of pieces.</p>\n" +
         element("h3", "Time to the first token") +
         card(distribution_chart(curves_of(measured, &RequestRow::ttft_ms), "ms")) +
         element("h3", "Whole answer") +
         card(distribution_chart(curves_of(measured, &RequestRow::latency_ms), "ms"));
}

const MeasuredPiece* last_piece(const MeasuredComparison& measured, const std::string& arm) {
  const MeasuredPiece* last = nullptr;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind == PieceKind::measured && piece.arm == arm) last = &piece;
  }
  return last;
}

template <typename Value>
std::string timeline(const MeasuredComparison& measured, const char* title, const Value& value) {
  std::vector<TimeLine> lines;
  for (size_t i = 0; i < measured.arms.size(); ++i) {
    const MeasuredPiece* piece = last_piece(measured, measured.arms[i].name);
    if (piece == nullptr) continue;
    TimeLine added{.arm = i};
    for (const TimelinePoint& point : piece->timeline)
      added.points.emplace_back(point.ms, value(point));
    lines.push_back(std::move(added));
  }
  return element("h3", title) + card(timeline_chart(lines));
}

std::string timelines(const MeasuredComparison& measured) {
  return element("h2", "One piece, over time") + arm_legend(measured) +
         timeline(measured, "Sequences running",
                  [](const auto& p) { return static_cast<double>(p.running); }) +
         timeline(measured, "Requests waiting",
                  [](const auto& p) { return static_cast<double>(p.waiting); }) +
         timeline(measured, "Rows in a step",
                  [](const auto& p) { return static_cast<double>(p.rows); }) +
         timeline(measured, "Tokens in the K/V cache",
                  [](const auto& p) { return static_cast<double>(p.kv_tokens); });
}

std::string parts(const MeasuredComparison& measured) {
  std::vector<StackedBar> bars;
  for (const MeasuredArm& arm : measured.arms) {
    for (const bool prefill : {true, false}) {
      StackedBar bar{.name = arm.name + (prefill ? " prefill" : " decode")};
      double pieces = 0;
      for (const MeasuredPiece& piece : measured.pieces) {
        if (piece.kind != PieceKind::measured || piece.arm != arm.name) continue;
        ++pieces;
        for (size_t i = 0; i < bar.parts.size(); ++i) {
          bar.parts[i] += (prefill ? piece.prefill : piece.decode)[i];
        }
      }
      for (double& part : bar.parts) part /= std::max(1.0, pieces);
      bars.push_back(std::move(bar));
    }
  }
  std::string legend = "<p class=\"legend soft\">";
  for (size_t i = 0; i < kPartNames.size(); ++i) {
    legend += "<span><i style=\"background:" + part_colour(i) + "\"></i>" +
              std::string(kPartNames[i]) + "</span>";
  }
  return element("h2", "Where the time goes") + legend + "</p>\n" + card(stacked_chart(bars)) +
         "<p class=\"soft\">Of a mean piece. Kernels run inside the executor.</p>\n";
}

std::string configuration(const MeasuredComparison& measured) {
  std::string rows;
  for (size_t i = 1; i < measured.arms.size(); ++i) {
    const MeasuredArm& arm = measured.arms[i];
    if (arm.differences.empty())
      rows += "<tr><td>" + html_text(arm.name) + "</td><td>nothing</td></tr>\n";
    for (const std::string& difference : arm.differences) {
      rows += "<tr><td>" + html_text(arm.name) + "</td><td><code>" + html_text(difference) +
              "</code></td></tr>\n";
    }
  }
  return element("h2", "What differs") + card("<table>" + rows + "</table>\n");
}

std::string method(const MeasuredComparison& measured, const Analysis& analysis) {
  const MeasuredPlan& plan = measured.plan;
  std::string rows;
  const auto row = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    rows += "<tr><td>" + std::string(name) + "</td><td><code>" + html_text(value) +
            "</code></td></tr>\n";
  };
  row("work", plan.work + ", cache " + plan.cache);
  row("workload", "sha256 " + plan.workload_hash);
  row("machine", plan.machine);
  if (!plan.others.empty()) row("busy", plan.others);
  row("A against A", noise_text(plan.primary, analysis.noise));
  row("interval", format("confidence sequence of the mean log ratio, %.4g %%, valid at every look",
                         100 * analysis.confidence));
  row("ended", plan.ended);
  row("seed", std::to_string(plan.seed));
  row("command", plan.command);
  row("tenon", plan.version);
  for (const MeasuredArm& arm : measured.arms) {
    row("numerics", arm.name + ": " + arm.numerics + ", configuration " + arm.hash);
  }
  return element("h2", "How it was measured") + card("<table>" + rows + "</table>\n");
}

}  // namespace

std::string html_page(const MeasuredComparison& measured, const Analysis& analysis) {
  const std::string title = measured.plan.title.empty() ? "Comparison" : measured.plan.title;
  std::string out = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
                    element("title", title) + kHead + "</head>\n<body>\n<main>\n" +
                    element("h1", title);
  if (!measured.plan.claim.empty()) out += element("p", measured.plan.claim);
  if (!measured.plan.loses.empty()) {
    out += "<p class=\"soft\">" + html_text("Must lose: " + measured.plan.loses) + "</p>\n";
  }
  out += summary(measured, analysis) + list_of(analysis.notes) + configuration(measured);
  bool any = false;
  for (const ArmResult& arm : analysis.arms) {
    out += arm_section(measured, arm, analysis.confidence);
    any |= arm.pairs > 0 && measured.plan.probes == 0;
  }
  if (any) out += parts(measured) + distributions(measured) + timelines(measured);
  return out + method(measured, analysis) + "</main>\n</body>\n</html>\n";
}

}  // namespace tenon
