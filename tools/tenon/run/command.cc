#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "core/base/calls/call_trace.h"
#include "core/base/files/new_file.h"
#include "core/engine/engine.h"
#include "core/llm/open/prompt.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/run/call_trace_json.h"
#include "tools/tenon/run/output.h"
#include "tools/tenon/run/report.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/generation_flags.h"
#include "tools/tenon/shell/outputs.h"
#include "tools/tenon/shell/pipeline_flags.h"
#include "tools/tenon/shell/prompts.h"
#include "tools/tenon/shell/ranks.h"

namespace tenon {
namespace {

struct RunFlags {
  PipelineFlags pipeline;
  GenerationFlags generation;
  std::optional<std::string> prompt;
  std::string file;
  std::string workload;
  std::string trace;  // file for the calls of plugins; empty = none
  bool json = false;
  bool quiet = false;
  bool echo = true;
  bool check_plugins = false;
};

OutputStyle style_of(const RunFlags& flags, size_t prompts) {
  if (flags.json) return OutputStyle::silent;
  return prompts == 1 && flags.generation.answer.samples.value_or(1) == 1 ? OutputStyle::stream
                                                                          : OutputStyle::blocks;
}

// A request on its way to the engine.
struct Submission {
  Request request;
  std::string shown;       // the prompt as it is repeated before the text
  int64_t arrival_ns = 0;  // after the start
};

Result<std::vector<Submission>> make_submissions(const RunFlags& flags, const Pipeline& pipeline,
                                                 const std::vector<Prompt>& prompts) {
  std::vector<Submission> all;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Result<Request> request = make_request(pipeline, flags.generation, prompts[i]);
    if (!request.ok()) return with_context("prompt " + std::to_string(i + 1), request.status());
    llm::bound_answer(pipeline, *request);
    all.push_back({*std::move(request), flags.echo ? prompts[i].text : "", prompts[i].arrival_ns});
  }
  return all;
}

// One run of the engine over all submissions, each handed over when its time has come.
class Drive {
 public:
  Drive(const Pipeline& pipeline, Engine& engine, RunOutput& output,
        std::vector<Submission> submissions, const uint64_t& peak_used_tokens)
      : pipeline_(pipeline),
        engine_(engine),
        output_(output),
        peak_used_tokens_(peak_used_tokens),
        submissions_(std::move(submissions)) {
    for (Submission& submission : submissions_) {
      submission.request.sink = output.add(std::move(submission.shown));
      due_.push_back(&submission);
    }
    std::stable_sort(due_.begin(), due_.end(),
                     [](auto* a, auto* b) { return a->arrival_ns < b->arrival_ns; });
  }

  // Steps until everything ended; a signal, or output that nobody takes, cancels what is left.
  Status run() {
    while (next_ < due_.size() || !engine_.idle()) {
      if ((interrupted() || output_lost()) && !cancelled_) cancel();
      TENON_RETURN_IF_ERROR(submit_due());
      if (!engine_.wait_for_work(std::chrono::milliseconds(1))) continue;
      TENON_RETURN_IF_ERROR(engine_.step());
      const std::lock_guard lock(output_.mutex());
      note_totals();
      output_.flush(false);
    }
    return {};
  }
  // As they were after the last step. Under the output's mutex.
  RunFigures figures() const {
    RunFigures figures = figures_;
    figures.seconds = static_cast<double>(elapsed_ns()) * 1e-9;
    figures.ended_by = interrupt_name();
    return figures;
  }

 private:
  void note_totals() {
    figures_.peak_used_tokens = peak_used_tokens_;
    figures_.totals = engine_.totals();
    if (pipeline_.second) figures_.second_rows = pipeline_.second->runner->rows_computed();
  }
  int64_t elapsed_ns() const {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - started_).count();
  }
  void cancel() {
    cancelled_ = true;
    next_ = due_.size();
    for (const RequestId id : ids_) engine_.cancel(id);
  }
  Status submit_due() {
    while (next_ < due_.size() && due_[next_]->arrival_ns <= elapsed_ns()) {
      Submission* due = due_[next_++];
      Result<RequestId> id = engine_.submit(std::move(due->request));
      if (!id.ok()) {
        const auto number = due - submissions_.data() + 1;
        return with_context("prompt " + std::to_string(number), id.status());
      }
      ids_.push_back(*id);
    }
    return {};
  }

