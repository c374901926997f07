// `tenon compare-arm`, which `tenon compare` starts for each arm: it answers the orders of
// core/compare/arms/orders.h, and ends with its standard input.
#include <signal.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <iostream>
#include <memory>

#include "core/compare/arms/pipeline_arm.h"
#include "core/compare/arms/server_arm.h"
#include "core/compare/comparison.h"
#include "core/routing/router.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/descriptors.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"
#include "tools/tenon/shell/ranks.h"

namespace tenon {
namespace {

struct ArmFlags {
  PipelineFlags pipeline;
  std::string url, served, authorities;
  std::vector<std::string> failures;
  compare::ClusterOf cluster;  // of a simulation
};

void send(const std::string& line) {
  put(line);
  flush_output();
}

int refuse_orders(const Status& status) {
  send(compare::error_line(status));
  return 1;
}

// Whoever asks speaks next, and asks nothing else in the middle of a piece.
Status wait_for_turn() {
  send(compare::waits_line());
  std::string line;
  if (std::getline(std::cin, line) && compare::is_go_on(line)) return {};
  return failed("there is no next turn");
}

int answer_orders(compare::OrderedArm& arm) {
  send(compare::ready_line());
  for (std::string line; std::getline(std::cin, line);) compare::answer_order(arm, line, send);
  return 0;
}

int serve_server(const ArmFlags& flags) {
  allow_descriptors();
  const char* key = std::getenv("TENON_API_KEY");
  const auto arm = compare::ServerArm::open(
      {.url = flags.url, .key = key == nullptr ? "" : key, .authorities = flags.authorities},
      flags.served);
  return arm.ok() ? answer_orders(**arm) : refuse_orders(arm.status());
}

// Machines that go on with answers take a prompt that came over the network in one step, and may
// be of another kind.
PipelineFlags decoding(const ArmFlags& flags, const Pipeline& other) {
  PipelineFlags out = flags.pipeline;
  const SchedulerLimits& limits = other.limits;
  out.overrides.push_back("limits.max_batch_tokens=" +
                          std::to_string(limits.context_tokens + limits.max_sequences));
  if (!flags.cluster.decode_machine.empty()) {
    out.overrides.push_back("executor.machine=" + flags.cluster.decode_machine);
  }
  return out;
}

int serve_pipeline(ArmFlags flags) {
  flags.pipeline.moves_clock = true;
  for (const std::string& text : flags.failures) {
    const auto failure = compare::parse_failure(text);
    if (!failure.ok()) return refuse_orders(failure.status());
    flags.cluster.failures.push_back(*failure);
  }
  std::vector<OpenedPipeline> opened;
  std::vector<Pipeline*> machines;
  const compare::ClusterOf& cluster = flags.cluster;
  for (uint32_t i = 0; i < cluster.machines; ++i) {
    const bool decodes = cluster.prefill > 0 && i >= cluster.prefill;
    Result<OpenedPipeline> machine =
        open_pipeline(decodes ? decoding(flags, *machines.front()) : flags.pipeline);
    if (!machine.ok()) return refuse_orders(machine.status());
    opened.push_back(*std::move(machine));
    machines.push_back(opened.back().pipeline.get());
  }
  if (!parse_routing(cluster.routing)) {
    return refuse_orders(invalid_argument("a routing that is none"));
  }
  compare::PipelineArm arm(
      machines, cluster.plan(), [](const std::string& note) { tell("note: " + note); },
      wait_for_turn);
  return answer_orders(arm);
}

int serve(const ArmFlags& flags) {
  // It must not outlive the program that asks it, however that ended.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return flags.url.empty() ? serve_pipeline(flags) : serve_server(flags);
}

}  // namespace

void add_compare_arm_command(Command app, Action& action) {
  auto flags = std::make_shared<ArmFlags>();
  Command command = app.add_subcommand("compare-arm", "An arm of `tenon compare`; it starts them");
  command.hide();
  flags->pipeline.add_to(command);
  add_launch(command);
  add_text(command, "--url", flags->url, "a running server in place of a pipeline");
  add_text(command, "--served", flags->served, "its model");
  add_text(command, "--authorities", flags->authorities, "whose certificates are believed");
  add_number(command, whole_number("--machines", 1, 1024), flags->cluster.machines,
             "of a simulation");
  add_text(command, "--routing", flags->cluster.routing, "to them");
  add_number(command, whole_number("--prefill", 0, 1023), flags->cluster.prefill,
             "of them, for prompts alone");
  add_text(command, "--decode-machine", flags->cluster.decode_machine, "what the others are");
  add_texts(command, "--failure", flags->failures, "of one of them: 2@30s/10s");
  command.callback([flags, &action] { action = [flags] { return serve(*flags); }; });
}

}  // namespace tenon
