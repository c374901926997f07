#include "tools/tenon/compare/simulate.h"

#include <algorithm>

#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/arms/pipeline_arm.h"
#include "core/compare/replay/recorded_run.h"
#include "core/sim/machine_file.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/pipeline_flags.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

using compare::Comparison;
using compare::ComparisonArm;

constexpr std::string_view kMachineKey = "executor.machine=";
// Without random arrivals every block is the same; fewer give no interval.
constexpr uint32_t kEqualPairs = 4;
// Arrivals that are drawn are the only chance in a simulation.
constexpr uint32_t kDrawnPairs = 20;

Result<std::string> machines_folder() {
  TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
  return data + "/configs/machines";
}

MachineState state_of(const sim::Machine& machine) {
  const auto rate_of = [&](std::string_view format) {
    const sim::ProductRate* rate = machine.find(format);
    return rate == nullptr ? 0 : rate->operations * 1e-9;
  };
  return {.read_gbps = machine.bandwidth * 1e-9,
          .fma_gflops = machine.attention_operations * 1e-9,
          .bf16_gflops = rate_of("bf16"),
          .int8_gops = rate_of("q8_0")};
}

Status refuse_real(const std::string& arm, const std::string& what) {
  return unsupported("arm " + in_quotes(arm) + " is " + what +
                     ", which cannot be simulated; `tenon compare` runs it");
}

Status refuse_executor(const std::vector<std::string>& set) {
  constexpr std::string_view kKey = "executor.plugin=";
  for (const std::string& setting : set) {
    if (!setting.starts_with(kKey) || setting.substr(kKey.size()) == "sim") continue;
    return invalid_argument(in_quotes(setting) +
                            " is set, and a simulation has the executor \"sim\"; leave it out, or "
                            "use `tenon compare`");
  }
  return {};
}

// A model's weights in another type are a format here: nothing is written.
Status simulate_arm(ComparisonArm& arm) {
  if (!arm.url.empty()) return refuse_real(arm.name, "a running server");
  if (!arm.program.empty()) return refuse_real(arm.name, "another build of the program");
  TENON_RETURN_IF_ERROR(refuse_executor(arm.set));
  if (arm.weights.empty()) return {};
  arm.set.push_back("executor.weights=" + arm.weights);
  arm.weights.clear();
  return {};
}

}  // namespace

Status simulate_arms(const CompareFlags& flags, Comparison& comparison) {
  if (!comparison.url.empty()) return refuse_real(comparison.base_name, "a running server");
  TENON_RETURN_IF_ERROR(refuse_executor(comparison.set));
  TENON_RETURN_IF_ERROR(compare::take_cluster(comparison.set, comparison.cluster));
  for (ComparisonArm& arm : comparison.arms) {
    TENON_RETURN_IF_ERROR(simulate_arm(arm));
    arm.cluster = comparison.cluster;
    TENON_RETURN_IF_ERROR(compare::take_cluster(arm.set, arm.cluster));
    TENON_RETURN_IF_ERROR(check_cluster(arm.cluster));
  }
  TENON_RETURN_IF_ERROR(check_cluster(comparison.cluster));
  if (!flags.machine.empty()) comparison.machine = flags.machine;
  if (comparison.machine.empty()) {
    TENON_ASSIGN_OR_RETURN(const std::string folder, machines_folder());
    return invalid_argument(
        "no machine is named; write --machine NAME, or machine = \"NAME\" in "
        "the file; there are " +
        join(sim::machine_names(folder)) +
        ", and `tenon calibrate` writes a file for this machine");
  }
  comparison.set.push_back("executor.plugin=sim");
  comparison.set.push_back(std::string(kMachineKey) + comparison.machine);
  const uint32_t pairs = comparison.rate > 0 ? kDrawnPairs : kEqualPairs;
  if (!flags.pairs) comparison.pairs = std::min(comparison.pairs, pairs);
  return {};
}

Result<SimulatedMachine> simulated_machine_of(const Comparison& comparison) {
  TENON_ASSIGN_OR_RETURN(const std::string folder, machines_folder());
  std::vector<std::string> names = {comparison.machine}, words;
  for (const ComparisonArm& arm : comparison.arms) {
    for (const std::string& setting : arm.set) {
      if (setting.starts_with(kMachineKey)) names.push_back(setting.substr(kMachineKey.size()));
    }
    if (!arm.cluster.decode_machine.empty()) names.push_back(arm.cluster.decode_machine);
  }
  SimulatedMachine out;
  for (const std::string& name : names) {
    TENON_ASSIGN_OR_RETURN(const sim::Machine machine, sim::read_machine(name, folder));
    const std::string text = machine.words();
    if (std::ranges::find(words, text) != words.end()) continue;
    words.push_back(text);
    out.state = words.size() == 1 ? state_of(machine) : MachineState();
  }
  out.words = join_and(words);
  return out;
}

Result<int> follow_recorded(const CompareFlags& flags, uint32_t arm) {
  const std::string number = std::to_string(arm), folder = flags.folders.at(0);
  if (!is_there(folder + "/views" + number + ".jsonl")) {
    return not_found(path_in_quotes(folder) + " has no record of arm " + number +
                     " – expected a folder of `tenon compare --record` – record one, and name "
                     "its folder (--follow) and the arm (--of)");
  }
  PipelineFlags pipeline;
  pipeline.config = folder + "/arm" + number + ".toml";
  pipeline.overrides = {"executor.plugin=sim"};
  if (!flags.machine.empty()) {
    pipeline.overrides.push_back(std::string(kMachineKey) + flags.machine);
  }
  pipeline.overrides.insert(pipeline.overrides.end(), flags.settings.begin(), flags.settings.end());
  pipeline.plugin_path = flags.plugin_path;
  pipeline.moves_clock = true;
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(pipeline));
  TENON_ASSIGN_OR_RETURN(const std::string workload, compare::kept_workload(folder));
  TENON_ASSIGN_OR_RETURN(
      const compare::ReplayWork work,
      compare::read_replay_work(*opened.pipeline, workload, flags.max_tokens.value_or(64)));
  TENON_ASSIGN_OR_RETURN(
      const compare::ReplayedViews found,
      compare::follow_run(*opened.pipeline, work, folder + "/views" + number + ".jsonl"));
  putf("%llu plans are alike%s\n", static_cast<unsigned long long>(found.plans),
       found.differ ? ", then the first line that is not:" : ": every one, and all that was seen");
  for (const std::string& line : found.lines) put(printable(line) + "\n");
  return found.differ ? 1 : 0;
}

}  // namespace tenon
