// `tenon compare`: is B better than A, by how much, and how sure is that.
#include <memory>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/comparison.h"
#include "core/request/parameters.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/compare/picture_files.h"
#include "tools/tenon/compare/runs.h"
#include "tools/tenon/process/typed_command.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

Option add_output_flags(Command command, CompareFlags& flags) {
  command.add_option(
      "--pictures",
      [&flags](const std::string& text) {
        const auto format = picture_format(text);
        refuse("--pictures",
               format ? "" : in_quotes(text) + " is no format; expected svg, png or both");
        const Status there = *format == PictureFormat::svg ? Status() : png_available();
        refuse("--pictures", there.ok() ? "" : message_of(there));
        flags.pictures = text;
      },
      "also write each picture of the report as a file: svg, png or both");
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
  add_text(command, "--sweep", flags.sweep,
           "the comparison at several loads: rate=1..20 or concurrency=1..64 (each twice the one "
           "before), or a list of them; the budget is shared by them")
      .excludes(closed)
      .excludes(open);
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
  add_number(
      command, whole_number("--restart", 0, 100000), flags.restart,
      "pairs after which all arms are started anew, 0: never (default: as often as there is time)");
  add_number(command, whole_number("--seed", 0, INT64_MAX), flags.seed,
             "of arrivals and of the order (default: 1)");
  add_number(command, real_number("--unlike", 0.001, 100), flags.unlike,
             "machine states further apart make no pair (default: 0.15)");
  command.add_flag("--count-waits", flags.count_waits,
                   "times include what arms wait for processors that other programs have");
  command.add_option(
      "--budget",
      [&flags](const std::string& text) {
        refuse("--budget",
               parse_duration_ns(text) ? "" : in_quotes(text) + " is no time such as 10m or 90s");
        flags.budget = text;
      },
      "time at most, loading included (default: 10min)");
}

// What a comparison is of, for whatever runs its arms.
void add_arm_flags(Command command, CompareFlags& flags) {
  add_text(command, "--base", flags.base,
           "the base: a pipeline file (default: the bundled one), or a running server's address");
  add_texts(command, "--arm", flags.arms,
            "a difference from the base: scheduler.plugin=chunked, or NAME:KEY=VALUE");
  add_text(command, "--model", flags.model, "model of all arms");
  add_texts(command, "--set", flags.settings, "override a value in all arms");
  add_texts(command, "--plugin-path", flags.plugin_path, "look for plugins here first");
  command.add_flag("--several", flags.several, "an arm may differ in more than one key");
  command.add_flag("--answers-may-differ", flags.may_differ,
                   "rank speeds of arms that give other answers, too");
}

}  // namespace

void add_simulate_command(Command app, Action& action) {
  auto flags = std::make_shared<CompareFlags>();
  auto followed = std::make_shared<std::string>();
  auto arm = std::make_shared<uint32_t>(0);
  flags->simulated = true;
  Command command = app.add_subcommand(
      "simulate", "Say what a comparison would find on another machine, without its weights");
  Option file = command.add_option("file", flags->file, "the comparison's TOML file");
  add_text(command, "--machine", flags->machine,
           "the machine: a name such as h100, or a file (default: the comparison's)");
  add_arm_flags(command, *flags);
  add_work_flags(command, *flags);
  add_statistics_flags(command, *flags);
  add_text(command, "--out", flags->out, "folder of results (default: one in comparisons/)");
  command.add_flag("--record", flags->record,
                   "keep what each arm's scheduler sees and decides in its first piece");
  command.add_flag("--quiet", flags->quiet, "no progress, nothing but the result");
  add_output_flags(command, *flags);
  Option follow = add_text(command, "--follow", *followed,
                           "a folder of `tenon compare --record`: whether a simulation with its "
                           "times and tokens decides the same");
  follow.excludes(file);
  add_number(command, whole_number("--of", 0, 1000), *arm,
             "of --follow: 0 the base (default), 1 the first arm, …");
  command.callback([flags, followed, arm, &action] {
    action = [flags, followed, arm] {
      if (!followed->empty()) flags->folders = {*followed};
      const Result<int> status = followed->empty() ? compare_given(*flags, typed_command())
                                                   : follow_recorded(*flags, *arm);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

void add_compare_command(Command app, Action& action) {
  auto flags = std::make_shared<CompareFlags>();
  Command command = app.add_subcommand(
      "compare", "Say whether one pipeline is better than another, and how sure that is");
  Option file = command.add_option("file", flags->file, "the comparison's TOML file");
  add_arm_flags(command, *flags);
  add_text(command, "--authorities", flags->authorities,
           "a PEM file of those whose certificates servers show (default: the system's)");
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
      .excludes("--sweep")
      .excludes(rules);
  Command shown = command.add_subcommand("show", "Report results again, also across folders");
  shown.add_option("folder", flags->folders, "folders of results").required();
  add_text(shown, "--out", flags->out,
           "folder for pictures that several folders of --sweep have in common");
  add_output_flags(shown, *flags);
  add_compare_replay(command, action);
  add_compare_pairs(command, action);
  shown.callback([flags, &action] {
    action = [flags] {
      const Result<int> status = show_folders(*flags);
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
