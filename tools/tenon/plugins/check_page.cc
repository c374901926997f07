#include "tools/tenon/plugins/check_page.h"

#include <cstdio>

#include "core/base/quote.h"
#include "core/report/pages/charts.h"

namespace tenon {
namespace {

constexpr const char* kPageHead =
    R"(<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
:root { --paper:#ffffff; --card:#f7f8fa; --ink:#14181f; --soft:#5b6472; --rule:#dfe3e8; --good:#0a7d4f;
  --bad:#c0362c; --open:#8a6d1a }
@media (prefers-color-scheme: dark) { :root { --paper:#12151a; --card:#1a1f26; --ink:#e8ebf0; --soft:#9aa5b4;
  --rule:#2c333d; --good:#4cc38a; --bad:#f2766b; --open:#d8b44a } }
* { box-sizing:border-box }
body { margin:0; background:var(--paper); color:var(--ink); font:16px/1.5 system-ui,"DejaVu Sans",sans-serif }
main { max-width:960px; margin:0 auto; padding:32px 20px 64px }
h1 { font-size:1.5rem; overflow-wrap:anywhere } h2 { font-size:1.1rem; margin:2em 0 .5em }
.summary { background:var(--card); border-left:5px solid var(--good); padding:12px 16px; border-radius:6px }
.summary.broken { border-color:var(--bad) } .summary.open { border-color:var(--open) }
table { border-collapse:collapse; width:100%; font-size:.9rem }
th,td { text-align:left; padding:5px 12px 5px 0; border-bottom:1px solid var(--rule); vertical-align:top }
td.n { text-align:right; white-space:nowrap; font-variant-numeric:tabular-nums }
td:first-child { min-width:5em } td:nth-child(2) { white-space:nowrap } td:nth-child(3) { width:100% }
td.pass { color:var(--good) } .broken .v { color:var(--bad); font-weight:700 } td.warn,td.exercised { color:var(--open) }
.skip,.soft { color:var(--soft) } blockquote { margin:.4em 0; padding-left:.8em; border-left:3px solid var(--rule) }
code { font:.85em ui-monospace,"DejaVu Sans Mono",monospace; overflow-wrap:anywhere }
@media (max-width: 700px) {
  tr { display:grid; grid-template-columns:5em 1fr auto; padding:5px 0; border-bottom:1px solid var(--rule) }
  td { border:0; padding:0 } td:nth-child(2) { white-space:normal }
  td:nth-child(3) { grid-column:1/-1; grid-row:2 } }
</style>
)";

std::string case_seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f s", seconds);
  return text;
}

// What the case found; where a promise is broken also the promise, and how to see it again.
std::string case_details(const CheckedCase& one) {
  std::string out = html_text(one.what);
  if (!breaks_contract(one.verdict) && one.verdict != CaseVerdict::warn) return out;
  if (!one.promise.empty()) {
    out += "<blockquote><code>&lt;tenon/" + html_text(one.header) +
           "&gt;</code>: " + html_text(one.promise) + "</blockquote>";
  }
  if (!one.again.empty()) out += "<code>" + html_text(one.again) + "</code>";
  return out;
}

std::string case_row(const CheckedCase& one) {
  const std::string word(case_verdict_name(one.verdict));  // also the class of its cell
  const bool broken = breaks_contract(one.verdict);
  return "<tr class=\"" + (broken ? std::string("broken") : word) + "\"><td class=\"v " +
         (broken ? std::string() : word) + "\">" + word + "</td><td><code>" + html_text(one.name) +
         "</code></td><td>" + case_details(one) + "</td><td class=\"n soft\">" +
         case_seconds(one.seconds) + "</td></tr>\n";
}

}  // namespace

std::string check_page(const CheckReport& report) {
  const std::string file = html_text(one_line(report.file, kMostPathBytes));
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + file +
      "</title>\n" + kPageHead + "</head>\n<body>\n<main>\n<h1>" + file +
      "</h1>\n<p class=\"summary" +
      (report.sound() ? report.exercised() ? "" : " open" : " broken") + "\">" +
      (!report.sound()      ? "Breaks what its interfaces promise: "
       : report.exercised() ? "Keeps what its interfaces promise: "
                            : "Not exercised, so nothing is known of what it promises: ") +
      html_text(summary_text(report)) + ". <span class=\"soft\">Seed " +
      std::to_string(report.seed);
  if (report.fuzz_seeds > 0) out += "; then" + html_text(fuzz_text(report));
  out += "</span></p>\n";
  const std::string* plugin = nullptr;
  for (const CheckedCase& one : report.cases) {
    if (plugin == nullptr || *plugin != one.plugin) {
      if (plugin != nullptr) out += "</table>\n";
      plugin = &one.plugin;
      out += "<h2>" + html_text(one.plugin.empty() ? "the file" : one_line(one.plugin)) +
             "</h2>\n<table>\n";
    }
    out += case_row(one);
  }
  return out + (plugin == nullptr ? "" : "</table>\n") + "</main>\n</body>\n</html>\n";
}

}  // namespace tenon
