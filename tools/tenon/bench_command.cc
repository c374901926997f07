// `tenon bench`: how fast a pipeline prefills and decodes, and what part of the machine's limit
// that is. Limit and speed are measured in turn within one run, because machines drift.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/base/cpu_features.h"
#include "core/base/process_memory.h"
#include "core/base/run_queue.h"
#include "core/base/statistics.h"
#include "tools/tenon/bench_measure.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/flags.h"
#include "tools/tenon/interrupt.h"
#include "tools/tenon/json_text.h"
#include "tools/tenon/machine.h"
#include "tools/tenon/pipeline_flags.h"
#include "tools/tenon/standard_output.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

struct BenchFlags {
  PipelineFlags pipeline;
  BenchPlan plan;
  uint32_t repeat = 5;
  double limit_seconds = 0.3;
  bool limits_only = false;
  bool json = false;
};

// Other programs, or other guests of the machine, took more than a tenth of the processors: then
// what was measured as its limits says nothing, and neither do fractions of it.
constexpr double kQuietShare = 0.9;

struct Speed {
  double seconds = 0;
  double tokens_per_second = 0;
  double gigabytes_per_second = 0;
  double teraops = 0;
  double limit_seconds = 0;  // 0 = not measured, or of a busy machine
  double processor_share = 1;
  double fraction() const { return limit_seconds / seconds; }
  bool busy() const { return processor_share < kQuietShare; }
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

Speed speed_of(double seconds, const BenchWork& work, const BenchLoad& load,
               const std::optional<MachineLimits>& limits) {
  Speed speed;
  speed.seconds = seconds;
  speed.tokens_per_second = load.rows / seconds;
  speed.gigabytes_per_second =
      (work.weight_bytes + load.kv_tokens * work.kv_bytes_per_token) / seconds / 1e9;
  speed.teraops = operations_of(work, load) / seconds / 1e12;
  if (!limits) return speed;
  speed.processor_share = limits->processor_share;
  if (!speed.busy()) speed.limit_seconds = limit_seconds(work, load, *limits);
  return speed;
}

// Holding each repetition against the limits around it; by time where no limits were measured.
// Repetitions on a busy machine count only where there are no others.
Speed median_speed(std::vector<Speed> speeds) {
  const auto quiet = std::partition(speeds.begin(), speeds.end(),
                                    [](const Speed& speed) { return !speed.busy(); });
  if (quiet != speeds.begin()) speeds.erase(quiet, speeds.end());
  std::sort(speeds.begin(), speeds.end(), [](const Speed& a, const Speed& b) {
    return a.limit_seconds > 0 ? a.fraction() < b.fraction() : a.seconds > b.seconds;
  });
  return speeds[speeds.size() / 2];
}

Json to_json(const Speed& speed) {
  Json out = {{"seconds", speed.seconds},
              {"tokens_per_second", speed.tokens_per_second},
              {"gigabytes_per_second", speed.gigabytes_per_second},
              {"teraops", speed.teraops}};
  if (speed.limit_seconds > 0) {
    out["limit_seconds"] = speed.limit_seconds;
    out["fraction_of_limit"] = speed.fraction();
  }
  if (speed.busy()) out["busy"] = true;
  return out;
}

Json to_json(const BenchOperations& operations) {
  return {{"int8", operations.int8}, {"bf16", operations.bf16}, {"f32", operations.f32}};
}

Json to_json(const MachineLimits& limits) {
  return {
      {"read_gbps", limits.read_median_gbps},      {"read_best_gbps", limits.read_gbps},
      {"fma_tflops", limits.fma_flops / 1e12},     {"bf16_tflops", limits.bf16_flops / 1e12},
      {"int8_tops", limits.int8_ops / 1e12},       {"barrier_ns", limits.barrier_ns},
      {"processor_share", limits.processor_share}, {"busy", limits.processor_share < kQuietShare}};
}

Json machine_json(uint32_t threads, const std::optional<MachineLimits>& limits) {
  Json out = {{"processor", cpu_brand()}, {"threads", threads}};
  if (limits) out.update(to_json(*limits));
  return out;
}

void print(const std::string& what, const Speed& speed) {
  putf("%-26s %10.2f ms %10.1f tokens/s %8.1f GB/s %8.3f TOP/s", what.c_str(), speed.seconds * 1e3,
       speed.tokens_per_second, speed.gigabytes_per_second, speed.teraops);
  if (speed.limit_seconds > 0) putf("   %.2f of the limit", speed.fraction());
  if (speed.busy()) put("   busy");
  put("\n");
}

void print(uint32_t threads, const MachineLimits& limits) {
  putf(
      "%s, %u threads; limits now: read %.1f (best %.1f) GB/s, fp32 %.3f, bf16 %.3f TFLOP/s, int8 "
      "%.3f TOP/s, barrier %.0f ns\n",
      cpu_brand().c_str(), threads, limits.read_median_gbps, limits.read_gbps,
      limits.fma_flops / 1e12, limits.bf16_flops / 1e12, limits.int8_ops / 1e12, limits.barrier_ns);
  if (limits.processor_share < kQuietShare) {
    putf(
        "busy: measuring was given %.0f %% of the processors, so these are not the machine's "
        "limits; "
        "measure again when other programs rest\n",
        100 * limits.processor_share);
  }
}

// What the process holds against what it cannot do without. Memory only grows while a pipeline
// lives, so what is held behind a repetition is the most so far.
struct MemoryUse {
  uint64_t weights = 0;  // packed
  uint64_t kv = 0;       // the whole cache; it is backed as far as it was used
  ProcessMemory process;
};

Json to_json(const MemoryUse& use) {
  return {{"weight_bytes", use.weights},
          {"kv_bytes", use.kv},
          {"anonymous_bytes", use.process.anonymous_bytes},
          {"huge_page_bytes", use.process.huge_bytes}};
}

void print(const MemoryUse& use) {
  const auto gigabytes = [](uint64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  putf("memory: %.3f GB (%.3f in huge pages) for weights of %.3f and K/V of %.3f\n",
       gigabytes(use.process.anonymous_bytes), gigabytes(use.process.huge_bytes),
       gigabytes(use.weights), gigabytes(use.kv));
}

// All repetitions of a pipeline.
struct Measured {
  double load_seconds = 0;
  MemoryUse memory;
  uint32_t threads = 0;
  std::optional<MachineLimits> limits;  // the last ones
  std::vector<Speed> prefill, decode, verify;
  std::vector<double> decode_means;  // seconds of a step
};

// One more repetition of all. `mutex` is held while `out` changes.
Status repeat_once(Pipeline& pipeline, const BenchFlags& flags, const BenchWork& work,
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
      speed_of(sample.prefill_seconds, work, {prompt * batch, batch, prompt * batch}, limits));
  out.decode.push_back(speed_of(sample.decode_seconds, work, {batch, batch, context}, limits));
  out.decode_means.push_back(sample.decode_mean_seconds);
  if (plan.verify_tokens > 1) {
    out.verify.push_back(
        speed_of(sample.verify_seconds, work, {verified, verified, context}, limits));
  }
  return {};
}

void show_json(const Pipeline& pipeline, const BenchFlags& flags, const BenchWork& work,
               const Measured& measured) {
  const Speed decode = median_speed(measured.decode);
  Json out = {{"format", 2},
              {"pipeline", {{"hash", pipeline.hash}, {"numerics", pipeline.numerics}}},
              {"machine", machine_json(measured.threads, measured.limits)},
              {"load_seconds", measured.load_seconds},
              {"memory", to_json(measured.memory)},
              {"work",
               {{"weight_bytes", work.weight_bytes},
                {"kv_bytes_per_token", work.kv_bytes_per_token},
                {"row_operations", to_json(work.row)},
                {"head_operations", to_json(work.head)}}},
              {"batch", flags.plan.batch},
              {"prompt_tokens", flags.plan.prompt_tokens},
              {"decode_tokens", flags.plan.decode_tokens},
              {"repeat", measured.decode.size()},
              {"prefill", to_json(median_speed(measured.prefill))},
              {"decode", to_json(decode)}};
  if (interrupted()) out["partial"] = "ended by " + std::string(interrupt_name());
  out["decode"]["mean_step_seconds"] = median(measured.decode_means);
  if (!measured.verify.empty()) {
    const Speed verify = median_speed(measured.verify);
    out["verify"] = to_json(verify);
    out["verify"]["tokens"] = flags.plan.verify_tokens;
    out["verify"]["times_decode"] = verify.seconds / decode.seconds;
  }
  put(json_text(out));
}

void show(const Pipeline& pipeline, const BenchFlags& flags, const Measured& measured) {
  if (measured.limits) print(measured.threads, *measured.limits);
  putf("numerics: %s\nmedian of %zu runs, batch %u\n", pipeline.numerics.c_str(),
       measured.decode.size(), flags.plan.batch);
  if (interrupted()) {
    putf("partial: ended by %s; %u runs were asked for\n", interrupt_name(), flags.repeat);
  }
  putf("loaded in %.2f s; ", measured.load_seconds);
  print(measured.memory);
  const std::string prompt = std::to_string(flags.plan.prompt_tokens) + " tokens";
  print("prefill, " + prompt, median_speed(measured.prefill));
  const Speed decode = median_speed(measured.decode);
  print("decode, at " + prompt, decode);
  if (measured.verify.empty()) return;
  const Speed verify = median_speed(measured.verify);
  print("verify " + std::to_string(flags.plan.verify_tokens) + ", at " + prompt, verify);
  putf("verifying takes %.2f times as long as decoding\n", verify.seconds / decode.seconds);
}

void show_measured(const Pipeline& pipeline, const BenchFlags& flags, const BenchWork& work,
                   const Measured& measured) {
  if (measured.decode.empty()) {
    tell("ended by " + std::string(interrupt_name()) + " before anything was measured");
  } else if (flags.json) {
    show_json(pipeline, flags, work, measured);
  } else {
    show(pipeline, flags, measured);
  }
}

Result<int> bench(const BenchFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  Pipeline& pipeline = *opened.pipeline;
  const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - start;
  Measured measured;
  measured.load_seconds = loading.count();
  measured.threads = pipeline.executor->workers();
  const BenchWork work = work_of(pipeline);
  std::mutex mutex;
  GracefulEnd end([&] {
    const std::lock_guard lock(mutex);
    show_measured(pipeline, flags, work, measured);
    return true;
  });
  for (uint32_t i = 0; i < flags.repeat && !interrupted(); ++i) {
    Status status = repeat_once(pipeline, flags, work, mutex, measured);
    if (!status.ok() && !interrupted()) return status;
  }
  end.answered();
  show_measured(pipeline, flags, work, measured);
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
  }
  const HostFacts host = host_facts(isa);
  const uint32_t threads = flags.pipeline.threads.value_or(host.workers);
  const MachineLimits limits = measure_machine_limits(host.cpu, threads, flags.limit_seconds);
  if (flags.json) {
    put(json_text(machine_json(threads, limits)));
  } else {
    print(threads, limits);
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure prefill and decode as fractions of the machine's limit");
  BenchPlan& plan = flags->plan;
  std::vector<CLI::Option*> work = {
      add_number(*command, whole_number("--prompt-tokens", 1, 1 << 20), plan.prompt_tokens,
                 "tokens of each prompt (default: 512)"),
      add_number(*command, whole_number("--decode-tokens", 1, 1 << 20), plan.decode_tokens,
                 "steps to decode (default: 32)"),
      add_number(*command, whole_number("--batch", 1, 4096), plan.batch,
                 "sequences at once (default: 1)"),
      add_number(*command, whole_number("--verify", 1, 33), plan.verify_tokens,
                 "verify so many tokens of each sequence in every second step, drafts for all but "
                 "one (default: 1)"),
      add_number(*command, whole_number("--repeat", 1, 1000), flags->repeat,
                 "repetitions; the median is shown (default: 5)")};
  add_number(*command, real_number("--limit-seconds", 0, 60), flags->limit_seconds,
             "spend so long on the machine's limits before and after each repetition; 0 = measure "
             "no limits (default: 0.3)");
  CLI::Option* limits =
      command->add_flag("--limits", flags->limits_only, "measure the machine's limits alone");
  for (CLI::Option* option : work) limits->excludes(option);
  command->add_flag("--json", flags->json, "machine-readable output");
  flags->pipeline.add_to(*command);
  for (const char* of_a_pipeline : {"--config", "--set", "--model", "--plugin-path"}) {
    limits->excludes(command->get_option(of_a_pipeline));
  }
  command->callback([flags, &action] {
    action = [flags] {
      const Result<int> status = flags->limits_only ? bench_limits(*flags) : bench(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
