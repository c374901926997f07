// `tenon plan`: which machines, how many of them, and which strategies hold a goal at least cost.
#include <tenon/abi_generated.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/new_file.h"
#include "core/base/machine/host_facts.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/capacity/plan.h"
#include "core/model/synth/named_shapes.h"
#include "core/report/pages/format.h"
#include "core/sim/machine_file.h"
#include "core/workload/draw.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/plan/replicas.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/process/typed_command.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/outputs.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

using capacity::Candidate;
using capacity::FoundFleet;
using capacity::Plan;

constexpr double kSpread = 0.8;         // of the logarithm of drawn lengths
constexpr double kLongest = 8;          // times the mean, of drawn lengths
constexpr double kLeastSeconds = 30;    // of traffic
constexpr double kMostDrawn = 200'000;  // requests that follow from these seconds

struct PlanFlags {
  std::string model, slo, workload, base, out, routing = "least_load", budget = "10min";
  std::vector<std::string> machines, tensor, weights, dtypes, schedulers, kv_caches, batch_tokens,
      prices, settings, plugin_path;
  double rate = 0, memory_share = 0.9;
  uint32_t prompt_tokens = 512, answer_tokens = 256, requests = 600, most = 64, threads = 0,
           max_sequences = 256;
  uint64_t seed = 1;
  bool json = false, quiet = false, whole_probes = false;
};

// "a,b" and "c" are a, b and c; of none what there is by default.
std::vector<std::string> listed(const std::vector<std::string>& texts,
                                std::vector<std::string> otherwise) {
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    for (const std::string_view part : split(text, ',')) {
      const std::string entry(trim(part));
      if (!entry.empty() && std::ranges::find(out, entry) == out.end()) out.push_back(entry);
    }
  }
  return out.empty() ? std::move(otherwise) : out;
}

Result<std::vector<uint32_t>> numbers_of(const char* flag, const std::vector<std::string>& texts,
                                         std::vector<std::string> otherwise, int64_t most) {
  std::vector<uint32_t> out;
  for (const std::string& text : listed(texts, std::move(otherwise))) {
    const WrittenNumber written = written_number(text);
    const std::string fault = number_fault(whole_number(flag, 1, most), written);
    if (!fault.empty()) return invalid_argument(fault);
    out.push_back(static_cast<uint32_t>(std::get<int64_t>(written)));
  }
  return out;
}

Result<std::string> machines_folder() {
  TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
  return data + "/configs/machines";
}

// "h100=2.20" in place of the file's price.
Status take_prices(const std::vector<std::string>& prices, std::vector<sim::Machine>& machines) {
  for (const std::string& text : prices) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == text.npos) {
      return invalid_argument("--price " + in_quotes(text) +
                              " has no price; expected NAME=PRICE, such as h100=2.50");
    }
    const auto found = std::ranges::find(machines, name, &sim::Machine::name);
    if (found == machines.end()) {
      return invalid_argument("--price " + in_quotes(text) +
                              " names no machine of this plan; expected NAME=PRICE, such as "
                              "h100=2.50");
    }
    const WrittenNumber written = written_number(text.substr(equals + 1));
    const std::string fault = number_fault(real_number("--price", 1e-6, 1e6), written);
    if (!fault.empty()) return invalid_argument(fault);
    if (found->price.source == "--price") {
      return invalid_argument("--price says what " + in_quotes(name) + " costs twice – keep one");
    }
    found->price.hour = as_real(written);
    found->price.source = "--price";
  }
  return {};
}

Result<std::vector<sim::Machine>> machines_of(const PlanFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::string folder, machines_folder());
  std::vector<sim::Machine> out;
  for (const std::string& name : listed(flags.machines, sim::machine_names(folder))) {
    TENON_ASSIGN_OR_RETURN(sim::Machine machine, sim::read_machine(name, folder));
    out.push_back(std::move(machine));
  }
  TENON_RETURN_IF_ERROR(take_prices(flags.prices, out));
  return out;
}

// What is said twice is tried once; what is left empty ("1,,2") was meant to say something.
Status check_lists(const PlanFlags& flags) {
  const std::pair<std::string_view, const std::vector<std::string>*> lists[] = {
      {"--machine", &flags.machines},         {"--tensor", &flags.tensor},
      {"--weights", &flags.weights},          {"--kv-dtype", &flags.dtypes},
      {"--scheduler", &flags.schedulers},     {"--kv-cache", &flags.kv_caches},
      {"--batch-tokens", &flags.batch_tokens}};
  for (const auto& [flag, texts] : lists) {
    for (const std::string& text : *texts) {
      if (list_entries(text)) continue;
      return invalid_argument(std::string(flag) + " is " + in_quotes(text) +
                              ", which has an empty entry – write what it is, or leave it out");
    }
  }
  return {};
}

