// `tenon workload`: published traces, and traffic of made-up clients, as workloads.
#include <memory>

#include "core/base/digest/sha256.h"
#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/workload/clients.h"
#include "core/workload/published_trace.h"
#include "core/workload/request_list.h"
#include "core/workload/workload.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/outputs.h"

namespace tenon {
namespace {

struct TraceFlags {
  std::string file, out;
  TraceCut cut;
};

Status convert_trace(const TraceFlags& flags) {
  if (!flags.out.empty()) TENON_RETURN_IF_ERROR(check_output(flags.out, {flags.file}));
  TENON_ASSIGN_OR_RETURN(const TraceWorkload made, read_trace(flags.file, flags.cut));
  if (made.toml.size() > kMostWorkloadText) {
    return invalid_argument(path_in_quotes(flags.file) + " has " + std::to_string(made.requests) +
                            " requests, which no workload file has room for; take a part of them "
                            "(--limit N), or simulate the trace as it is: `tenon simulate "
                            "--workload FILE`");
  }
  // What is written must be read again.
  TENON_RETURN_IF_ERROR(parse_request_list(made.toml, flags.file).take_status());
  if (flags.out.empty()) {
    put(made.toml);
  } else {
    TENON_RETURN_IF_ERROR(write_file(flags.out, {made.toml}));
  }
  if (!made.order_note.empty()) say(made.order_note);
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

struct ClientFlags {
  ClientTraffic traffic;
  std::string out;
};

Status make_clients(const ClientFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::string toml, client_workload(flags.traffic));
  // What is written must be read again.
  TENON_ASSIGN_OR_RETURN(const RequestList read, parse_request_list(toml, "the clients' workload"));
  if (flags.out.empty()) {
    put(toml);
  } else {
    TENON_RETURN_IF_ERROR(write_file(flags.out, {toml}));
  }
  say(std::to_string(read.size()) + " requests, sha256 " + sha256_hex(toml).substr(0, 12));
  return {};
}

void add_clients(Command workload, Action& action) {
  auto flags = std::make_shared<ClientFlags>();
  ClientTraffic& traffic = flags->traffic;
  Command command = workload.add_subcommand(
      "clients", "Write traffic of clients that differ: a few send most, in bursts or in turns");
  add_number(command, whole_number("--clients", 1, 10'000), traffic.clients, "(default: 20)");
  add_number(command, real_number("--rate", 1e-3, 1e6), traffic.rate,
             "requests a second of all together (default: 4)");
  add_number(command, real_number("--seconds", 1, 1e6), traffic.seconds,
             "of arrivals (default: 60)");
  add_number(command, real_number("--skew", 0, 5), traffic.skew,
             "of their rates: the n-th sends as 1/n^skew (default: 1)");
  add_number(command, whole_number("--prompt-tokens", 1, 1 << 20), traffic.prompt_tokens,
             "of a prompt on average (default: 512)");
  add_number(command, whole_number("--answer-tokens", 1, 1 << 20), traffic.answer_tokens,
             "of an answer on average (default: 256)");
  add_number(command, real_number("--difference", 0, 3), traffic.difference,
             "of clients' means, as a deviation of the logarithm (default: 0.5)");
  add_number(command, real_number("--spread", 0, 3), traffic.spread,
             "of a client's lengths, likewise (default: 0.6)");
  add_number(command, real_number("--burstiness", 0.01, 1), traffic.burstiness,
             "of the client with the tightest bursts; 1 is a Poisson process (default: 0.5)");
  add_number(command, whole_number("--turns", 1, 1000), traffic.turns,
             "of a conversation or an agent's run (default: 1)");
  add_number(command, whole_number("--turn-tokens", 1, 1 << 20), traffic.turn_tokens,
             "that each further turn adds on average (default: 256)");
  add_number(command, real_number("--think", 0, 1e5), traffic.think_seconds,
             "seconds between the arrivals of two turns (default: 2)");
  add_number(command, whole_number("--prefix-tokens", 0, 1 << 20), traffic.prefix_tokens,
             "before each prompt that a client's requests share (default: 0)");
  add_number(command, whole_number("--seed", 0, INT64_MAX), traffic.seed, "(default: 1)");
  add_text(command, "--out", flags->out, "the workload's file (default: standard output)");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = make_clients(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace

void add_workload_command(Command app, Action& action) {
  Command command = app.add_subcommand("workload", "Make workloads to measure with");
  command.require_subcommand();
  add_trace(command, action);
  add_clients(command, action);
}

}  // namespace tenon
