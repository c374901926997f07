#include "tools/tenon/compare/sweep_command.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/clock.h"
#include "core/base/files/new_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/folder.h"
#include "core/compare/json.h"
#include "core/compare/sweep_shares.h"
#include "core/report/pages/format.h"
#include "core/report/pages/pictures.h"
#include "core/report/pages/sweep_chart.h"
#include "core/report/pages/text_report.h"
#include "core/report/sweep.h"
#include "core/report/sweep_json.h"
#include "tools/tenon/compare/picture_files.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"

namespace tenon {
namespace {

using compare::Comparison;
using Json = nlohmann::ordered_json;

constexpr const char* kSweepFile = "/sweep.json";

std::string folder_of_load(const std::string& folder, SweepOf what, double load) {
  return folder + format("/%s-%g", std::string(sweep_word(what)).c_str(), load);
}

// Reports show times: nobody reads nanoseconds of a share.
int64_t rounded_down(int64_t ns) {
  constexpr int64_t kMillisecond = 1'000'000, kSecond = 1000 * kMillisecond;
  return ns - ns % (ns >= 10 * kSecond ? kSecond : kMillisecond);
}

Comparison at_load(Comparison comparison, SweepOf what, const compare::SweepShares::Turn& turn) {
  comparison.budget_ns = rounded_down(turn.budget_ns);
  comparison.share_ns = rounded_down(turn.share_ns);
  comparison.rate = what == SweepOf::rate ? turn.load : 0;
  comparison.in_flight = what == SweepOf::concurrency ? static_cast<uint32_t>(turn.load) : 0;
  return comparison;
}

// The loads that were measured so far: a report of each, and a curve of each arm.
class Loads {
 public:
  Loads(SweepOf what, std::string title) : what_(what), title_(std::move(title)) {}

  void add(const MeasuredComparison& measured, double load) {
    const Analysis analysis = analyse(measured);
    for (const MeasuredArm& arm : measured.arms) {
      auto curve = std::ranges::find(curves_, arm.name, &Sweep::name);
      if (curve == curves_.end()) {
        curves_.push_back({.name = arm.name, .what = what_, .points = {}});
        curve = std::prev(curves_.end());
      }
      curve->points.push_back(measured_point(measured, arm.name, load));
    }
    caption_ = caption_of(measured);
    for (const std::string& line : overview_of(measured, analysis)) {
      overview_ += format("%s %g: ", std::string(sweep_word(what_)).c_str(), load) + line + "\n";
    }
    csv_ += csv_rows(analysis, format("%g,", load));
    reports_.push_back({{"load", load}, {"report", compare::analysis_json(measured, analysis)}});
  }
  const std::vector<Sweep>& curves() const { return curves_; }
  // Whether no arm bears more.
  bool all_saturated() const {
    return !curves_.empty() && std::ranges::all_of(curves_, [](const Sweep& curve) {
      return saturation_of(curve).has_value();
    });
  }
  std::string text(const CompareFlags& flags) const {
    if (flags.json) {
      Json whole = head();
      whole["loads"] = reports_;
      return json_text(whole);
    }
    if (flags.csv) return csv_columns("load,") + csv_;
    std::string out = overview_ + "\n";
    for (const Sweep& curve : curves_) out += sweep_text(curve);
    if (!left_out_.empty()) out += left_out_text() + "\n";
    return flags.markdown ? "\n```text\n" + out + "```\n" : "\n" + out;
  }
  Status keep(const std::string& folder) const {
    return write_file(folder + kSweepFile, {json_text(head())}, Existing::replace);
  }
  void leave_out(std::vector<double> loads, double needed_seconds) {
    left_out_ = std::move(loads);
    needed_seconds_ = needed_seconds;
  }
  std::string left_out_text() const {
    std::vector<std::string> words;
    for (const double load : left_out_) words.push_back(format("%g", load));
    return "left out: " + std::string(sweep_word(what_)) + " " + join_and(words) +
           ", since there was no time for enough pairs at each load; all of them need about " +
           (needed_seconds_ < 90 ? format("%.0f s", needed_seconds_)
                                 : format("%.0f min", std::ceil(needed_seconds_ / 60))) +
           " (--budget)";
  }
  std::string caption() const { return title_ + ", the last of them: " + caption_; }

 private:
  Json head() const {
    Json curves = Json::array();
    for (const Sweep& curve : curves_) curves.push_back(sweep_json(curve));
    Json out = {{"sweep", title_}, {"caption", caption_}, {"curves", std::move(curves)}};
    if (left_out_.empty()) return out;
    out["left_out"] = left_out_;
    out["needed_seconds"] = std::round(needed_seconds_);
    return out;
  }