Result<capacity::SearchSpace> space_of(const PlanFlags& flags) {
  TENON_RETURN_IF_ERROR(check_lists(flags));
  capacity::SearchSpace space;
  TENON_ASSIGN_OR_RETURN(space.machines, machines_of(flags));
  TENON_ASSIGN_OR_RETURN(space.ranks,
                         numbers_of("--tensor", flags.tensor, {"1", "2", "4", "8"}, 64));
  TENON_ASSIGN_OR_RETURN(space.batch_tokens, numbers_of("--batch-tokens", flags.batch_tokens,
                                                        {"512", "2048"}, 1 << 20));
  space.weights = listed(flags.weights, {""});
  space.dtypes = listed(flags.dtypes, {"bf16"});
  space.schedulers = listed(flags.schedulers, {"chunked"});
  space.kv_caches = listed(flags.kv_caches, {"paged"});
  return space;
}

// A shape may be named by its end: "70b" is the first one that ends in "-70b".
std::string model_of(const std::string& given) {
  if (is_there(given)) return given;
  std::string name = given;
  if (name.ends_with("-shape")) name.resize(name.size() - 6);
  for (const NamedShape& shape : named_shapes()) {
    if (shape.name == name) return name;
  }
  for (const NamedShape& shape : named_shapes()) {
    if (shape.name.ends_with("-" + name)) return std::string(shape.name);
  }
  return given;
}

// Lengths are drawn in the order of requests, so that more of them begin as fewer do.
std::vector<Prompt> drawn_prompts(const PlanFlags& flags, size_t count) {
  WorkloadDraw draw(flags.seed);
  const auto lengths = [](uint32_t mean) {
    return LengthDistribution{.mean = static_cast<double>(mean),
                              .spread = kSpread,
                              .min = 1,
                              .max = static_cast<uint32_t>(kLongest * mean)};
  };
  std::vector<Prompt> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i].drawn = {{.stream = flags.seed * 1'000'003 + i,
                     .tokens = draw.length(lengths(flags.prompt_tokens))}};
    out[i].answer.max_tokens = draw.length(lengths(flags.answer_tokens));
    out[i].answer.ignore_eos = true;
  }
  return out;
}

struct Traffic {
  std::vector<Prompt> prompts;
  std::string words;
  uint32_t context_tokens = 0;
};

