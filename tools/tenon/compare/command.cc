// `tenon compare`: is B better than A, by how much, and how sure is that.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>

#include "core/base/files/new_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/comparison.h"
#include "core/compare/experiment.h"
#include "core/compare/folder.h"
#include "core/compare/json.h"
#include "core/compare/weights.h"
#include "core/report/pages/page.h"
#include "core/report/pages/text_report.h"
#include "core/report/statistics/fail_rule.h"
#include "core/request/parameters.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/compare/host.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

using compare::Comparison;
using compare::ComparisonArm;
namespace fs = std::filesystem;

constexpr int kRuleBroken = 3;
constexpr int kDifferentAnswers = 4;
constexpr int kNoPair = 5;
constexpr size_t kLongestName = 15;  // of a comparison of ours

struct CompareFlags {
  std::string file, base, authorities, model, workload, out, metric, budget, cache, goodput, text;
  std::vector<std::string> arms, settings, plugin_path, fail_if, folders;
  std::optional<uint32_t> pairs, noise_pairs, restart, in_flight, max_tokens, text_tokens,
      text_window;
  std::optional<uint64_t> seed;
  std::optional<double> rate, burstiness, scale, margin, confidence, unlike;
  bool record = false;
  bool several = false, may_differ = false, all = false, quick = false;
  bool json = false, csv = false, markdown = false, quiet = false;
};

// One way of sending requests takes the place of another.
void take_loop(const CompareFlags& flags, Comparison& out) {
  if (!flags.in_flight && !flags.rate && flags.goodput.empty()) return;
  const Comparison none;
  out.in_flight = none.in_flight;
  out.rate = none.rate;
  if (flags.rate) return;
  out.burstiness = none.burstiness;
  out.scale = none.scale;
}

// What the command line says in place of the file.
Status apply(const CompareFlags& flags, Comparison& out) {
  const auto text = [](const std::string& from, std::string& to) {
    if (!from.empty()) to = from;
  };
  const auto number = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  const bool served = flags.base.starts_with("http://") || flags.base.starts_with("https://") ||
                      flags.base.starts_with("unix:");
  if (!flags.base.empty()) {
    // A server's model is the server's.
    if (served != !out.url.empty()) out.model.clear();
    out.url = served ? flags.base : "";
    out.base = served || flags.base == "default" ? "" : flags.base;
  }
  text(flags.authorities, out.authorities);
  text(flags.model, out.model);
  text(flags.workload, out.workload);
  text(flags.text, out.text);
  take_loop(flags, out);
  if (!flags.goodput.empty()) TENON_RETURN_IF_ERROR(compare::set_goodput(flags.goodput, out));
  text(flags.metric, out.metric);
  out.set.insert(out.set.end(), flags.settings.begin(), flags.settings.end());
  number(flags.pairs, out.pairs);
  number(flags.noise_pairs, out.noise_pairs);
  number(flags.restart, out.restart);
  number(flags.in_flight, out.in_flight);
  number(flags.max_tokens, out.max_tokens);
  number(flags.text_tokens, out.text_tokens);
  number(flags.text_window, out.text_window);
  number(flags.seed, out.seed);
  number(flags.rate, out.rate);
  number(flags.burstiness, out.burstiness);
  number(flags.scale, out.scale);
  number(flags.margin, out.margin);
  number(flags.confidence, out.confidence);
  number(flags.unlike, out.unlike);
  if (flags.may_differ) out.same_answers = false;
  if (flags.several) out.several = true;
  if (!flags.cache.empty()) out.cache = *compare::parse_cache_state(flags.cache);
  if (!flags.budget.empty()) out.budget_ns = *parse_duration_ns(flags.budget);
  for (const std::string& arm : flags.arms) TENON_RETURN_IF_ERROR(compare::add_arm(arm, out));
  return {};
}

