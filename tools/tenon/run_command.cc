#include <chrono>
#include <cstdio>
#include <memory>

#include "core/config/workload.h"
#include "core/engine/engine.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/generation_flags.h"
#include "tools/tenon/interrupt.h"
#include "tools/tenon/pipeline_flags.h"
#include "tools/tenon/progress.h"
#include "tools/tenon/prompts.h"
#include "tools/tenon/run_output.h"
#include "tools/tenon/run_report.h"

namespace tenon {
namespace {

// Tokens that a single prompt on the command line gets when nobody says how many.
constexpr uint32_t kDefaultMaxTokens = 256;

struct RunFlags {
  PipelineFlags pipeline;
  GenerationFlags generation;
  std::string prompt;
  std::string file;
  std::string workload;
  bool has_prompt = false;
  bool json = false;
  bool quiet = false;
  bool echo = true;
};

Result<std::vector<Prompt>> gather_prompts(const RunFlags& flags) {
  if (!flags.workload.empty()) return read_workload_prompts(flags.workload);
  if (!flags.file.empty()) return read_prompt_file(flags.file);
  if (flags.has_prompt && flags.prompt != "-") {
    return std::vector<Prompt>{Prompt{.text = flags.prompt}};
  }
  if (!flags.has_prompt && stdin_is_terminal()) {
    return invalid_argument(
        "there is no prompt; give one as argument, on standard input, or with --file");
  }
  TENON_ASSIGN_OR_RETURN(Prompt prompt, read_prompt_stdin());
  return std::vector<Prompt>{std::move(prompt)};
}

OutputStyle style_of(const RunFlags& flags, size_t prompts) {
  if (flags.json) return OutputStyle::silent;
  return prompts == 1 && flags.generation.samples == 1 ? OutputStyle::stream : OutputStyle::blocks;
}

// Steps until everything ended; the first Ctrl-C cancels what is left.
Status drive(Engine& engine, const std::vector<RequestId>& requests, RunOutput& output) {
  bool cancelled = false;
  while (!engine.idle()) {
    if (interrupted() && !cancelled) {
      for (const RequestId request : requests) engine.cancel(request);
      cancelled = true;
    }
    TENON_RETURN_IF_ERROR(engine.step());
    output.flush(false);
  }
  return {};
}

// Requests that ended in an error are told apart from a run that worked.
bool any_failed(const RunOutput& output) {
  bool failed = false;
  for (const auto& result : output.results()) {
    for (const auto& sample : result->samples()) {
      if (sample.reason != FinishReason::error) continue;
      std::fprintf(stderr, "tenon: a request failed: %s\n", sample.message.c_str());
      failed = true;
    }
  }
  return failed;
}

Result<int> run(const RunFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::vector<Prompt> prompts, gather_prompts(flags));
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  Pipeline& pipeline = *opened.pipeline;

  RunFigures figures;
  EngineOptions options;
  options.logits_digest = flags.json;
  options.inbox_requests = static_cast<uint32_t>(prompts.size()) + 1;
  options.on_step = [&figures](const StepRecord& step) {
    figures.peak_used_tokens = std::max(figures.peak_used_tokens, step.kv_used_tokens);
  };
  Engine engine(pipeline.parts(), options);
  RunOutput output(style_of(flags, prompts.size()), prompts.size() * flags.generation.samples);

  std::vector<Request> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Result<Request> request = make_request(pipeline, flags.generation, prompts[i]);
    if (!request.ok()) return with_context("prompt " + std::to_string(i + 1), request.status());
    if (request->max_tokens == 0) request->max_tokens = kDefaultMaxTokens;
    requests.push_back(*std::move(request));
  }
  watch_interrupts();
  const auto started = std::chrono::steady_clock::now();
  std::vector<RequestId> ids;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sink = output.add(flags.echo ? prompts[i].text : "");
    Result<RequestId> id = engine.submit(std::move(requests[i]));
    if (!id.ok()) return with_context("prompt " + std::to_string(i + 1), id.status());
    ids.push_back(*id);
  }
  const Status driven = drive(engine, ids, output);
  figures.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  output.flush(true);
  if (!driven.ok()) return copy(driven);
  if (flags.json) std::printf("%s\n", run_json(pipeline, engine, output, figures).c_str());
  if (!flags.json && !flags.quiet) {
    std::fprintf(stderr, "%s\n", run_summary(pipeline, engine, output, figures).c_str());
  }
  if (interrupted()) return 130;
  return any_failed(output) ? 1 : 0;
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "Generate text");
  CLI::Option* prompt = command->add_option(
      "prompt", flags->prompt, "the text to go on from; \"-\" or nothing reads standard input");
  CLI::Option* file =
      command->add_option("--file", flags->file, "prompts to run together: one a line, or .jsonl");
  CLI::Option* workload =
      command->add_option("--workload", flags->workload, "a workload's TOML file");
  prompt->excludes(file)->excludes(workload);
  file->excludes(workload);
  command->add_flag("--json", flags->json, "one JSON object with texts, digests and timings");
  command->add_flag("--quiet", flags->quiet, "no summary line");
  command->add_flag("!--no-echo", flags->echo, "do not repeat the prompt in front of its text");
  flags->generation.add_to(*command);
  flags->pipeline.add_to(*command);
  command->callback([flags, prompt, &action] {
    flags->has_prompt = prompt->count() > 0;
    action = [flags] {
      Result<int> status = run(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
