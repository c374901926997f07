// `tenon plugins check`: holds a library to what its interfaces promise, a process a case.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/files/new_file.h"
#include "core/base/machine/host_facts.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/conformance/battery.h"
#include "core/plugin/descriptor_check.h"
#include "core/plugin/library.h"
#include "core/plugin/registry.h"
#include "core/request/parameters.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/plugins/check_page.h"
#include "tools/tenon/plugins/check_report.h"
#include "tools/tenon/process/case_process.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/outputs.h"

namespace tenon {
namespace {

constexpr int kNotExercisedStatus = 3;                 // nothing is broken, as far as could be seen
constexpr std::string_view kMark = "tenon-verdict: ";  // before a case's own answer
constexpr std::string_view kLoadCase = "file.loads";
// Each costs a whole time limit, and the fourth says no more than the first three.
constexpr uint32_t kMostHangs = 3;
constexpr NumberSpec kTimeLimit = whole_number("--time-limit", 1, 86400);

struct CheckFlags {
  std::string library;
  std::string plugin;              // "scheduler/acme.mine"; empty = every one of the file
  std::vector<std::string> cases;  // names, or the words before their dots; empty = all
  std::vector<std::string> options;
  std::string junit, html;
  std::string fuzz;     // a duration, "60s"; empty = none
  int64_t fuzz_ns = 0;  // the same, read
  uint64_t seed = 1;
  uint32_t time_limit_seconds = 0;  // of a case; 0 = as the effort says
  bool quick = false, very_long = false, json = false;
  bool alone = false;  // this process runs one case itself