Result<Traffic> traffic_of(const PlanFlags& flags) {
  Traffic out;
  if (flags.workload.empty()) {
    const double least = std::min(std::ceil(kLeastSeconds * flags.rate), kMostDrawn);
    const auto count = std::max<size_t>(flags.requests, static_cast<size_t>(least));
    out.prompts = drawn_prompts(flags, count);
    out.words = format("%zu requests with prompts of %u and answers of %u tokens on average", count,
                       flags.prompt_tokens, flags.answer_tokens);
  } else {
    TENON_ASSIGN_OR_RETURN(out.prompts,
                           compare::read_replay_prompts(flags.workload, flags.answer_tokens, 0));
    for (Prompt& prompt : out.prompts) prompt.arrival_ns = 0;
    out.words = std::to_string(out.prompts.size()) + " requests of " + flags.workload;
  }
  out.words += ", random arrivals";
  uint64_t longest = 2;
  for (const Prompt& prompt : out.prompts) {
    // A text's tokens are known to its pipeline alone; it has fewer of them than bytes.
    const uint64_t tokens = prompt.tokens           ? prompt.tokens->size()
                            : !prompt.drawn.empty() ? tokens_of(prompt.drawn)
                                                    : prompt.text.size() + 8;
    longest = std::max(longest, tokens + prompt.answer.max_tokens.value_or(1));
  }
  out.context_tokens = static_cast<uint32_t>(std::min<uint64_t>((longest + 15) / 16 * 16, 1 << 24));
  return out;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

class Planner {
 public:
  Planner(const PlanFlags& flags, const PlanWork& work, int64_t until_ns)
      : flags_(flags), work_(work), until_ns_(until_ns) {}

  // Every candidate is searched by one thread; what is found of it does not depend on which.
  std::vector<FoundFleet> search(const std::vector<Candidate>& candidates, uint32_t threads) {
    std::vector<FoundFleet> out(candidates.size());
    std::atomic<size_t> next = 0;
    {
      std::vector<std::jthread> workers;
      for (uint32_t i = 0; i < threads; ++i) {
        workers.emplace_back([&] {
          for (size_t at = next++; at < candidates.size(); at = next++) {
            out[at] = search_one(candidates[at]);
          }
        });
      }
    }
    return out;
  }

  const std::string& model_words() const { return model_words_; }
  // Why none of `candidates` could be made, where that is one reason: no matter of machines then.
  Status same_fault(size_t candidates) const {
    if (unmade_.size() < candidates) return {};
    for (const std::string& each : unmade_) {
      if (each != unmade_.front()) return {};
    }
    return invalid_argument(unmade_.front());
  }

 private:
  FoundFleet search_one(const Candidate& candidate) {
    FoundFleet refused{.candidate = candidate};
    if (candidate.weights.empty()) refused.candidate.weights = "as they are";
    if (!go_on()) {
      refused.refused = "time was up before it was looked at";
      refused.unfinished = true;
      return refused;
    }
    auto replicas = SimulatedReplicas::open(work_, candidate, opening_);
    if (!replicas.ok()) {
      refused.refused = message_of(replicas.status());
      if (replicas.status().code() == StatusCode::out_of_memory) return refused;  // of this machine
      const std::scoped_lock lock(telling_);
      unmade_.push_back(refused.refused);
      return refused;
    }
    note(**replicas);
    Candidate named = candidate;
    named.weights = (*replicas)->weights();
    auto found = capacity::find_replicas(named, **replicas, work_.goal,
                                         {.most_replicas = flags_.most,
                                          .whole_probes = flags_.whole_probes,
                                          .go_on = [this] { return go_on(); }});
    if (found.ok()) {
      say_found(*found);
      return *std::move(found);
    }
    refused.refused = message_of(found.status());
    return refused;
  }

  bool go_on() const { return !interrupted() && clock_.now_ns() < until_ns_; }

  void note(const SimulatedReplicas& replicas) {
    const std::scoped_lock lock(telling_);
    model_words_ = replicas.model_words();
  }

  void say_found(const FoundFleet& found) {
    if (flags_.quiet) return;
    const std::scoped_lock lock(telling_);
    say(found.candidate.name() + ": " +
        (found.refused.empty() ? capacity::fleet_of(found) : found.refused));
  }

  const PlanFlags& flags_;
  const PlanWork& work_;
  const int64_t until_ns_;
  const WallClock clock_;
  std::mutex opening_, telling_;
  std::string model_words_;
  std::vector<std::string> unmade_;
};

Status write_plan(const Plan& plan, const std::string& folder) {
  const auto file = [&](const char* name) { return folder + "/" + name; };
  TENON_RETURN_IF_ERROR(write_file(file("plan.json"), {json_text(capacity::plan_json(plan))}));
  TENON_RETURN_IF_ERROR(write_file(file("plan.html"), {capacity::plan_page(plan)}));
  if (plan.cheapest() == nullptr) return {};
  return write_file(file("plan.svg"), {svg_file(capacity::plan_picture(plan),
                                                plan.model + ", " + plan.goal.words())});
}

Result<PlanWork> work_of(const PlanFlags& flags, Traffic& traffic) {
  PlanWork work{.base = flags.base,
                .model = model_of(flags.model),
                .settings = flags.settings,
                .plugin_path = flags.plugin_path,
                .prompts = std::move(traffic.prompts),
                .context_tokens = traffic.context_tokens,
                .max_sequences = flags.max_sequences,
                .memory_share = flags.memory_share,
                .seed = flags.seed};
  TENON_ASSIGN_OR_RETURN(work.goal, capacity::parse_goal(flags.slo));
  work.goal.rate = flags.rate;
  const auto routing = parse_routing(flags.routing);
  if (!routing) {
    return invalid_argument(in_quotes(flags.routing) +
                            " is no routing; expected round_robin, least_load, prefix or session");
  }
  work.routing = *routing;
  return work;
}

Result<int> plan_machines(const PlanFlags& flags, const std::string& command) {
  const auto budget = parse_duration_ns(flags.budget);
  if (!budget || *budget <= 0) {
    return invalid_argument("--budget " + in_quotes(flags.budget) +
                            " is no time such as 10min or 90s");
  }
  TENON_ASSIGN_OR_RETURN(const capacity::SearchSpace space, space_of(flags));
  TENON_ASSIGN_OR_RETURN(Traffic traffic, traffic_of(flags));
  TENON_ASSIGN_OR_RETURN(const PlanWork work, work_of(flags, traffic));
  const std::vector<Candidate> candidates = capacity::candidates_of(space);
  if (candidates.empty()) {
    return invalid_argument(
        "no machine's link joins so many as --tensor says; leave it out, or add "
        "[joined] to a machine's file");
  }
  if (!flags.out.empty()) TENON_RETURN_IF_ERROR(make_output_folder(flags.out));
  Planner planner(flags, work, WallClock().now_ns() + *budget);
  const uint32_t threads = flags.threads > 0 ? flags.threads : host_facts().workers;
  Plan plan{.goal = work.goal,
            .traffic = traffic.words,
            .routing = flags.routing,
            .command = command,
            .version = TENON_SDK_VERSION,
            .date = utc_now(),
            .seed = flags.seed,
            .memory_share = flags.memory_share};
  plan.findings = planner.search(candidates, threads);
  if (interrupted()) return interrupted_status();
  TENON_RETURN_IF_ERROR(planner.same_fault(candidates.size()));
  plan.model = planner.model_words().empty() ? work.model : planner.model_words();
  plan.out_of_time = std::ranges::any_of(plan.findings, &FoundFleet::unfinished);
  capacity::rank_findings(plan.findings, plan.goal);
  put(flags.json ? json_text(capacity::plan_json(plan))
                 : printable(capacity::plan_text(plan), size_t{1} << 20));
  if (!flags.out.empty()) {
    TENON_RETURN_IF_ERROR(write_plan(plan, flags.out));
    if (!flags.quiet) say("results: " + flags.out);
  }
  return plan.cheapest() == nullptr ? 1 : 0;
}

void add_space_flags(Command command, PlanFlags& flags) {
  add_texts(command, "--machine", flags.machines,
            "machines to look at, names or files (default: all of configs/machines)");
  add_texts(command, "--tensor", flags.tensor,
            "machines that compute together (default: 1,2,4,8, as far as links join them)");
  add_texts(command, "--weights", flags.weights,
            "formats of the weights: bf16,q8_0 (default: as they are, bf16 of a shape)");
  add_texts(command, "--kv-dtype", flags.dtypes, "types of K and V: bf16,i8 (default: bf16)");
  add_texts(command, "--scheduler", flags.schedulers, "schedulers (default: chunked)");
  add_texts(command, "--kv-cache", flags.kv_caches, "KV managers (default: paged)");
  add_texts(command, "--batch-tokens", flags.batch_tokens,
            "tokens of a step at most (default: 512,2048)");
  add_texts(command, "--price", flags.prices,
            "NAME=PRICE of a machine for an hour, such as h100=2.5");
  add_number(command, whole_number("--most", 1, 1024), flags.most,
             "replicas at most (default: 64)");
}

void add_traffic_flags(Command command, PlanFlags& flags) {
  add_number(command, real_number("--rate", 1e-3, 1e6), flags.rate, "requests a second").required();
  add_text(command, "--slo", flags.slo, "the goal: ttft=500ms,gap=50ms,share=0.9").required();
  Option drawn = add_number(command, whole_number("--prompt-tokens", 1, 1 << 20),
                            flags.prompt_tokens, "of a drawn prompt on average (default: 512)");
  add_number(command, whole_number("--answer-tokens", 1, 1 << 20), flags.answer_tokens,
             "of an answer on average (default: 256)");
  add_text(command, "--workload", flags.workload,
           "requests instead: a workload's TOML file, a published trace or prompts; "
           "arrivals stay random")
      .excludes(drawn);
  add_number(command, whole_number("--requests", 50, 1'000'000), flags.requests,
             "of a probe, or those of 30 seconds (default: 600)");
  add_text(command, "--routing", flags.routing,
           "to replicas: round_robin, least_load, prefix or session (default: least_load)");
  add_number(command, whole_number("--seed", 0, INT64_MAX), flags.seed,
             "of lengths and arrivals (default: 1)");
}

}  // namespace

