// `tenon load`: a workload to a running server, and what that came to.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/files/new_file.h"
#include "core/base/machine/run_queue.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/report/sweep_json.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/load/rows.h"
#include "tools/tenon/load/sweeps.h"
#include "tools/tenon/process/descriptors.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/outputs.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

struct LoadFlags {
  std::string url, authorities, workload, prompts, rows;
  std::string sweep, name, charts;  // charts: a folder for pictures of the sweep
  std::vector<std::string> beside;  // sweeps to show with it
  LoadWork work;
  uint32_t in_flight = 0;
  double connect_s = 10, silence_s = 300, timeout_s = 0;
  bool whole = false, no_usage = false, texts = false;
  bool json = false, csv = false;
};

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
}

client::ServerSettings settings_of(const LoadFlags& flags) {
  const char* key = std::getenv("TENON_API_KEY");
  return {.url = flags.url,
          .key = key == nullptr ? "" : key,
          .authorities = flags.authorities,
          .connect_timeout = milliseconds_of(flags.connect_s),
          .silence_timeout = milliseconds_of(flags.silence_s),
          .total_timeout = milliseconds_of(flags.timeout_s)};
}

Result<std::string> only_model(client::Session& session) {
  Result<std::vector<std::string>> names = session.models();
  if (!names.ok()) return with_context(session.address(), names.status());
  if (names->size() == 1) return names->front();
  return invalid_argument(session.address() + " serves " + std::to_string(names->size()) +
                          " models (" + one_line(join(*names)) + ") – say which: --model NAME");
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string work_text(const LoadFlags& flags, size_t requests) {
  std::string text = std::to_string(requests) + (requests == 1 ? " request" : " requests");
  if (flags.in_flight > 0) {
    text += ", closed loop, " + std::to_string(flags.in_flight) + " in flight";
  } else if (flags.work.rate > 0) {
    text += ", open loop, Poisson arrivals at " + format_real(flags.work.rate) + " a second";
  } else {
    text += ", open loop, arrivals as recorded";
  }
  if (flags.work.chat) text += ", as chats";
  return text + (flags.work.stream ? "" : ", not streamed");
}

Json quantile_json(const Interval& interval, const LoadFigure& figure, double q) {
  const auto or_null = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  const bool is_known = static_cast<double>(figure.count) * (1 - q) >= 1 - 1e-9;
  Json out = {{"value", is_known ? Json(interval.estimate) : Json()}};
  if (figure.has_intervals) {
    out["low"] = or_null(interval.low);
    out["high"] = or_null(interval.high);
  }
  return out;
}

Json figures_json(const LoadSummary& summary) {
  Json out = Json::object();
  for (const LoadFigure& figure : summary.figures) {
    out[figure.name + "_" + figure.unit] = {{"count", figure.count},
                                            {"mean", figure.mean},
                                            {"most", figure.most},
                                            {"p50", quantile_json(figure.p50, figure, 0.5)},
                                            {"p90", quantile_json(figure.p90, figure, 0.9)},
                                            {"p99", quantile_json(figure.p99, figure, 0.99)}};
  }
  return out;
}

std::string load_json(const LoadRun& run, const LoadSummary& summary) {
  Json errors = Json::array();
  for (const LoadTrouble& trouble : summary.troubles) {
    errors.push_back(
        {{"kind", trouble.kind}, {"message", trouble.message}, {"count", trouble.count}});
  }
  Json out = {
      {"server", run.server},
      {"model", run.model},
      {"work", run.work},
      {"loop", run.open_loop ? "open" : "closed"},
      {"seconds", run.seconds},
      {"answered", summary.answered},
      {"failed", summary.failed},
      {"prompt_tokens", summary.prompt_tokens},
      {"cached_tokens", summary.cached_tokens},
      {"tokens", summary.tokens},
      {"counted_by", summary.counted_by},
      {"tokens_per_second", summary.tokens_per_second},
      {"requests_per_second", summary.requests_per_second},
      {"figures", figures_json(summary)},
      {"late_share", summary.late_share},
      {"generator",
       {{"processor_share", run.processor_share}, {"processor_wait_s", run.processor_wait}}},
      {"errors", std::move(errors)},
      {"notes", summary.notes}};
  if (!run.ended_by.empty()) {
    out["partial"] = {
        {"ended_by", run.ended_by}, {"unanswered", summary.unanswered}, {"unsent", run.unsent}};
  }
  return json_text(out);
}

// Runs it and gathers the rows. `kept`: whether they are in their file; a full disk takes nothing
// from the figures.
Result<LoadRun> drive_load(const LoadFlags& flags, client::Session& session,
                           std::vector<client::LoadRequest> requests, Status& kept) {
  LoadRun run{.server = session.address(),
              .model = flags.work.model,
              .work = work_text(flags, requests.size()),
              .open_loop = flags.in_flight == 0};
  std::optional<NewFile> rows;
  if (!flags.rows.empty()) {
    TENON_RETURN_IF_ERROR(check_output(flags.rows, {flags.work.path, flags.authorities}));
    TENON_ASSIGN_OR_RETURN(NewFile file, NewFile::create(flags.rows));
    rows.emplace(std::move(file));
  }
  const client::LoadPlan plan{.requests = std::move(requests),
                              .in_flight = flags.in_flight,
                              .is_unwanted = [] { return interrupted(); }};
  std::vector<client::LoadRow> ended;
  const double processor = processor_seconds(), waited = run_queue_seconds();
  const client::LoadResult result = client::run_load(
      session, plan, [&](client::LoadRow row) { ended.push_back(std::move(row)); });
  run.seconds = static_cast<double>(result.end_ns - result.start_ns) * 1e-9;
  run.processor_wait = run_queue_seconds() - waited;
  if (run.seconds > 0) run.processor_share = (processor_seconds() - processor) / run.seconds;
  run.unsent = result.unsent;
  run.ended_by = interrupt_name();
  for (const client::LoadRow& row : ended) {
    run.samples.push_back(load_sample(row, result.start_ns));
    if (!rows || !kept.ok()) continue;
    kept = rows->append(load_row_json(run.samples.back(), flags.texts ? &row.answer : nullptr));
  }
  if (rows && kept.ok()) kept = rows->keep(Existing::replace);
  return run;
}

// Every load of a range, one after the other, as long as the server bears it.
Result<int> send_sweep(LoadFlags flags, client::Session& session) {
  TENON_ASSIGN_OR_RETURN(const SweepRange range, parse_sweep(flags.sweep));
  std::vector<Sweep> sweeps(1);
  for (const std::string& path : flags.beside) {
    TENON_ASSIGN_OR_RETURN(std::vector<Sweep> saved, read_sweeps(path));
    std::ranges::move(saved, std::back_inserter(sweeps));
  }
  if (!flags.charts.empty()) TENON_RETURN_IF_ERROR(make_output_folder(flags.charts));
  Sweep& sweep = sweeps.front();
  sweep.name = flags.name.empty() ? session.address() : flags.name;
  sweep.what = range.what;
  GracefulEnd end([] { return false; });
  LoadRun last;
  Status kept;
  for (const double load : range.values) {
    if (range.what == SweepOf::rate) flags.work.rate = load;
    if (range.what == SweepOf::concurrency) flags.in_flight = static_cast<uint32_t>(load);
    TENON_ASSIGN_OR_RETURN(std::vector<client::LoadRequest> requests, load_requests(flags.work));
    TENON_ASSIGN_OR_RETURN(last, drive_load(flags, session, std::move(requests), kept));
    if (interrupted()) break;  // half a load is no point
    sweep.points.push_back(sweep_point(load, summary_of(last)));
    // Higher rates would only queue for longer.
    if (range.what == SweepOf::rate && saturation_of(sweep)) break;
  }
  end.answered();
  if (flags.json) {
    put(measured_sweep_json(sweep, last));
  } else {
    for (const Sweep& one : sweeps) put(sweep_text(one));
  }
  flush_output();
  if (!flags.charts.empty()) {
    TENON_RETURN_IF_ERROR(
        write_sweep_charts(sweeps, flags.charts, last.model + " · " + flags.sweep));
  }
  if (interrupted()) return interrupted_status();
  const bool failed =
      std::ranges::any_of(sweep.points, [](const SweepPoint& point) { return point.failed > 0; });
  return failed ? 1 : 0;
}

Result<int> send_load(LoadFlags flags) {
  flags.work.is_prompts = flags.workload.empty();
  flags.work.path = flags.work.is_prompts ? flags.prompts : flags.workload;
  flags.work.stream = !flags.whole;
  flags.work.usage = !flags.no_usage;
  if (!flags.sweep.empty()) TENON_RETURN_IF_ERROR(parse_sweep(flags.sweep).take_status());
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<client::Session> session,
                         client::Session::open(settings_of(flags)));
  if (flags.work.model.empty()) {
    TENON_ASSIGN_OR_RETURN(flags.work.model, only_model(*session));
  }
  allow_descriptors();
  if (!flags.sweep.empty()) return send_sweep(std::move(flags), *session);
  TENON_ASSIGN_OR_RETURN(std::vector<client::LoadRequest> requests, load_requests(flags.work));
  // The load ends within a moment of a signal; what hangs after that is standard output.
  GracefulEnd end([] { return false; });
  Status kept;
  TENON_ASSIGN_OR_RETURN(const LoadRun run, drive_load(flags, *session, std::move(requests), kept));
  const LoadSummary summary = summary_of(run);
  end.answered();
  if (flags.json) {
    put(load_json(run, summary));
  } else {
    put(flags.csv ? load_csv(summary) : load_text(run, summary));
  }
  flush_output();
  if (!kept.ok()) return kept;
  if (interrupted()) return interrupted_status();
  if (summary.failed > 0) {
    tell(std::to_string(summary.failed) + " of " + std::to_string(run.samples.size()) +
         " requests failed");
  }
  return summary.failed > 0 ? 1 : 0;
}

