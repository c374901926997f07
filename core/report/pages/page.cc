#include "core/report/pages/page.h"

#include <algorithm>

#include "core/report/pages/format.h"
#include "core/report/pages/page_parts.h"
#include "core/report/pages/pictures.h"
#include "core/report/pages/story.h"
#include "core/report/pages/text_report.h"

namespace tenon {
namespace {

using page::card;
using page::element;
using page::legend;

// With their titles, and one legend for all.
std::string titled(const std::vector<Picture>& pictures, const std::string& words = "") {
  std::string out = pictures.empty() ? "" : legend(pictures.front()) + words;
  for (const Picture& picture : pictures) {
    out += element("h3", picture.title) + card(embedded_svg(picture));
  }
  return out;
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

std::string arm_section(const MeasuredComparison& measured, const ArmResult& arm,
                        double confidence) {
  std::string out = element("h2", arm.arm->name + " against " + measured.arms.front().name);
  out += element("p", "Answers: " + arm.answers + ".");
  if (arm.different_answers) return out;
  const bool any = std::any_of(arm.metrics.begin(), arm.metrics.end(),
                               [](const MetricResult& result) { return result.absent.empty(); });
  if (!any)
    return out + element("p", "Nothing can be shown: no pair was measured.") +
           page::list(arm.notes);
  out += card(embedded_svg(differences_picture(measured, arm)));
  out += "<p class=\"soft\">" +
         html_text(std::to_string(arm.pairs) + (arm.pairs == 1 ? " pair" : " pairs") +
                   " of pieces" + of_starts_text(measured, arm) + ", " +
                   (arm.dropped == 0 ? "none dropped"
                                     : std::to_string(arm.dropped) +
                                           " dropped because the machine changed between them") +
                   ". A line is the interval of the "
                   "mean ratio; the shaded band is the margin of ") +
         format("±%.3g %%.</p>\n", 100 * measured.plan.margin);
  out += card(metric_table(measured, arm, confidence));
  if (!arm.why.empty()) out += element("h3", "Why") + page::list(arm.why);
  if (!arm.machine_use.empty()) {
    out += element("h3", "Of what the machine can do") + page::list(arm.machine_use);
  }
  return out + page::list(arm.notes);
}

std::string distributions(const MeasuredComparison& measured) {
  return element("h2", "Requests") +
         titled(request_pictures(measured),
                "<p class=\"soft\">The share of requests that were as quick or quicker, over all "
                "pieces. It describes them; intervals and verdicts are of pairs of pieces.</p>\n");
}

std::string timelines(const MeasuredComparison& measured) {
  std::string out = element("h2", "One piece, over time") + titled(timeline_pictures(measured));
  // Each has a legend of its own.
  for (const Picture& picture : machine_pictures(measured)) out += titled({picture});
  return out;
}

std::string parts(const MeasuredComparison& measured) {
  const Picture picture = parts_picture(measured);
  return element("h2", "Where the time goes") + legend(picture) + card(embedded_svg(picture)) +
         "<p class=\"soft\">Of a mean piece. Kernels run inside the executor.</p>\n";
}

// One line an arm; all keys where they were folded.
std::string configuration(const MeasuredComparison& measured) {
  std::string rows;
  for (size_t i = 1; i < measured.arms.size(); ++i) {
    const MeasuredArm& arm = measured.arms[i];
    rows += "<tr><td>" + html_text(arm.name) + "</td><td><code>" +
            html_text(differences_text(arm)) + "</code>";
    if (arm.differences.size() > 1) {
      rows += "<details><summary class=\"soft\">all " + std::to_string(arm.differences.size()) +
              " keys</summary>\n<ul>\n";
      for (const std::string& difference : arm.differences) {
        rows += "<li><code>" + html_text(difference) + "</code></li>\n";
      }
      rows += "</ul></details>";
    }
    rows += "</td></tr>\n";
  }
  return element("h2", "What differs") + card("<table>" + rows + "</table>\n");
}

std::string facts(const MeasuredComparison& measured) {
  std::string rows;
  for (const auto& [name, value] : facts_of(measured)) {
    rows += "<tr><td>" + name + "</td><td>" + html_text(value) + "</td></tr>\n";
  }
  return element("h2", "What was measured") + card("<table class=\"facts\">" + rows + "</table>\n");
}

std::string method(const MeasuredComparison& measured, const Analysis& analysis) {
  const MeasuredPlan& plan = measured.plan;
  std::string rows;
  const auto row = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    rows += "<tr><td>" + std::string(name) + "</td><td><code>" + html_text(value) +
            "</code></td></tr>\n";
  };
  row("workload", "sha256 " + plan.workload_hash);
  row("A against A", noise_text(plan.primary, analysis.noise));
  row("interval", format("confidence sequence of the mean log ratio, %.4g %%, valid at every look",
                         100 * analysis.confidence));
  row("ended", plan.ended);
  row("seed", std::to_string(plan.seed));
  row("command", plan.command);
  for (const MeasuredArm& arm : measured.arms) {
    row("numerics", arm.name + ": " + arm.numerics + ", configuration " + arm.hash);
  }
  return element("h2", "How it was measured") + card("<table>" + rows + "</table>\n");
}

}  // namespace

std::string html_page(const MeasuredComparison& measured, const Analysis& analysis) {
  const std::string title = title_of(measured);
  std::string out = page::begin(title);
  if (!measured.plan.claim.empty()) out += element("p", measured.plan.claim);
  if (!measured.plan.loses.empty()) {
    out += "<p class=\"soft\">" + html_text("Must lose: " + measured.plan.loses) + "</p>\n";
  }
  out += summary(measured, analysis) + page::list(analysis.notes) + configuration(measured) +
         facts(measured);
  bool any = false;
  for (const ArmResult& arm : analysis.arms) {
    out += arm_section(measured, arm, analysis.confidence);
    any |= arm.pairs > 0 && measured.plan.probes == 0;
  }
  if (any) out += parts(measured) + distributions(measured) + timelines(measured);
  return out + method(measured, analysis) + page::end();
}

}  // namespace tenon
