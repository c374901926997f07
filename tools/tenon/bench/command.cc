// `tenon bench`: how fast a pipeline prefills and decodes, and what part of the machine's limit
// that is. Limit and speed are measured in turn within one run, because machines drift.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/machine/cpu_features.h"
#include "core/base/machine/host_facts.h"
#include "core/base/machine/process_memory.h"
#include "core/base/machine/run_queue.h"
#include "tools/tenon/bench/report.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"
#include "tools/tenon/shell/ranks.h"

namespace tenon {
namespace {

struct BenchFlags {
  PipelineFlags pipeline;
  BenchPlan plan;
  uint32_t repeat = 5;
  double limit_seconds = 0.3;
  bool limits_only = false;
  bool json = false;
};

// The machine drifts while a repetition runs: its limits are the mean of those around it.
MachineLimits between(const MachineLimits& a, const MachineLimits& b) {
  return {.read_gbps = (a.read_gbps + b.read_gbps) / 2,
          .read_median_gbps = (a.read_median_gbps + b.read_median_gbps) / 2,
          .fma_flops = (a.fma_flops + b.fma_flops) / 2,
          .bf16_flops = (a.bf16_flops + b.bf16_flops) / 2,
          .int8_ops = (a.int8_ops + b.int8_ops) / 2,
          .barrier_ns = (a.barrier_ns + b.barrier_ns) / 2,
          .processor_share = std::min(a.processor_share, b.processor_share)};
}

// One more repetition of all. `mutex` is held while `out` changes.
Status repeat_once(Pipeline& pipeline, const BenchFlags& flags, const StepWork& work,
                   std::mutex& mutex, Measured& out) {
  const bool with_limits = flags.limit_seconds > 0;
  const auto now = [&] {
    return measure_machine_limits(pipeline.host.cpu, out.threads, flags.limit_seconds);
  };
  std::optional<MachineLimits> limits;
  if (with_limits) limits = now();
  const BenchPlan& plan = flags.plan;
  const auto start = std::chrono::steady_clock::now();
  const double waited = run_queue_seconds();
  TENON_ASSIGN_OR_RETURN(const BenchSample sample,
                         measure_steps(pipeline, plan, static_cast<uint32_t>(out.decode.size())));
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  const double had = 1 - (run_queue_seconds() - waited) / (wall.count() * out.threads);
  if (with_limits) {
    limits = between(*limits, now());
    limits->processor_share = std::min(limits->processor_share, had);
  }
  const std::lock_guard lock(mutex);
  out.memory = {pipeline.executor->weight_bytes(), pipeline.kv_bytes(), process_memory()};
  out.limits = limits;
  const double batch = plan.batch, prompt = plan.prompt_tokens;
  const double context = (prompt + plan.decode_tokens / 2.0) * batch;
  const double verified = batch * plan.verify_tokens;
  out.prefill.push_back(
      speed_of(sample.prefill_seconds, work,
               {prompt * batch, batch, prompt * batch, sample.prefill_expert_bytes}, limits));
  out.decode.push_back(speed_of(sample.decode_seconds, work,
                                {batch, batch, context, sample.decode_expert_bytes}, limits));
  out.decode_expert_bytes.push_back(sample.decode_expert_bytes);
  out.decode_means.push_back(sample.decode_mean_seconds);
  if (plan.verify_tokens > 1) {
    out.verify.push_back(speed_of(sample.verify_seconds, work,
                                  {verified, verified, context, sample.verify_expert_bytes},
                                  limits));
  }
  if (plan.acceptance) out.gains.push_back({sample.tokens_a_step, sample.speedup});
  return {};
}

Result<int> bench(const BenchFlags& flags) {
  if (flags.plan.acceptance && flags.plan.verify_tokens < 2) {
    return invalid_argument(
        "--acceptance is set, but --verify 1 leaves no room for drafts – raise it, or leave "
        "--acceptance out");
  }
  const auto start = std::chrono::steady_clock::now();
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  Pipeline& pipeline = *opened.pipeline;
  const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - start;
  Measured measured;
  measured.plan = flags.plan;
  measured.wanted = flags.repeat;
  measured.load_seconds = loading.count();
  measured.threads = pipeline.executor->workers();
  const StepWork work = work_of(pipeline);
  std::mutex mutex;
  GracefulEnd end([&] {
    const std::lock_guard lock(mutex);
    show_measured(pipeline, flags.json, work, measured);
    return true;
  });
  for (uint32_t i = 0; i < flags.repeat && !interrupted(); ++i) {
    Status status = repeat_once(pipeline, flags, work, mutex, measured);
    if (!status.ok() && !interrupted()) return status;
  }
  end.answered();
  show_measured(pipeline, flags.json, work, measured);
  return interrupted_status();
}

// The machine alone, without a model.
Result<int> bench_limits(const BenchFlags& flags) {
  if (flags.limit_seconds == 0) {
    return invalid_argument(
        "--limit-seconds is 0 – that measures no limits, and --limits asks for them alone – leave "
        "one of them out");
  }
  std::optional<CpuFeatures> isa;
  if (!flags.pipeline.isa.empty()) {
    TENON_ASSIGN_OR_RETURN(isa, parse_cpu_isa(flags.pipeline.isa));
    TENON_RETURN_IF_ERROR(check_chosen_isa(host_facts().cpu, *isa));
  }
  const HostFacts host = host_facts(isa);
  const uint32_t threads = flags.pipeline.threads.value_or(host.workers);
  const MachineLimits limits = measure_machine_limits(host.cpu, threads, flags.limit_seconds);
  show_limits(threads, limits, flags.json);
  return 0;
}

}  // namespace

void add_bench_command(Command app, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  Command command =
      app.add_subcommand("bench", "Measure prefill and decode as fractions of the machine's limit");
  BenchPlan& plan = flags->plan;
  std::vector<Option> work = {
      add_number(command, whole_number("--prompt-tokens", 2, 1 << 20), plan.prompt_tokens,
                 "tokens of each prompt (default: 512); one alone is decoded"),
      add_number(command, whole_number("--decode-tokens", 1, 1 << 20), plan.decode_tokens,
                 "steps to decode (default: 32)"),
      add_number(command, whole_number("--batch", 1, 4096), plan.batch,
                 "sequences at once (default: 1)"),
      add_number(command, whole_number("--repeat", 1, 1000), flags->repeat,
                 "repetitions; the median is shown (default: 5)"),
      add_texts(command, "--adapter", plan.adapters,
                "the low-rank adapter of a sequence; may be repeated, for the sequences in turn; "
                "none = the base model")};
  const Option verify =
      add_number(command, whole_number("--verify", 1, 33), plan.verify_tokens,
                 "verify so many tokens of each sequence in every second step, drafts for all but "
                 "one (default: 1)");
  const Option acceptance =
      add_number(command, real_number("--acceptance", 0, 1), plan.acceptance,
                 "let each of these drafts be kept so often, if those before it are; what comes is "
                 "decoded beforehand");
  acceptance.needs(verify);
  work.insert(work.end(), {verify, acceptance});
  add_number(command, real_number("--limit-seconds", 0, 60), flags->limit_seconds,
             "spend so long on the machine's limits before and after each repetition; 0 = measure "
             "no limits (default: 0.3)");
  Option limits =
      command.add_flag("--limits", flags->limits_only, "measure the machine's limits alone");
  for (Option option : work) limits.excludes(option);
  command.add_flag("--json", flags->json, "machine-readable output");
  flags->pipeline.add_to(command);
  add_launch(command);
  for (const char* of_a_pipeline : {"--config", "--set", "--model", "--plugin-path"}) {
    limits.excludes(command.get_option(of_a_pipeline));
  }
  command.callback([flags, &action] {
    action = [flags] {
      const Result<int> status = flags->limits_only ? bench_limits(*flags) : bench(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