void add_loop_flags(Command command, LoadFlags& flags) {
  const char* group = "Load";
  Option in_flight =
      add_number(command, whole_number("--in-flight", 1, 65536), flags.in_flight,
                 "closed loop: so many requests at once, each answer makes room for the next")
          .group(group);
  Option rate = add_number(command, real_number("--rate", 1e-3, 1e6), flags.work.rate,
                           "open loop: so many requests a second, at random (a Poisson process)")
                    .group(group)
                    .excludes(in_flight);
  Option sweep = add_text(command, "--sweep", flags.sweep,
                          "a range of loads in place of one: rate=1..20 or concurrency=1..64 (each "
                          "twice the one before), or a list of them: rate=1,3,9")
                     .group(group)
                     .excludes(in_flight)
                     .excludes(rate);
  add_number(command, whole_number("--seed", 0, kMostSeed), flags.work.seed,
             "of random arrivals (default: 1)")
      .group(group)
      .excludes(in_flight);
  add_text(command, "--name", flags.name, "of the sweep in reports (default: the server's address)")
      .group(group)
      .needs(sweep);
  add_texts(
      command, "--beside", flags.beside,
      "a sweep to show with this one: saved (--json), or a folder of `tenon compare --sweep`; may "
      "be repeated")
      .group(group)
      .needs(sweep);
  add_text(command, "--charts", flags.charts,
           "writes pictures into this folder: latency over throughput, as SVG")
      .group(group)
      .needs(sweep);
}

