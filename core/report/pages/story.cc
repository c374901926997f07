#include "core/report/pages/story.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/text.h"
#include "core/report/pages/format.h"
#include "core/report/statistics/requests_summary.h"

namespace tenon {
namespace {

std::string text_of(const Spread& spread) {
  if (spread.least == spread.most) return format("%.0f", spread.most);
  return format("%.0f to %.0f", spread.least, spread.most);
}
std::string mean_text(const Spread& spread) {
  return spread.least == spread.most ? "" : format(" (mean %.0f)", spread.sum / spread.count);
}

// "scheduler.options.policy: …" → "scheduler"; empty where it is no option of a plugin.
std::string owner_of(const std::string& difference) {
  const std::string key = difference.substr(0, difference.find(':'));
  const size_t at = key.find(".options.");
  return at == key.npos ? std::string() : key.substr(0, at);
}

constexpr double kShownPercent = 1;  // of an arm's time, waits for a processor
constexpr std::string_view kPlugin = ".plugin";

// The interface whose plugin is another: "scheduler" of "scheduler.plugin: …". Else empty.
std::string replaced_in(const std::string& difference) {
  const std::string key = difference.substr(0, difference.find(':'));
  return key.ends_with(kPlugin) ? key.substr(0, key.size() - kPlugin.size()) : std::string();
}

std::string without_quotes(std::string difference) {
  std::erase(difference, '"');
  return difference;
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return format(unit == 0 || bytes >= 100 ? "%.0f %s" : "%.3g %s", bytes, kUnits[unit]);
}

bool counts(const MeasuredPiece& piece) {
  return piece.kind == PieceKind::measured || piece.kind == PieceKind::probe;
}

// One value where all arms have the same; otherwise each arm's, with its name.
std::string of_arms(const MeasuredComparison& measured, std::string MeasuredArm::*member) {
  std::set<std::string> values;
  std::vector<std::string> named;
  for (const MeasuredArm& arm : measured.arms) {
    values.insert(arm.*member);
    if (!(arm.*member).empty()) named.push_back(arm.name + ": " + arm.*member);
  }
  return values.size() == 1 ? *values.begin() : join(named, "; ");
}

}  // namespace

std::string differences_text(const MeasuredArm& arm) {
  std::set<std::string> replaced;  // "scheduler" where another plugin has its place
  for (const std::string& each : arm.differences) replaced.insert(replaced_in(each));
  std::vector<std::string> shown;
  std::map<std::string, size_t> folded;
  for (const std::string& each : arm.differences) {
    const std::string owner = owner_of(each);
    if (!owner.empty() && replaced.contains(owner)) {
      ++folded[owner];
    } else {
      shown.push_back(without_quotes(each));
    }
  }
  for (std::string& each : shown) {
    const auto found = folded.find(replaced_in(each));
    if (found == folded.end()) continue;
    each += ", which have " + std::to_string(found->second) +
            (found->second == 1 ? " option" : " options") + " of their own";
  }
  return shown.empty() ? "nothing: A against A" : join(shown, "; ");
}

std::string title_of(const MeasuredComparison& measured) {
  if (!measured.plan.title.empty()) return measured.plan.title;
  if (measured.arms.size() < 2) return "Comparison";
  // Options say more than a title has room for.
  constexpr size_t kLongest = 70;
  if (measured.arms.size() == 2) {
    const MeasuredArm& arm = measured.arms[1];
    std::string title = differences_text(arm);
    title = title.substr(0, title.find(", which have"));
    if (const size_t at = title.find(kPlugin); at != title.npos) title.erase(at, kPlugin.size());
    if (title.size() <= kLongest) return title;
  }
  std::vector<std::string> names;
  for (size_t i = 1; i < measured.arms.size(); ++i) names.push_back(measured.arms[i].name);
  return measured.arms.front().name + " → " + join(names);
}

std::string lengths_text(const MeasuredComparison& measured) {
  Spread prompts, answers;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.arm != measured.arms.front().name) continue;
    const RequestTotals totals = totals_of(piece);
    prompts.add(totals.prompt_tokens);
    answers.add(totals.tokens);
  }
  if (prompts.count == 0) return "";
  return "prompts of " + text_of(prompts) + " tokens" + mean_text(prompts) + ", answers of " +
         text_of(answers) + mean_text(answers);
}

std::string errors_text(const MeasuredComparison& measured) {
  size_t all = 0;
  std::map<std::string, size_t> failed;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (!counts(piece)) continue;
    const RequestTotals totals = totals_of(piece);
    all += totals.requests;
    if (totals.errors > 0) failed[piece.arm] += totals.errors;
  }
  if (all == 0) return "";
  std::vector<std::string> named;
  for (const auto& [arm, count] : failed) named.push_back(std::to_string(count) + " of " + arm);
  return (named.empty() ? "none" : join(named)) + " in " + std::to_string(all) + " answers";
}

std::string memory_text(const MeasuredComparison& measured, const std::string& arm) {
  std::map<std::string, double> most;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.arm != arm) continue;
    for (const char* name : {"kv_peak_bytes", "kv_peak_blocks", "kv_pool_bytes"}) {
      const auto found = piece.counters.find(name);
      if (found != piece.counters.end()) most[name] = std::max(most[name], found->second);
    }
  }
  if (most["kv_peak_bytes"] <= 0) return "";
  return format("at most %s in %.0f block%s, of %s", bytes_text(most["kv_peak_bytes"]).c_str(),
                most["kv_peak_blocks"], most["kv_peak_blocks"] == 1 ? "" : "s",
                bytes_text(most["kv_pool_bytes"]).c_str());
}

std::string busy_text(const MeasuredComparison& measured) {
  std::vector<std::string> shares;
  bool some = false;
  for (const MeasuredArm& arm : measured.arms) {
    double waited = 0, all = 0;
    for (const MeasuredPiece& piece : measured.pieces) {
      if (!counts(piece) || piece.arm != arm.name) continue;
      waited += piece.waited_seconds;
      all += piece.waited_seconds + piece.seconds;
    }
    if (all <= 0) continue;
    const double percent = 100 * waited / all;
    some = some || percent >= kShownPercent;
    shares.push_back(format("%s %.0f %%", arm.name.c_str(), percent));
  }
  if (!some) return measured.plan.others;
  return measured.plan.others + (measured.plan.others.empty() ? "" : "; ") +
         "the share of its time that an arm waited for a processor (" + join(shares) +
         ") is left out of all times";
}

std::vector<std::pair<std::string, std::string>> facts_of(const MeasuredComparison& measured) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&out](const char* name, std::string value) {
    if (!value.empty()) out.emplace_back(name, std::move(value));
  };
  if (measured.arms.empty()) return out;
  const MeasuredPlan& plan = measured.plan;
  add("model", of_arms(measured, &MeasuredArm::model));
  add("formats", of_arms(measured, &MeasuredArm::formats));
  add("work", plan.work.empty() ? "" : plan.work + ", cache " + plan.cache);
  add("lengths", lengths_text(measured));
  for (const MeasuredArm& arm : measured.arms) {
    const std::string memory = memory_text(measured, arm.name);
    if (!memory.empty()) add("K/V memory", arm.name + ": " + memory);
  }
  add("errors", errors_text(measured));
  add("machine", plan.machine);
  add("busy", busy_text(measured));
  add("date", plan.date);
  add("tenon", plan.version);
  return out;
}

}  // namespace tenon
