#include "tools/tenon/compare/host.h"

#include <cstdio>

#include "core/base/clock.h"
#include "core/base/machine/cpu_features.h"
#include "core/base/machine/host_facts.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/compare/arms/remote_arm.h"
#include "core/exec/cpu/limits/machine_limits.h"
#include "core/parallel/mpi/launch_line.h"
#include "tools/tenon/process/child_process.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/pipeline_flags.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

using compare::Comparison;
using compare::ComparisonArm;

constexpr double kStateSeconds = 0.05;  // spent on the machine's state between two pieces

class ProcessChannel final : public compare::LineChannel {
 public:
  explicit ProcessChannel(ChildProcess process) : process_(std::move(process)) {}

  Status write_line(std::string_view line) override { return process_.write_line(line); }
  Result<std::optional<std::string>> read_line(const std::function<bool()>& go_on) override {
    return process_.read_line(go_on);
  }

 private:
  ChildProcess process_;
};

std::vector<std::string> command_of(const Comparison& comparison, const ComparisonArm& arm,
                                    const std::vector<std::string>& plugin_path) {
  std::vector<std::string> command = {arm.program, "compare-arm"};
  if (command[0].empty()) command[0] = program_folder() + "/tenon";
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  };
  if (!arm.url.empty()) {
    add("--url", arm.url);
    add("--served", arm.model);
    if (arm.url.starts_with("https://")) add("--authorities", comparison.authorities);
    return command;
  }
  add("--config", comparison.base);
  // Where the base is a server, its model is a name there.
  add("--model", arm.model.empty() && comparison.url.empty() ? comparison.model : arm.model);
  const compare::ClusterOf& cluster = arm.cluster;
  if (cluster.machines > 1) {
    add("--machines", std::to_string(cluster.machines));
    add("--routing", cluster.routing);
  }
  if (cluster.prefill > 0) add("--prefill", std::to_string(cluster.prefill));
  add("--decode-machine", cluster.decode_machine);
  for (const compare::MachineFailure& each : cluster.failures) {
    add("--failure", compare::failure_text(each));
  }
  for (const std::string& folder : plugin_path) add("--plugin-path", folder);
  for (const auto* settings : {&comparison.set, &arm.set}) {
    for (const std::string& setting : *settings) add("--set", setting);
  }
  return command;
}

// Of [parallel]; 1 where the arm's configuration cannot be read, which the arm then says.
uint32_t processes_of(const Comparison& comparison, const ComparisonArm& arm) {
  PipelineFlags flags;
  flags.config = comparison.base;
  for (const auto* settings : {&comparison.set, &arm.set}) {
    flags.overrides.insert(flags.overrides.end(), settings->begin(), settings->end());
  }
  const Result<PipelineConfig> config = load_config(flags);
  return config.ok() && config->executor.value != "sim" ? config->processes() : 1;
}

}  // namespace

Result<std::unique_ptr<compare::Arm>> ProgramHost::start(const ComparisonArm& arm,
                                                         std::function<bool()> go_on) {
  if (!arm.program.empty() && !is_there(arm.program)) {
    return not_found("arm " + in_quotes(arm.name) + ": " + path_in_quotes(arm.program) +
                     " is not there – expected another build of this program");
  }
  std::vector<std::string> command = command_of(comparison_, arm, plugin_path_);
  const uint32_t ranks = arm.url.empty() ? processes_of(comparison_, arm) : 1;
  if (ranks > 1) {
    Result<std::vector<std::string>> line = launcher(ranks);
    if (!line.ok()) return with_context("arm " + in_quotes(arm.name), line.status());
    command.insert(command.begin(), line->begin(), line->end());
  }
  Result<ChildProcess> process = ChildProcess::start(command);
  if (!process.ok()) return with_context("arm " + in_quotes(arm.name), process.status());
  return compare::RemoteArm::start(std::make_unique<ProcessChannel>(*std::move(process)), arm.name,
                                   std::move(go_on));
}

MachineState ProgramHost::machine_state() {
  if (!simulated_.words.empty()) return simulated_.state;
  const HostFacts host = host_facts();
  const MachineLimits limits = measure_machine_limits(host.cpu, host.workers, kStateSeconds);
  return {.read_gbps = limits.read_median_gbps,
          .fma_gflops = limits.fma_flops * 1e-9,
          .bf16_gflops = limits.bf16_flops * 1e-9,
          .int8_gops = limits.int8_ops * 1e-9,
          .processor_share = limits.processor_share};
}

std::string ProgramHost::machine_name() {
  if (!simulated_.words.empty()) return "simulated: " + simulated_.words;
  return cpu_brand() + ", " + std::to_string(host_facts().workers) + " processors";
}

int64_t ProgramHost::now_ns() {
  return WallClock().now_ns();
}

std::string ProgramHost::interrupted_by() {
  return interrupted() ? interrupt_name() : "";
}

void ProgramHost::tell(const std::string& line) {
  if (!quiet_) say(line);
}

bool ProgramHost::shows_progress() {
  return !quiet_ && stderr_is_terminal();
}

// One line on a terminal, overwritten; nothing elsewhere.
void ProgramHost::show_progress(const std::string& line) {
  if (!shows_progress()) return;
  std::fprintf(stderr, "\r\033[K%.200s", line.c_str());
  std::fflush(stderr);
}

}  // namespace tenon