  uint32_t effort() const { return quick ? 1 : very_long ? 16 : 4; }
  // Of the processor's time, so that a busy machine makes no hang of a case; as long a case may
  // sleep. By the clock is for what does neither.
  TimeLimits limits() const {
    const double seconds = time_limit_seconds > 0 ? time_limit_seconds
                           : quick                ? 30
                           : very_long            ? 1200
                                                  : 120;
    return {.by_the_clock = 20 * seconds, .computing = seconds, .waiting = seconds};
  }
};

bool wanted(const CheckFlags& flags, std::string_view name) {
  if (flags.cases.empty()) return true;
  for (const std::string& word : flags.cases) {
    if (name == word || name.starts_with(word + ".")) return true;
  }
  return false;
}

// What runs one case again, without the program's name.
std::vector<std::string> case_arguments(const CheckFlags& flags, const std::string& plugin,
                                        std::string_view name) {
  std::vector<std::string> made = {"plugins", "check", flags.library};
  if (!plugin.empty()) made.insert(made.end(), {"--plugin", plugin});
  made.insert(made.end(), {"--case", std::string(name), "--seed", std::to_string(flags.seed)});
  if (flags.quick) made.emplace_back("--quick");
  if (flags.very_long) made.emplace_back("--long");
  for (const std::string& option : flags.options) made.insert(made.end(), {"--option", option});
  return made;
}

std::string again_text(const std::vector<std::string>& arguments) {
  std::string text = "tenon";
  for (const std::string& argument : arguments) text += " " + shell_word(argument);
  return text;
}

// --- in the process of a case --------------------------------------------------------------------

// "key=value": the value as the option's type reads it.
Result<Setting> read_option(const PluginDescriptor& plugin, const std::string& given) {
  const size_t equals = given.find('=');
  if (equals == given.npos) {
    return invalid_argument("--option " + in_quotes(given) + " – expected KEY=VALUE");
  }
  const std::string key = given.substr(0, equals), text = given.substr(equals + 1);
  Setting setting{key, text, {"--option", 0, 0}};
  for (const OptionSpec& option : std::span(plugin.options, plugin.option_count)) {
    if (option.key != key) continue;
    if (option.type == OptionType::boolean && (text == "true" || text == "false")) {
      setting.value = text == "true";
    }
    if (option.type == OptionType::integer || option.type == OptionType::real) {
      double number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) continue;
      if (option.type == OptionType::real) setting.value = number;
      if (option.type == OptionType::integer) setting.value = static_cast<int64_t>(number);
    }
  }
  return setting;
}

// A plugin may have options without a default, which only its user can give. One case says so for
// all of them.
std::optional<Finding> lacks_option(const PluginDescriptor& plugin,
                                    const std::vector<Setting>& settings,
                                    const ConformanceCase& one) {
  for (const OptionSpec& option : std::span(plugin.options, plugin.option_count)) {
    const auto is_it = [&](const Setting& setting) { return setting.key == option.key; };
    if (!option.required || std::any_of(settings.begin(), settings.end(), is_it)) continue;
    const std::string key = one_line(option.key);
    const std::string what = "it needs the option '" + key + "', which has no default – name a " +
                             "value that does: --option " + key + "=VALUE";
    return one.name == "any.defaults" ? broke(what) : not_exercised(what);
  }
  return std::nullopt;
}

Result<Finding> find_alone(const CheckFlags& flags) {
  auto library = load_library(flags.library);
  if (!library.ok()) return broke(message_of(library.status()));
  if (flags.cases.front() == kLoadCase) return Finding();
  const size_t slash = flags.plugin.find('/');
  const PluginDescriptor* plugin = nullptr;
  for (const PluginDescriptor& one : (*library)->descriptors) {
    if (interface_word(one.interface) != flags.plugin.substr(0, slash)) continue;
    if (one.id == flags.plugin.substr(slash + 1)) plugin = &one;
  }
  const ConformanceCase* one = find_case(flags.cases.front());
  if (plugin == nullptr || one == nullptr) {
    return invalid_argument("there is no plugin " + in_quotes(flags.plugin) + " or no case " +
                            in_quotes(flags.cases.front()));
  }
  const HostFacts host = host_facts();
  if (score_of(*plugin, host) == 0) {
    return not_exercised("it cannot be used here: " + one_line(plugin->unavailable));
  }
  std::vector<Setting> settings;
  for (const std::string& given : flags.options) {
    TENON_ASSIGN_OR_RETURN(Setting setting, read_option(*plugin, given));
    settings.push_back(std::move(setting));
  }
  if (auto lacks = lacks_option(*plugin, settings, *one)) return *std::move(lacks);
  Subject subject(**library, *plugin, host, std::move(settings), flags.seed, flags.effort());
  return run_case(*one, subject);
}

int run_alone(const CheckFlags& flags) {
  if (flags.cases.size() != 1) return report_failure(invalid_argument("--alone runs one --case"));
  limit_this_process();
  const Result<Finding> found = find_alone(flags);
  if (!found.ok()) return report_failure(found.status());
  const nlohmann::json answer = {{"verdict", static_cast<int>(found->verdict)},
                                 {"what", found->what},
                                 {"header", found->promise.header},
                                 {"promise", found->promise.sentence}};
  put("\n" + std::string(kMark) + json_text(answer, -1));
  return 0;
}

// --- around it -----------------------------------------------------------------------------------

// The last lines of what a process said before it ended.
std::string last_words(const std::string& errors) {
  std::string text(trim(errors));
  constexpr size_t kMost = 400;
  if (text.size() > kMost) text = "…" + text.substr(text.size() - kMost);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.empty() ? "" : ": " + one_line(text, 2 * kMost);
}

// Which limit was over.
std::string hang_text(const EndedProcess& ended) {
  const auto seconds = [](double count) { return std::to_string(std::lround(count)) + " s"; };
  const std::string computed = seconds(ended.computed_seconds) + " of processor time";
  switch (ended.limit) {
    case TimeLimit::computing:
      return "no end in " + computed;
    case TimeLimit::waiting:
      return "no end: it has slept for " + seconds(ended.waited_seconds) + " and taken " +
             computed + " – what does it wait for?";
    default:
      return "no end in " + seconds(ended.seconds) + " by the clock and " + computed;
  }
}

void judge(const EndedProcess& ended, CheckedCase& one) {
  one.seconds = ended.seconds;
  if (ended.how == EndedProcess::How::out_of_time) {
    one.verdict = CaseVerdict::hang;
    one.what = hang_text(ended) + last_words(ended.errors);
    return;
  }
  const size_t mark = ended.output.rfind(kMark);
  if (mark != ended.output.npos) {
    const auto answer =
        nlohmann::json::parse(ended.output.substr(mark + kMark.size()), nullptr, false);
    if (answer.is_object() && ended.how == EndedProcess::How::exited && ended.number == 0) {
      one.verdict =
          static_cast<CaseVerdict>(answer.value("verdict", static_cast<int>(CaseVerdict::fail)));
      one.what = one_line(answer.value("what", std::string()), 2000);
      if (const auto promise = answer.value("promise", std::string()); !promise.empty()) {
        one.promise = one_line(promise, 2000);
        one.header = one_line(answer.value("header", std::string()));
      }
      return;
    }
  }
  one.verdict = CaseVerdict::crash;
  one.what = ended.how == EndedProcess::How::killed_by_signal
                 ? std::string("ended by signal ") + std::to_string(ended.number) + " (" +
                       ::strsignal(ended.number) + ")"
                 : "ended with status " + std::to_string(ended.number) + " in the middle";
  one.what += last_words(ended.errors);
}

CheckedCase begun(const std::string& plugin, const ConformanceCase& what) {
  return {plugin,
          std::string(what.name),
          {},
          {},
          std::string(what.header),
          std::string(what.promise),
          {},
          0};
}

// After too many others hung.
CheckedCase not_run(const std::string& plugin, const ConformanceCase& what) {
  CheckedCase one = begun(plugin, what);
  one.verdict = CaseVerdict::skip;
  one.what =
      std::to_string(kMostHangs) + " cases hung before it – run it alone with --case " + one.name;
  return one;
}

Result<CheckedCase> check_one(const CheckFlags& flags, const std::string& plugin,
                              const ConformanceCase& what) {
  CheckedCase one = begun(plugin, what);
  std::vector<std::string> arguments = case_arguments(flags, plugin, what.name);
  one.again = again_text(arguments);
  arguments.insert(arguments.begin(), "/proc/self/exe");
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) arguments.front() = program.string();
  arguments.emplace_back("--alone");
  TENON_ASSIGN_OR_RETURN(const EndedProcess ended,
                         run_process(arguments, flags.limits(), case_environment()));
  judge(ended, one);
  return one;
}

