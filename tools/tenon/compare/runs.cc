// Comparisons, one or many, and their folders.
#include "tools/tenon/compare/runs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>

#include "core/base/files/new_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/comparison.h"
#include "core/compare/experiment.h"
#include "core/compare/folder.h"
#include "core/compare/json.h"
#include "core/report/pages/page.h"
#include "core/report/pages/pictures.h"
#include "core/report/pages/text_report.h"
#include "core/report/statistics/fail_rule.h"
#include "tools/tenon/compare/host.h"
#include "tools/tenon/compare/picture_files.h"
#include "tools/tenon/compare/simulate.h"
#include "tools/tenon/compare/sweep_command.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

using compare::Comparison;
namespace fs = std::filesystem;

constexpr int kRuleBroken = 3;
constexpr int kDifferentAnswers = 4;
constexpr int kNoPair = 5;
constexpr size_t kLongestName = 15;  // of a comparison of ours

// The time of the wall, by a pattern of strftime.
std::string time_text(const char* pattern, std::tm* (*zone)(const std::time_t*, std::tm*)) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  zone(&now, &parts);
  char text[40];
  std::strftime(text, sizeof(text), pattern, &parts);
  return text;
}

std::string slug_of(const Comparison& comparison) {
  std::string slug =
      comparison.path.empty() ? "comparison" : fs::path(comparison.path).stem().string();
  return slug + time_text("-%Y%m%d-%H%M%S", ::localtime_r);
}

// The default name: a folder of this second's may be there already.
std::string free_folder(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; is_there(name); ++i) name = wanted + "-" + std::to_string(i);
  return name;
}

Status write_reports(const CompareFlags& flags, const std::string& folder,
                     const MeasuredComparison& measured, const Analysis& analysis) {
  const auto file = [&](const char* name) { return folder + "/" + name; };
  TENON_RETURN_IF_ERROR(
      write_file(file("report.json"), {json_text(compare::analysis_json(measured, analysis))}));
  TENON_RETURN_IF_ERROR(write_file(file("report.csv"), {csv_report(analysis)}));
  TENON_RETURN_IF_ERROR(write_file(file("report.md"), {markdown_report(measured, analysis)}));
  TENON_RETURN_IF_ERROR(write_file(file("report.html"), {html_page(measured, analysis)}));
  if (flags.pictures.empty()) return {};
  return write_pictures(pictures_of(measured, analysis), caption_of(measured), folder,
                        *picture_format(flags.pictures))
      .take_status();
}

void print(const CompareFlags& flags, const MeasuredComparison& measured,
           const Analysis& analysis) {
  put(flags.json       ? json_text(compare::analysis_json(measured, analysis))
      : flags.csv      ? csv_report(analysis)
      : flags.markdown ? markdown_report(measured, analysis)
                       : printable(text_report(measured, analysis), size_t{1} << 20));
}

// The exit status: of the rules first, then of answers that differ, then of no pair at all.
Result<int> judged(const CompareFlags& flags, const MeasuredComparison& measured,
                   const Analysis& analysis) {
  int status = 0;
  for (const std::string& text : flags.fail_if) {
    TENON_ASSIGN_OR_RETURN(const FailRule rule, parse_fail_rule(text));
    TENON_ASSIGN_OR_RETURN(const Rule found, check(rule, measured, analysis));
    if (found == Rule::broken) {
      tell("broken: " + text);
      status = kRuleBroken;
    } else if (found == Rule::open) {
      say("not told either way: " + text);
    }
  }
  const bool differ = std::any_of(analysis.arms.begin(), analysis.arms.end(),
                                  [](const ArmResult& arm) { return arm.different_answers; });
  if (status == 0 && differ) status = kDifferentAnswers;
  if (const std::string why = no_pair_text(measured, analysis); status == 0 && !why.empty()) {
    tell("error: " + why);
    status = kNoPair;
  }
  return status;
}

std::string default_folder(const Comparison& comparison) {
  return free_folder("comparisons/" + slug_of(comparison));
}