  const Pipeline& pipeline_;
  Engine& engine_;
  RunOutput& output_;
  const uint64_t& peak_used_tokens_;
  RunFigures figures_;
  std::vector<Submission> submissions_;
  std::vector<Submission*> due_;  // in order of arrival
  size_t next_ = 0;
  std::vector<RequestId> ids_;
  bool cancelled_ = false;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// Requests that ended in an error are told apart from a run that worked.
bool any_failed(const RunOutput& output) {
  bool failed = false;
  for (const auto& result : output.results()) {
    for (const auto& sample : result->samples()) {
      if (sample.reason != FinishReason::error) continue;
      tell("a request failed: " + sample.message);
      failed = true;
    }
  }
  return failed;
}

size_t samples_of(const std::vector<Submission>& submissions) {
  size_t samples = 0;
  for (const Submission& submission : submissions) samples += submission.request.samples;
  return samples;
}

// Under the output's mutex, or when nothing runs any more.
void show(const RunFlags& flags, const Pipeline& pipeline, RunOutput& output,
          const RunFigures& figures) {
  output.flush(true);
  if (flags.json) put(run_json(pipeline, output, figures));
  flush_output();
  if (flags.json || flags.quiet) return;
  say(run_summary(pipeline, output, figures));
  for (const std::string& line : guard_summary(pipeline)) say(line);
}

Result<int> run(const RunFlags& flags) {
  if (!flags.trace.empty()) {
    TENON_RETURN_IF_ERROR(
        check_output(flags.trace, {flags.file, flags.workload, flags.pipeline.config}));
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<Prompt> prompts,
                         flags.workload.empty() ? gather_prompts(flags.prompt, flags.file)
                                                : read_workload_prompts(flags.workload));
  std::function<void(const PlannedMemory&)> planned;
  if (stderr_is_terminal() && !flags.json && !flags.quiet) planned = say_memory;
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened,
                         open_pipeline(flags.pipeline, true, nullptr, planned));
  Pipeline& pipeline = *opened.pipeline;

  EngineOptions options = pipeline.engine_options();
  options.logits_digest = flags.json;
  options.check_kv = flags.check_plugins;
  options.inbox_requests = static_cast<uint32_t>(prompts.size()) + 1;
  uint64_t peak_used_tokens = 0;
  options.on_step = [&peak_used_tokens](const StepRecord& step) {
    peak_used_tokens = std::max(peak_used_tokens, step.kv_used_tokens);
  };
  TENON_ASSIGN_OR_RETURN(std::vector<Submission> submissions,
                         make_submissions(flags, pipeline, prompts));
  Engine engine(pipeline.parts(), options);
  RunOutput output(style_of(flags, prompts.size()), samples_of(submissions));
  Drive drive(pipeline, engine, output, std::move(submissions), peak_used_tokens);
  GracefulEnd end([&] {
    // The step thread may hang in a write to a reader that stands still.
    const std::unique_lock lock(output.mutex(), std::chrono::milliseconds(200));
    if (lock.owns_lock()) show(flags, pipeline, output, drive.figures());
    return lock.owns_lock();
  });
  if (!flags.trace.empty()) start_call_trace();
  TENON_RETURN_IF_ERROR(drive.run());
  if (!flags.trace.empty()) {
    TENON_RETURN_IF_ERROR(write_file(flags.trace, {call_trace_json(take_call_trace())}));
  }
  end.answered();
  show(flags, pipeline, output, drive.figures());
  if (interrupted()) return interrupted_status();
  return any_failed(output) ? 1 : 0;
}

}  // namespace

void add_run_command(Command app, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  Command command = app.add_subcommand("run", "Generate text");
  Option prompt = command.add_option(
      "prompt", flags->prompt, "the text to go on from; \"-\" or nothing reads standard input");
  Option file =
      add_text(command, "--file", flags->file, "prompts to run together: one a line, or .jsonl");
  Option workload = add_text(command, "--workload", flags->workload,
                             "a workload's TOML file, or a published trace");
  prompt.excludes(file).excludes(workload);
  file.excludes(workload);
  Option json =
      command.add_flag("--json", flags->json, "one JSON object with texts, digests and timings");
  add_text(command, "--trace", flags->trace,
           "write every call of plugins, with its time, as a trace for Perfetto or Chrome");
  command.add_flag("--quiet", flags->quiet, "no summary line");
  command.add_flag("!--no-echo", flags->echo, "do not repeat the prompt in front of its text");
  command.add_flag("--check-plugins", flags->check_plugins,
                   "engine.guard = \"checks\" at least, and the KV manager checks its books "
                   "behind every step (slow)");
  flags->generation.add_to(command);
  // Nothing else shows them.
  for (const char* name : {"--logprobs", "--prompt-logprobs"}) {
    command.get_option(name).needs(json);
  }
  flags->pipeline.add_to(command);
  add_launch(command);
  command.callback([flags, &action] {
    if (flags->check_plugins) flags->pipeline.guard_at_least = GuardLevel::checks;
    action = [flags] {
      Result<int> status = run(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