  const SweepOf what_;
  const std::string title_;  // "rate=1..20"
  std::vector<Sweep> curves_;
  std::string overview_, caption_, csv_;
  std::vector<double> left_out_;
  double needed_seconds_ = 0;
  Json reports_ = Json::array();
};

void print(const CompareFlags& flags, const Loads& loads) {
  const std::string text = loads.text(flags);
  put(shows_each_load(flags) ? printable(text, size_t{1} << 20) : text);
}

Status draw(const std::vector<Sweep>& curves, const std::string& caption, const std::string& folder,
            const std::string& wanted) {
  if (curves.empty()) return {};
  return write_pictures(sweep_charts(curves), caption, folder,
                        picture_format(wanted).value_or(PictureFormat::svg))
      .take_status();
}

// What a folder kept: the loads of its curves, and the comparison at each of them.
Result<Loads> read_loads(const std::string& folder) {
  TENON_ASSIGN_OR_RETURN(const std::vector<Sweep> curves, read_sweeps(folder));
  const SweepOf what = curves.front().what;
  std::string title = std::string(sweep_word(what)) + "=";
  for (const SweepPoint& point : curves.front().points) {
    title += format(title.ends_with('=') ? "%g" : ",%g", point.load);
  }
  Loads loads(what, std::move(title));
  for (const SweepPoint& point : curves.front().points) {
    std::vector<std::string> notes;
    TENON_ASSIGN_OR_RETURN(const MeasuredComparison measured,
                           compare::read_folder(folder_of_load(folder, what, point.load), notes));
    for (const std::string& note : notes) say(note);
    loads.add(measured, point.load);
  }
  return loads;
}

// "results/monday/" is "monday".
std::string folder_name(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  const std::string last = whole.filename().string();
  return last.empty() ? whole.parent_path().filename().string() : last;
}

// Blocks that were run to their end, whether their pairs count or not.
uint32_t most_pairs(const MeasuredComparison& measured) {
  const std::string& base = measured.arms.front().name;
  return static_cast<uint32_t>(
      std::ranges::count_if(measured.pieces, [&](const MeasuredPiece& piece) {
        return piece.kind == PieceKind::measured && piece.arm == base;
      }));
}

}  // namespace

bool shows_each_load(const CompareFlags& flags) {
  return !flags.json && !flags.csv;
}

Result<int> compare_at_loads(const CompareFlags& flags, const Comparison& comparison,
                             const std::string& folder, const CompareOne& compare_one) {
  TENON_ASSIGN_OR_RETURN(const SweepRange range, parse_sweep(flags.sweep));
  if (comparison.probes > 0) {
    return invalid_argument("--sweep " + in_quotes(flags.sweep) +
                            " – the comparison searches a rate by itself (goodput); take one");
  }
  Loads loads(range.what, flags.sweep);
  compare::SweepShares shares(range, comparison.budget_ns,
                              std::min(comparison.pairs, compare::kFewestPairs));
  int worst = 0;
  while (const auto turn = shares.next()) {
    const double load = turn->load;
    const std::string into = folder_of_load(folder, range.what, load);
    const WallClock clock;
    const int64_t began_ns = clock.now_ns();
    const Result<int> status = compare_one(at_load(comparison, range.what, *turn), into);
    if (interrupted()) return interrupted_status();
    if (!status.ok()) return copy(status.status());
    worst = std::max(worst, *status);
    std::vector<std::string> notes;
    TENON_ASSIGN_OR_RETURN(const MeasuredComparison measured, compare::read_folder(into, notes));
    loads.add(measured, load);
    shares.took(clock.now_ns() - began_ns, std::llround(seconds_of_block(measured) * 1e9),
                most_pairs(measured));
    loads.leave_out(shares.left_out(), static_cast<double>(shares.needed_ns()) * 1e-9);
    TENON_RETURN_IF_ERROR(loads.keep(folder));
    // Higher rates would only queue for longer.
    if (range.what == SweepOf::rate && loads.all_saturated()) break;
  }
  print(flags, loads);
  TENON_RETURN_IF_ERROR(draw(loads.curves(), loads.caption(), folder, flags.pictures));
  if (!flags.quiet) say("pictures: " + folder + "/pictures");
  return worst;
}

bool is_sweep_folder(const std::string& folder) {
  return is_there(folder + kSweepFile);
}

Result<int> show_sweeps(const CompareFlags& flags) {
  const bool several = flags.folders.size() > 1;
  if (!flags.fail_if.empty()) {
    return invalid_argument(
        "--fail-if – a rule is about one load: show that load's folder, such as " +
        path_in_quotes(flags.folders.front() + "/rate-4"));
  }
  if (several && !flags.pictures.empty() && flags.out.empty()) {
    return invalid_argument("--pictures of several sweeps – say where to write them: --out FOLDER");
  }
  std::vector<Sweep> all;
  std::string caption;
  for (const std::string& folder : flags.folders) {
    TENON_ASSIGN_OR_RETURN(const Loads loads, read_loads(folder));
    if (several && shows_each_load(flags)) put("\n" + printable(folder) + "\n");
    print(flags, loads);
    for (Sweep curve : loads.curves()) {
      if (several) curve.name = folder_name(folder) + ": " + curve.name;
      all.push_back(std::move(curve));
    }
    caption = loads.caption();
  }
  const bool alike =
      std::ranges::all_of(all, [&](const Sweep& one) { return one.what == all.front().what; });
  if (!alike) {
    return invalid_argument(
        "these sweeps have no picture in common – some are of rates, some of concurrencies");
  }
  const bool drawn = !several || !flags.out.empty();
  if (drawn) {
    const std::string into = flags.out.empty() ? flags.folders.front() : flags.out;
    TENON_RETURN_IF_ERROR(draw(all, caption, into, flags.pictures));
    if (several) say("pictures: " + into + "/pictures");
  }
  return 0;
}

}  // namespace tenon