Result<int> compare_one(const CompareFlags& flags, const Comparison& comparison,
                        const std::string& command, const std::string& out_folder,
                        bool shown = true) {
  TENON_ASSIGN_OR_RETURN(std::vector<FailRule> rules, rules_of(flags, comparison));
  SimulatedMachine machines;
  if (flags.simulated) {
    TENON_ASSIGN_OR_RETURN(machines, simulated_machine_of(comparison));
  }
  // An interrupt ends the run between two pieces, or in the middle of one: nobody waits for it.
  // If it cannot end by itself, what was measured is kept, and an empty folder is not.
  std::atomic<const compare::Folder*> made = nullptr;
  GracefulEnd end([&made] {
    const compare::Folder* folder = made;
    if (folder != nullptr && !folder->has_pieces()) folder->remove();
    return false;
  });
  TENON_ASSIGN_OR_RETURN(compare::Folder folder, compare::Folder::create(out_folder));
  made = &folder;
  ProgramHost host(comparison, flags.plugin_path, flags.quiet, machines);
  compare::Experiment run(comparison,
                          {command, time_text("%Y-%m-%d %H:%M UTC", ::gmtime_r), std::move(rules),
                           flags.record, flags.simulated},
                          host, folder);
  const Status status = run.run();
  end.answered();
  const MeasuredComparison& measured = run.measured();
  const Analysis analysis = analyse(measured);
  if (!measured.pieces.empty()) {
    if (shown) print(flags, measured, analysis);
    const Status written = write_reports(flags, folder.path(), measured, analysis);
    if (status.ok() && !written.ok()) return copy(written);
  }
  // Nothing was measured: the name is free again.
  if (measured.pieces.empty()) folder.remove();
  if (!status.ok()) return copy(status);
  if (!measured.pieces.empty() && !flags.quiet) say("results: " + folder.path());
  if (interrupted()) return interrupted_status();
  return judged(flags, measured, analysis);
}

}  // namespace

namespace {

Result<int> compare_file(const CompareFlags& flags, const std::string& command) {
  TENON_ASSIGN_OR_RETURN(Comparison comparison, comparison_of(flags, flags.file));
  if (flags.simulated) TENON_RETURN_IF_ERROR(simulate_arms(flags, comparison));
  const std::string folder = flags.out.empty() ? default_folder(comparison) : flags.out;
  if (flags.sweep.empty()) return compare_one(flags, comparison, command, folder);
  return compare_at_loads(
      flags, comparison, folder, [&](const Comparison& at_load, const std::string& into) {
        return compare_one(flags, at_load, command, into, shows_each_load(flags));
      });
}

}  // namespace

// Whatever is wrong begins with the file that asked for it.
Result<int> compare_given(const CompareFlags& flags, const std::string& command) {
  Result<int> status = compare_file(flags, command);
  if (status.ok() || flags.file.empty()) return status;
  const std::string message = message_of(status.status());
  if (message.find(flags.file) != std::string::npos) return status;
  return with_context(printable(flags.file), status.take_status());
}

Result<int> compare_all(const CompareFlags& flags, const std::string& command) {
  TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(data + "/configs/comparisons", error)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) return not_found("there are no comparisons in " + path_in_quotes(data));
  int worst = 0;
  std::string table;
  const std::string into = flags.out.empty() ? default_folder({}) : flags.out;
  for (const std::string& file : files) {
    const std::string name = fs::path(file).stem().string();
    TENON_ASSIGN_OR_RETURN(const Comparison comparison, comparison_of(flags, file));
    const Result<int> status = compare_one(flags, comparison, command, into + "/" + name);
    if (interrupted()) return interrupted_status();
    if (!status.ok()) tell(name + ": " + message_of(status.status()));
    worst = std::max(worst, status.ok() ? *status : 1);
    std::vector<std::string> notes;
    const Result<MeasuredComparison> measured = compare::read_folder(into + "/" + name, notes);
    if (!measured.ok()) continue;
    for (const std::string& line : overview_of(*measured, analyse(*measured))) {
      const size_t space = name.size() < kLongestName ? kLongestName - name.size() : 0;
      table += name + ": " + std::string(space, ' ') + line + "\n";
    }
  }
  put("\n" + printable(table, size_t{1} << 20));
  return worst;
}

Result<int> show_folders(const CompareFlags& flags) {
  const auto sweeps = std::ranges::count_if(flags.folders, is_sweep_folder);
  if (sweeps > 0) {
    if (static_cast<size_t>(sweeps) == flags.folders.size()) return show_sweeps(flags);
    return invalid_argument(
        "some of these folders are of `--sweep`, some of one load – show the "
        "folder of a load, such as rate-4, with the latter");
  }
  if (!flags.out.empty()) {
    return invalid_argument("--out – pictures of one load are written into its own folder");
  }
  std::vector<MeasuredComparison> all;
  int status = 0;
  for (const std::string& folder : flags.folders) {
    std::vector<std::string> notes;
    TENON_ASSIGN_OR_RETURN(MeasuredComparison measured, compare::read_folder(folder, notes));
    for (const std::string& note : notes) say(note);
    const Analysis analysis = analyse(measured);
    print(flags, measured, analysis);
    TENON_RETURN_IF_ERROR(write_reports(flags, folder, measured, analysis));
    TENON_ASSIGN_OR_RETURN(const int found, judged(flags, measured, analysis));
    status = std::max(status, found);
    all.push_back(std::move(measured));
  }
  if (all.size() > 1 && !flags.json && !flags.csv) {
    put("\n" + printable(unpaired_report(all, flags.folders), size_t{1} << 20));
  }
  return status;
}

}  // namespace tenon