void add_request_flags(Command command, LoadFlags& flags) {
  const char* group = "Requests";
  add_text(command, "--model", flags.work.model,
           "the name of the model (default: the only one that the server lists)")
      .group(group);
  add_text(command, "--authorities", flags.authorities,
           "a PEM file of those whose certificates are believed (default: the system's)")
      .group(group);
  command.add_flag("--chat", flags.work.chat, "each prompt as a message of a chat").group(group);
  add_number(command, whole_number("--max-tokens", 1, kMostParameterTokens), flags.work.max_tokens,
             "of an answer, where the file does not say (default: 64)")
      .group(group);
  add_number(command, whole_number("--vocabulary", 1, kMostTokenId), flags.work.vocabulary,
             "tokens that the model knows, for prompts of drawn token ids")
      .group(group);
  Option whole =
      command.add_flag("--no-stream", flags.whole, "answers in one piece: no time to first token")
          .group(group);
  command
      .add_flag("--no-usage", flags.no_usage,
                "do not ask for counts of tokens, for servers that do not know how to count")
      .group(group)
      .excludes(whole);
  add_number(command, real_number("--connect-timeout", 0.001, 86400), flags.connect_s,
             "seconds for a connection (default: 10)")
      .group(group);
  add_number(command, real_number("--silence-timeout", 0.001, 86400), flags.silence_s,
             "seconds without a byte (default: 300)")
      .group(group);
  add_number(command, real_number("--timeout", 0, 86400), flags.timeout_s,
             "seconds for a whole request; 0 = no limit (default: 0)")
      .group(group);
}

}  // namespace

void add_load_command(Command app, Action& action) {
  auto flags = std::make_shared<LoadFlags>();
  Command command =
      app.add_subcommand("load", "Send a workload to a running server, and measure its answers");
  command
      .add_option("url", flags->url,
                  "http://HOST:PORT, https://HOST:PORT or unix:PATH; a key is taken from "
                  "TENON_API_KEY")
      .type_name("URL")
      .required();
  Option workload = add_text(command, "--workload", flags->workload,
                             "a workload's TOML file, or a published trace");
  Option prompts = add_text(command, "--prompts", flags->prompts,
                            "prompts, a line each; or .jsonl, with settings of their own");
  workload.excludes(prompts);
  add_loop_flags(command, *flags);
  add_request_flags(command, *flags);
  Option rows =
      add_text(command, "--rows", flags->rows, "writes every request to this file, as JSON lines")
          .excludes("--sweep");
  command.add_flag("--texts", flags->texts, "with the answers' texts").needs(rows);
  Option json = command.add_flag("--json", flags->json, "machine-readable output");
  command.add_flag("--csv", flags->csv, "a table of the figures")
      .excludes(json)
      .excludes("--sweep");
  command.callback([flags, command, &action] {
    const bool random = flags->work.rate > 0 || !flags->sweep.empty();
    refuse_without(random || !command.given("--seed"), "--rate or --sweep");
    refuse_without(!flags->workload.empty() || !flags->prompts.empty(), "--workload or --prompts");
    action = [flags] {
      const Result<int> status = send_load(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
