#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "core/engine/engine.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/flags.h"
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
    std::vector<Prompt> prompts(1);
    prompts[0].text = flags.prompt;
    return prompts;
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
  return prompts == 1 && flags.generation.answer.samples.value_or(1) == 1 ? OutputStyle::stream
                                                                          : OutputStyle::blocks;
}

// A request on its way to the engine.
struct Submission {
  Request request;
  std::string shown;       // the prompt as it is repeated in front of the text
  int64_t arrival_ns = 0;  // after the start
};

Result<std::vector<Submission>> make_submissions(const RunFlags& flags, const Pipeline& pipeline,
                                                 const std::vector<Prompt>& prompts) {
  std::vector<Submission> all;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Result<Request> request = make_request(pipeline, flags.generation, prompts[i]);
    if (!request.ok()) return with_context("prompt " + std::to_string(i + 1), request.status());
    if (request->max_tokens == 0) request->max_tokens = kDefaultMaxTokens;
    all.push_back({*std::move(request), flags.echo ? prompts[i].text : "", prompts[i].arrival_ns});
  }
  return all;
}

// One run of the engine over all submissions, each handed over when its time has come.
class Drive {
 public:
  Drive(Engine& engine, RunOutput& output, std::vector<Submission> submissions)
      : engine_(engine), output_(output), submissions_(std::move(submissions)) {
    for (Submission& submission : submissions_) {
      submission.request.sink = output.add(std::move(submission.shown));
      due_.push_back(&submission);
    }
    std::stable_sort(due_.begin(), due_.end(),
                     [](auto* a, auto* b) { return a->arrival_ns < b->arrival_ns; });
  }

  // Steps until everything ended; the first Ctrl-C cancels what is left.
  Status run() {
    while (next_ < due_.size() || !engine_.idle()) {
      if (interrupted() && !cancelled_) cancel();
      TENON_RETURN_IF_ERROR(submit_due());
      if (!engine_.wait_for_work(std::chrono::milliseconds(1))) continue;
      TENON_RETURN_IF_ERROR(engine_.step());
      output_.flush(false);
    }
    return {};
  }
  double seconds() const { return static_cast<double>(elapsed_ns()) * 1e-9; }

 private:
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

  Engine& engine_;
  RunOutput& output_;
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
      std::fprintf(stderr, "tenon: a request failed: %s\n", sample.message.c_str());
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

Result<int> run(const RunFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::vector<Prompt> prompts, gather_prompts(flags));
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  Pipeline& pipeline = *opened.pipeline;

  RunFigures figures;
  EngineOptions options = pipeline.engine_options();
  options.logits_digest = flags.json;
  options.inbox_requests = static_cast<uint32_t>(prompts.size()) + 1;
  options.on_step = [&figures](const StepRecord& step) {
    figures.peak_used_tokens = std::max(figures.peak_used_tokens, step.kv_used_tokens);
  };
  TENON_ASSIGN_OR_RETURN(std::vector<Submission> submissions,
                         make_submissions(flags, pipeline, prompts));
  Engine engine(pipeline.parts(), options);
  RunOutput output(style_of(flags, prompts.size()), samples_of(submissions));
  watch_interrupts();
  Drive drive(engine, output, std::move(submissions));
  TENON_RETURN_IF_ERROR(drive.run());
  figures.seconds = drive.seconds();
  output.flush(true);
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
      add_text(*command, "--file", flags->file, "prompts to run together: one a line, or .jsonl");
  CLI::Option* workload =
      add_text(*command, "--workload", flags->workload, "a workload's TOML file");
  prompt->excludes(file)->excludes(workload);
  file->excludes(workload);
  CLI::Option* json =
      command->add_flag("--json", flags->json, "one JSON object with texts, digests and timings");
  command->add_flag("--quiet", flags->quiet, "no summary line");
  command->add_flag("!--no-echo", flags->echo, "do not repeat the prompt in front of its text");
  flags->generation.add_to(*command);
  // Nothing else shows them.
  for (const char* name : {"--logprobs", "--prompt-logprobs"}) {
    command->get_option(name)->needs(json);
  }
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
