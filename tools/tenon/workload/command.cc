// `tenon workload`: published traces as workloads.
#include <memory>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/base/sha256.h"
#include "core/workload/published_trace.h"
#include "core/workload/workload.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

struct TraceFlags {
  std::string file, out;
  TraceCut cut;
};

Status convert_trace(const TraceFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const TraceWorkload made, read_trace(flags.file, flags.cut));
  // What is written must be read again.
  TENON_ASSIGN_OR_RETURN(const Workload read, parse_workload(made.toml, flags.file));
  static_cast<void>(read);
  if (flags.out.empty()) {
    put(made.toml);
  } else {
    TENON_RETURN_IF_ERROR(write_file(flags.out, {made.toml}));
  }
  say(std::to_string(made.requests) + " requests (left out: " + std::to_string(made.empty) +
      " without prompt or answer, " + std::to_string(made.too_long) + " too long), sha256 " +
      sha256_hex(made.toml).substr(0, 12));
  return {};
}

void add_trace(Command workload, Action& action) {
  auto flags = std::make_shared<TraceFlags>();
  Command command = workload.add_subcommand(
      "trace", "Write a published trace (Azure and BurstGPT csv, Mooncake jsonl) as a workload");
  add_text(command, "file", flags->file, "the trace").required();
  add_number(command, whole_number("--limit", 1, 1'000'000), flags->cut.limit,
             "requests at most (default: all)");
  add_number(command, whole_number("--skip", 0, 1'000'000'000), flags->cut.skip,
             "leave out the first N (default: 0)");
  add_number(command, real_number("--scale", 1e-6, 1e6), flags->cut.scale,
             "arrivals so many times as fast (default: 1)");
  add_number(command, real_number("--length-scale", 1e-6, 1e3), flags->cut.length_scale,
             "prompts and answers so many times as long (default: 1)");
  add_number(command, whole_number("--context", 2, kMostParameterTokens), flags->cut.context_tokens,
             "leave out what is longer, prompt and answer together");
  add_text(command, "--out", flags->out, "the workload's file (default: standard output)");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = convert_trace(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace

void add_workload_command(Command app, Action& action) {
  Command command = app.add_subcommand("workload", "Make workloads to measure with");
  command.require_subcommand();
  add_trace(command, action);
}

}  // namespace tenon
