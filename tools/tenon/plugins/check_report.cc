#include "tools/tenon/plugins/check_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "tools/tenon/process/json_text.h"

namespace tenon {
namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", seconds);
  return text;
}

// Text between tags or in an attribute.
std::string xml(std::string_view text) {
  std::string made;
  for (const char c : text) {
    switch (c) {
      case '&':
        made += "&amp;";
        break;
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      case '"':
        made += "&quot;";
        break;
      default:
        made += static_cast<unsigned char>(c) < ' ' && c != '\n' ? ' ' : c;
    }
  }
  return made;
}

size_t count_of(const CheckReport& report, CaseVerdict verdict) {
  return static_cast<size_t>(
      std::count_if(report.cases.begin(), report.cases.end(),
                    [verdict](const CheckedCase& one) { return one.verdict == verdict; }));
}

}  // namespace

bool CheckReport::sound() const {
  return std::none_of(cases.begin(), cases.end(),
                      [](const CheckedCase& one) { return breaks_contract(one.verdict); });
}

bool CheckReport::exercised() const {
  return count_of(*this, CaseVerdict::not_exercised) == 0;
}

std::string case_text(const CheckedCase& one) {
  std::string verdict(case_verdict_name(one.verdict));
  verdict.resize(std::max(verdict.size(), size_t{8}), ' ');
  std::string text = "  " + verdict + "  " + one.name;
  if (!one.what.empty()) text += ": " + one.what;
  text += "\n";
  if (!breaks_contract(one.verdict) && one.verdict != CaseVerdict::warn) return text;
  if (!one.promise.empty()) {
    // What a crash or a hang would have answered is not known.
    const bool open = one.verdict == CaseVerdict::crash || one.verdict == CaseVerdict::hang;
    text += "            " + std::string(open ? "while it was held to " : "") + "<tenon/" +
            one.header + (open ? ">: \"" : "> says: \"") + one.promise + "\"\n";
  }
  if (!one.again.empty()) text += "            again: " + one.again + "\n";
  return text;
}

std::string summary_text(const CheckReport& report) {
  constexpr std::pair<CaseVerdict, const char*> kWords[] = {
      {CaseVerdict::pass, "passed"},         {CaseVerdict::skip, "skipped"},
      {CaseVerdict::warn, "with a warning"}, {CaseVerdict::not_exercised, "not exercised"},
      {CaseVerdict::fail, "failed"},         {CaseVerdict::crash, "crashed"},
      {CaseVerdict::hang, "hung"},           {CaseVerdict::leak, "lost memory"},
      {CaseVerdict::too_slow, "too slow"}};
  std::vector<std::string> parts;
  for (const auto& [verdict, word] : kWords) {
    const size_t count = count_of(report, verdict);
    if (count > 0) parts.push_back(std::to_string(count) + " " + word);
  }
  return join(parts);
}

std::string fuzz_text(const CheckReport& report) {
  return "  " + std::to_string(report.fuzz_cases) + " cases from " +
         std::to_string(report.fuzz_seeds) + " further seed" +
         (report.fuzz_seeds == 1 ? "\n" : "s\n");
}

std::string report_json(const CheckReport& report) {
  nlohmann::ordered_json out;
  out["file"] = report.file;
  out["seed"] = report.seed;
  out["sound"] = report.sound();
  out["exercised"] = report.exercised();
  if (report.fuzz_seeds > 0) {
    out["fuzz"] = {{"seeds", report.fuzz_seeds}, {"cases", report.fuzz_cases}};
  }
  out["cases"] = nlohmann::ordered_json::array();
  for (const CheckedCase& one : report.cases) {
    out["cases"].push_back({{"plugin", one.plugin},
                            {"case", one.name},
                            {"verdict", case_verdict_name(one.verdict)},
                            {"what", one.what},
                            {"header", one.header},
                            {"promise", one.promise},
                            {"seconds", one.seconds},
                            {"again", one.again}});
  }
  return json_text(out);
}

std::string report_junit(const CheckReport& report) {
  const auto broken = static_cast<size_t>(
      std::count_if(report.cases.begin(), report.cases.end(),
                    [](const CheckedCase& one) { return breaks_contract(one.verdict); }));
  double seconds = 0;
  for (const CheckedCase& one : report.cases) seconds += one.seconds;
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"" +
                    xml(one_line(report.file, kMostPathBytes)) + "\" tests=\"" +
                    std::to_string(report.cases.size()) + "\" failures=\"" +
                    std::to_string(broken) + "\" skipped=\"" +
                    std::to_string(count_of(report, CaseVerdict::skip) +
                                   count_of(report, CaseVerdict::not_exercised)) +
                    "\" time=\"" + seconds_text(seconds) + "\">\n";
  for (const CheckedCase& one : report.cases) {
    out += "  <testcase classname=\"" + xml(one.plugin.empty() ? "file" : one.plugin) +
           "\" name=\"" + xml(one.name) + "\" time=\"" + seconds_text(one.seconds) + "\">";
    if (one.verdict == CaseVerdict::skip || one.verdict == CaseVerdict::not_exercised) {
      const bool idle = one.verdict == CaseVerdict::not_exercised;
      out += "<skipped message=\"" + std::string(idle ? "not exercised: " : "") + xml(one.what) +
             "\"/>";
    } else if (breaks_contract(one.verdict)) {
      out += "<failure type=\"" + std::string(case_verdict_name(one.verdict)) + "\" message=\"" +
             xml(one.what) + "\">" +
             xml("<tenon/" + one.header + ">: " + one.promise + "\n" + one.again) + "</failure>";
    } else if (!one.what.empty()) {
      out += "<system-out>" + xml(one.what) + "</system-out>";
    }
    out += "</testcase>\n";
  }
  return out + "</testsuite>\n";
}

}  // namespace tenon