constexpr ConformanceCase kStamp{"file.stamp",
                                 {},
                                 "plugin.h",
                                 "A difference in arch, cxxabi, boundary or layout refuses the "
                                 "file before any of its code runs.",
                                 nullptr};
constexpr ConformanceCase kLoads{kLoadCase,
                                 {},
                                 "plugin.h",
                                 "What a plugin library exports: one C data symbol, a table of "
                                 "descriptors, and one ELF note, the "
                                 "stamp",
                                 nullptr};

// Runs cases and shows each as it ends.
class Check {
 public:
  explicit Check(CheckFlags flags) : flags_(std::move(flags)) {
    report_.file = flags_.library;
    report_.seed = flags_.seed;
  }

  Result<CheckReport> run() {
    TENON_RETURN_IF_ERROR(check_words());
    const auto stamp = read_stamp(flags_.library);
    Status problem =
        stamp.ok() ? check_stamp(*stamp, host_stamp(), flags_.library) : copy(stamp.status());
    begin_plugin("file");
    add_stamp(problem);
    if (!problem.ok()) return std::move(report_);
    TENON_ASSIGN_OR_RETURN(const CheckedCase loads, check_one(flags_, {}, kLoads));
    add(loads);
    if (loads.verdict != CaseVerdict::pass) return std::move(report_);
    TENON_ASSIGN_OR_RETURN(const bool any, check_plugins(*stamp));
    if (any && flags_.fuzz_ns > 0) TENON_RETURN_IF_ERROR(fuzz(*stamp));
    if (any) return std::move(report_);
    return not_found("the file has no plugin " +
                     (flags_.plugin.empty() ? std::string("of an interface that this program knows")
                                            : in_quotes(flags_.plugin)) +
                     " – `tenon plugins list --plugin-path FOLDER` shows what it has");
  }

 private:
  // Names of cases that nobody has are mistakes, not cases that pass.
  Status check_words() const {
    for (const std::string& word : flags_.cases) {
      bool found = word == "file" || word == kStamp.name || word == kLoads.name;
      for (const ConformanceCase& one : conformance_cases()) {
        found = found || one.name == word || one.name.starts_with(word + ".");
      }
      if (found) continue;
      std::vector<std::string> known;
      for (const ConformanceCase& one : conformance_cases()) known.emplace_back(one.name);
      return invalid_argument(
          "there is no case " + in_quotes(word) + did_you_mean(word, known) +
          " – expected a name such as scheduler.random_views, or the word in front "
          "of its dot");
    }
    return {};
  }

  // False where the file has none that is wanted.
  Result<bool> check_plugins(const PluginStamp& stamp) {
    bool any = false;
    for (const PluginName& name : stamp.plugins) {
      const std::string plugin = std::string(interface_word(name.interface)) + "/" + name.id;
      if (!flags_.plugin.empty() && flags_.plugin != plugin) continue;
      if (!knows_interface(name.interface)) continue;
      any = true;
      TENON_RETURN_IF_ERROR(check_plugin(plugin, name.interface));
    }
    return any;
  }

  // The same from further seeds, until the time is over or something is broken.
  Status fuzz(const PluginStamp& stamp) {
    fuzz_until_ = Steady::now() + std::chrono::nanoseconds(flags_.fuzz_ns);
    begin_plugin("fuzz");
    while (fuzz_goes_on()) {
      ++flags_.seed;
      ++report_.fuzz_seeds;
      TENON_RETURN_IF_ERROR(check_plugins(stamp).take_status());
    }
    if (!flags_.json) put(fuzz_text(report_));
    return {};
  }
  bool fuzz_goes_on() const { return report_.sound() && Steady::now() < *fuzz_until_; }