void add_plan_command(Command app, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  Command command = app.add_subcommand(
      "plan", "Say which machines, and how many, hold a goal at least cost, by simulation");
  add_text(command, "--model", flags->model,
           "a model, or a shape's name or its end (llama-3.1-8b, 70b, 30b-a3b)")
      .required();
  add_traffic_flags(command, *flags);
  add_space_flags(command, *flags);
  add_number(command, real_number("--memory-share", 0.1, 1), flags->memory_share,
             "of a machine's memory that weights, K and V take (default: 0.9)");
  add_number(command, whole_number("--max-sequences", 1, 1 << 16), flags->max_sequences,
             "that a replica runs at once (default: 256)");
  add_text(command, "--base", flags->base, "pipeline file (default: the bundled one)");
  add_texts(command, "--set", flags->settings, "override a value in all candidates");
  add_texts(command, "--plugin-path", flags->plugin_path, "look for plugins here first");
  add_text(command, "--budget", flags->budget,
           "time at most; what was not searched then is named (default: 10min)");
  add_number(command, whole_number("--threads", 1, 1024), flags->threads,
             "that search (default: all cores)");
  add_text(command, "--out", flags->out, "folder for plan.json, plan.html and plan.svg");
  command.add_flag("--whole-probes", flags->whole_probes,
                   "simulate also what cannot hold the goal any more to its end; the plan is the "
                   "same, later");
  command.add_flag("--json", flags->json, "print the plan as JSON");
  command.add_flag("--quiet", flags->quiet, "no progress, nothing but the result");
  command.callback([flags, &action] {
    action = [flags] {
      const Result<int> status = plan_machines(*flags, typed_command());
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