// Few pairs in little time, for a look at many comparisons.
void make_quick(Comparison& comparison) {
  comparison.pairs = std::min(comparison.pairs, 8u);
  comparison.noise_pairs = std::min(comparison.noise_pairs, 3u);
  comparison.budget_ns = std::min(comparison.budget_ns, int64_t{50} * 1'000'000'000);
}

Result<Comparison> comparison_of(const CompareFlags& flags, const std::string& file) {
  Comparison comparison;
  if (!file.empty()) {
    TENON_ASSIGN_OR_RETURN(comparison, compare::read_comparison(file));
  }
  TENON_RETURN_IF_ERROR(apply(flags, comparison));
  if (flags.quick) make_quick(comparison);
  if (comparison.text.empty()) {
    TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
    comparison.text = data + "/configs/models/valid.txt";
  }
  TENON_RETURN_IF_ERROR(compare::check_comparison(comparison));
  TENON_RETURN_IF_ERROR(compare::check_weights(comparison));
  if (find_metric(comparison.metric) == nullptr) {
    std::vector<std::string> names;
    for (const Metric& metric : metrics()) names.emplace_back(metric.name);
    return invalid_argument(in_quotes(comparison.metric) + " is no metric; there are " +
                            join(names) + did_you_mean(comparison.metric, names));
  }
  return comparison;
}

Result<std::vector<FailRule>> rules_of(const CompareFlags& flags, const Comparison& comparison) {
  std::vector<std::string> names = {comparison.base_name};
  for (const ComparisonArm& arm : comparison.arms) names.push_back(arm.name);
  std::vector<FailRule> rules;
  for (const std::string& text : flags.fail_if) {
    TENON_ASSIGN_OR_RETURN(FailRule rule, parse_fail_rule(text));
    TENON_RETURN_IF_ERROR(check_names(rule, names));
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::string slug_of(const Comparison& comparison) {
  std::string slug =
      comparison.path.empty() ? "comparison" : fs::path(comparison.path).stem().string();
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char time[40];
  std::strftime(time, sizeof(time), "-%Y%m%d-%H%M%S", &parts);
  return slug + time;
}

// The command line of this process, as a shell would take it again.
std::string typed_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string out;
  for (std::string word; std::getline(file, word, '\0');) {
    out += (out.empty() ? "" : " ") + shell_word(word);
  }
  return out;
}

Status write_reports(const std::string& folder, const MeasuredComparison& measured,
                     const Analysis& analysis) {
  const auto file = [&](const char* name) { return folder + "/" + name; };
  TENON_RETURN_IF_ERROR(
      write_file(file("report.json"), {json_text(compare::analysis_json(measured, analysis))}));
  TENON_RETURN_IF_ERROR(write_file(file("report.csv"), {csv_report(analysis)}));
  TENON_RETURN_IF_ERROR(write_file(file("report.md"), {markdown_report(measured, analysis)}));
  return write_file(file("report.html"), {html_page(measured, analysis)});
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

// The default name: a folder of this second's may be there already.
std::string free_folder(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; is_there(name); ++i) name = wanted + "-" + std::to_string(i);
  return name;
}

Result<int> compare_one(const CompareFlags& flags, const Comparison& comparison,
                        const std::string& command, const std::string& out_folder) {
  TENON_ASSIGN_OR_RETURN(std::vector<FailRule> rules, rules_of(flags, comparison));
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
  ProgramHost host(comparison, flags.plugin_path, flags.quiet);
  compare::Experiment run(comparison, {command, std::move(rules), flags.record}, host, folder);
  const Status status = run.run();
  end.answered();
  const MeasuredComparison& measured = run.measured();
  const Analysis analysis = analyse(measured);
  if (!measured.pieces.empty()) {
    print(flags, measured, analysis);
    const Status written = write_reports(folder.path(), measured, analysis);
    if (status.ok() && !written.ok()) return copy(written);
  }
  // Nothing was measured: the name is free again.
  if (measured.pieces.empty()) folder.remove();
  if (!status.ok()) return copy(status);
  if (!measured.pieces.empty() && !flags.quiet) say("results: " + folder.path());
  if (interrupted()) return interrupted_status();
  return judged(flags, measured, analysis);
}

Result<int> compare_given(const CompareFlags& flags, const std::string& command) {
  TENON_ASSIGN_OR_RETURN(const Comparison comparison, comparison_of(flags, flags.file));
  return compare_one(
      flags, comparison, command,
      flags.out.empty() ? free_folder("comparisons/" + slug_of(comparison)) : flags.out);
}

// Every comparison of configs/comparisons, one after the other.
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
  const std::string into =
      flags.out.empty() ? free_folder("comparisons/" + slug_of({})) : flags.out;
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

Result<int> show(const CompareFlags& flags) {
  std::vector<MeasuredComparison> all;
  int status = 0;
  for (const std::string& folder : flags.folders) {
    std::vector<std::string> notes;
    TENON_ASSIGN_OR_RETURN(MeasuredComparison measured, compare::read_folder(folder, notes));
    for (const std::string& note : notes) say(note);
    const Analysis analysis = analyse(measured);
    print(flags, measured, analysis);
    TENON_RETURN_IF_ERROR(write_reports(folder, measured, analysis));
    TENON_ASSIGN_OR_RETURN(const int found, judged(flags, measured, analysis));
    status = std::max(status, found);
    all.push_back(std::move(measured));
  }
  if (all.size() > 1 && !flags.json && !flags.csv) {
    put("\n" + printable(unpaired_report(all, flags.folders), size_t{1} << 20));
  }
  return status;
}

Option add_output_flags(Command command, CompareFlags& flags) {
  Option json = command.add_flag("--json", flags.json, "print the result as JSON");
  Option csv = command.add_flag("--csv", flags.csv, "print a line for each arm and metric");
  Option markdown = command.add_flag("--markdown", flags.markdown, "print Markdown");
  json.excludes(csv).excludes(markdown);
  csv.excludes(markdown);
  return add_texts(command, "--fail-if", flags.fail_if,
                   "exit with 3 where this is certain: 'b.ttft_p50 > 1.05 * a'");
}

void add_work_flags(Command command, CompareFlags& flags) {
  add_text(command, "--workload", flags.workload,
           "requests: a workload's TOML file, a published trace, or prompts");
  add_number(command, whole_number("--max-tokens", 1, 1 << 20), flags.max_tokens,
             "of an answer where the workload does not say (default: 64)");
  Option closed = add_number(command, whole_number("--in-flight", 1, 1 << 20), flags.in_flight,
                             "closed loop: so many requests at once");
  Option open = add_number(command, real_number("--rate", 1e-3, 1e6), flags.rate,
                           "open loop: random arrivals, requests a second");
  closed.excludes(open);
  add_number(command, real_number("--burstiness", 0.01, 1000), flags.burstiness,
             "of random arrivals: below 1 in bursts, above 1 more even (default: 1, Poisson)");
  add_number(command, real_number("--scale", 1e-6, 1e6), flags.scale,
             "the workload's own arrivals, so many times as fast (default: 1)");
  add_text(command, "--text", flags.text,
           "that arms of other numerics are judged by (default: a bundled one)");
  add_number(command, whole_number("--text-tokens", 2, kMostParameterTokens), flags.text_tokens,
             "of it, from its beginning (default: 1024)");
  add_number(command, whole_number("--text-window", 2, kMostParameterTokens), flags.text_window,
             "tokens that are computed from their own first one (default: 256)");
  add_text(command, "--goodput", flags.goodput,
           "search the highest rate that keeps bounds: ttft=500ms,gap=50ms,share=0.9,probes=8")
      .excludes(closed)
      .excludes(open);
  command.add_option(
      "--cache",
      [&flags](const std::string& text) {
        refuse("--cache", compare::parse_cache_state(text)
                              ? ""
                              : in_quotes(text) +
                                    " is no state of the cache; expected cold, warm or "
                                    "steady");
        flags.cache = text;
      },
      "what requests find in the K/V cache: cold (default), warm or steady");
}

void add_statistics_flags(Command command, CompareFlags& flags) {
  add_text(command, "--metric", flags.metric, "what the verdict is about (default: throughput)");
  add_number(command, real_number("--margin", 1e-4, 1), flags.margin,
             "differences below this do not matter (default: 0.01)");
  add_number(command, real_number("--confidence", 0.5, 0.9999), flags.confidence,
             "of one metric's intervals, those of all arms together (default: 0.99)");
  add_number(command, whole_number("--pairs", 4, 100000), flags.pairs,
             "pairs of pieces at most (default: as many as the budget allows)");
  add_number(command, whole_number("--noise-pairs", 0, 100000), flags.noise_pairs,
             "pairs of A against A (default: 5)");
  add_number(command, whole_number("--restart", 0, 100000), flags.restart,
             "pairs after which all arms are started anew (default: 0, never)");
  add_number(command, whole_number("--seed", 0, INT64_MAX), flags.seed,
             "of arrivals and of the order (default: 1)");
  add_number(command, real_number("--unlike", 0.001, 100), flags.unlike,
             "machine states further apart make no pair (default: 0.15)");
  command.add_option(
      "--budget",
      [&flags](const std::string& text) {
        refuse("--budget",
               parse_duration_ns(text) ? "" : in_quotes(text) + " is no time such as 10m or 90s");
        flags.budget = text;
      },
      "time at most, loading included (default: 10min)");
}

}  // namespace

void add_compare_command(Command app, Action& action) {
  auto flags = std::make_shared<CompareFlags>();
  Command command = app.add_subcommand(
      "compare", "Say whether one pipeline is better than another, and how sure that is");
  Option file = command.add_option("file", flags->file, "the comparison's TOML file");
  add_text(command, "--base", flags->base,
           "the base: a pipeline file (default: the bundled one), or a running server's address");
  add_texts(command, "--arm", flags->arms,
            "a difference from the base: scheduler.plugin=chunked, or NAME:KEY=VALUE");
  add_text(command, "--authorities", flags->authorities,
           "a PEM file of those whose certificates servers show (default: the system's)");
  add_text(command, "--model", flags->model, "model of all arms");
  add_texts(command, "--set", flags->settings, "override a value in all arms");
  add_texts(command, "--plugin-path", flags->plugin_path, "look for plugins here first");
  command.add_flag("--several", flags->several, "an arm may differ in more than one key");
  command.add_flag("--answers-may-differ", flags->may_differ,
                   "rank speeds of arms that give other answers, too");
  add_work_flags(command, *flags);
  add_statistics_flags(command, *flags);
  add_text(command, "--out", flags->out, "folder of results (default: one in comparisons/)");
  command.add_flag("--quick", flags->quick, "few pairs, 50 seconds at most");
  command.add_flag("--record", flags->record,
                   "keep what each arm's scheduler sees and decides in its first piece");
  command.add_flag("--quiet", flags->quiet, "no progress, nothing but the result");
  Option rules = add_output_flags(command, *flags);
  // Arms of different comparisons have different names.
  command.add_flag("--all", flags->all, "run all of configs/comparisons")
      .excludes(file)
      .excludes(rules);
  Command shown = command.add_subcommand("show", "Report results again, also across folders");
  shown.add_option("folder", flags->folders, "folders of results").required();
  add_output_flags(shown, *flags);
  add_compare_replay(command, action);
  add_compare_pairs(command, action);
  shown.callback([flags, &action] {
    action = [flags] {
      const Result<int> status = show(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
  command.callback([flags, command, &action] {
    if (command.subcommand_chosen()) return;
    action = [flags] {
      const std::string typed = typed_command();
      const Result<int> status =
          flags->all ? compare_all(*flags, typed) : compare_given(*flags, typed);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