  Status check_plugin(const std::string& plugin, std::string_view interface) {
    if (!fuzz_until_) begin_plugin(plugin);
    for (const ConformanceCase& one : conformance_cases()) {
      if (!concerns(one, interface) || !wanted(flags_, one.name)) continue;
      if (fuzz_until_ && !fuzz_goes_on()) break;
      if (hangs_ == kMostHangs) {
        add(not_run(plugin, one));
        continue;
      }
      TENON_ASSIGN_OR_RETURN(const CheckedCase checked, check_one(flags_, plugin, one));
      if (checked.verdict == CaseVerdict::hang) ++hangs_;
      add(checked);
    }
    return {};
  }

  void begin_plugin(const std::string& name) {
    if (!flags_.json) putf("%s\n", one_line(name).c_str());
  }
  void add_stamp(const Status& problem) {
    add({{},
         std::string(kStamp.name),
         problem.ok() ? CaseVerdict::pass : CaseVerdict::fail,
         problem.ok() ? std::string() : message_of(problem),
         std::string(kStamp.header),
         std::string(kStamp.promise),
         {},
         0});
  }
  void add(CheckedCase one) {
    if (fuzz_until_) {
      ++report_.fuzz_cases;
      if (!breaks_contract(one.verdict)) return;
    }
    if (!flags_.json) {
      put(case_text(one));
      flush_output();
    }
    report_.cases.push_back(std::move(one));
  }

  using Steady = std::chrono::steady_clock;

  CheckFlags flags_;
  CheckReport report_;
  uint32_t hangs_ = 0;
  std::optional<Steady::time_point> fuzz_until_;  // once it has begun
};

int check(CheckFlags flags) {
  if (flags.alone) return run_alone(flags);
  if (!flags.fuzz.empty()) {
    const auto duration = parse_duration_ns(flags.fuzz);
    if (!duration || *duration <= 0) {
      return report_failure(invalid_argument("--fuzz " + in_quotes(flags.fuzz) +
                                             " – expected a duration such as 60s or 10min"));
    }
    flags.fuzz_ns = *duration;
  }
  for (const std::string& file : {flags.junit, flags.html}) {
    if (file.empty()) continue;
    const Status writable = check_output(file, {flags.library});
    if (!writable.ok()) return report_failure(writable);
  }
  const Result<CheckReport> report = Check(flags).run();
  if (!report.ok()) return report_failure(report.status());
  if (!flags.junit.empty()) {
    const Status written = write_file(flags.junit, {report_junit(*report)});
    if (!written.ok()) return report_failure(written);
  }
  if (!flags.html.empty()) {
    const Status written = write_file(flags.html, {check_page(*report)});
    if (!written.ok()) return report_failure(written);
  }
  if (flags.json) {
    put(report_json(*report));
  } else {
    putf("%s\n", summary_text(*report).c_str());
  }
  if (!report->sound()) return 1;
  return report->exercised() ? 0 : kNotExercisedStatus;
}

}  // namespace

void add_plugins_check(Command plugins, Action& action) {
  auto flags = std::make_shared<CheckFlags>();
  Command command = plugins.add_subcommand(
      "check", "Hold a library's plugins to what their interfaces promise, a process a case");
  command.add_option("library", flags->library, "the plugin's file, libtenon-….so").required();
  add_text(command, "--plugin", flags->plugin, "only this one of the file: INTERFACE/ID");
  add_texts(command, "--case", flags->cases,
            "only this case, or all whose names begin so (scheduler); may be repeated");
  add_texts(command, "--option", flags->options,
            "KEY=VALUE: an option that the plugin is made with; may be repeated");
  add_number(command, whole_number("--seed", 0, kMostSeed), flags->seed,
             "of all that is random (default: 1)");
  add_number(command, kTimeLimit, flags->time_limit_seconds,
             "seconds of processor time that a case may take, and that it may sleep (default: 120, "
             "quick 30, long 1200)");
  Option quick = command.add_flag("--quick", flags->quick, "a quarter of the random traffic");
  command.add_flag("--long", flags->very_long, "four times the random traffic").excludes(quick);
  add_text(command, "--fuzz", flags->fuzz,
           "then go on with further seeds for so long, or until something is broken: 60s");
  add_text(command, "--junit", flags->junit, "also write a report as JUnit's XML");
  add_text(command, "--html", flags->html, "also write a report as a page to show");
  command.add_flag("--json", flags->json, "machine-readable output");
  command.add_flag("--alone", flags->alone, "").group("");
  command.callback([flags, &action] { action = [flags] { return check(*flags); }; });
}

}  // namespace tenon
