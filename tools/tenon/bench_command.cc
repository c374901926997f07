// `tenon bench`: how fast a pipeline prefills and decodes, and what part of the machine's limit
// that is. Limit and speed are measured in turn within one run, because machines drift.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/cpu_features.h"
#include "core/base/statistics.h"
#include "core/engine/engine.h"
#include "core/exec/cpu/machine_limits.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/interrupt.h"
#include "tools/tenon/pipeline_flags.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

struct BenchFlags {
  PipelineFlags pipeline;
  uint32_t prompt_tokens = 512;
  uint32_t decode_tokens = 32;
  uint32_t batch = 1;
  uint32_t repeat = 5;
  bool json = false;
};

// What one repetition measured.
struct Sample {
  double prefill_seconds = 0;
  double decode_seconds = 0;  // a step, median
};

// Operations and bytes that the arithmetic needs at least.
struct Work {
  double matmul_parameters = 0;  // a multiplication and an addition each, a row
  double head_parameters = 0;    // the same, only for rows that are sampled
  double weight_bytes = 0;       // read once a step
  double kv_bytes_per_token = 0;
};

Work work_of(const Pipeline& pipeline) {
  const Model& model = *pipeline.model;
  Work work;
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      work.matmul_parameters += double{1} * weight->n_out * weight->k_in;
    }
  }
  work.head_parameters = double{1} * model.head.n_out * model.head.k_in;
  work.weight_bytes = static_cast<double>(pipeline.executor->weight_bytes());
  work.kv_bytes_per_token = static_cast<double>(pipeline.group_geometry.front().bytes_per_token);
  return work;
}

// A prompt that repeats no token pattern.
std::vector<TokenId> prompt_of(uint32_t tokens, uint32_t vocabulary, uint32_t variant) {
  std::vector<TokenId> prompt(tokens);
  uint64_t state = 0x9E3779B97F4A7C15ull * (variant + 1);
  for (TokenId& token : prompt) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    token = static_cast<TokenId>((state >> 33) % vocabulary);
  }
  return prompt;
}

// Prefills a batch and decodes; steps that only decode tell the decode time.
Result<Sample> measure(Pipeline& pipeline, const BenchFlags& flags, uint32_t variant) {
  std::vector<StepRecord> steps;
  EngineOptions options;
  options.on_step = [&steps](const StepRecord& step) { steps.push_back(step); };
  Engine engine(pipeline.parts(), options);
  for (uint32_t i = 0; i < flags.batch; ++i) {
    Request request;
    request.prompt = prompt_of(flags.prompt_tokens, pipeline.shape->shape().vocabulary,
                               variant * flags.batch + i);
    request.sampling.temperature = 0;
    request.max_tokens = flags.decode_tokens + 1;
    request.ignore_eos = true;
    request.sink = std::make_shared<ResultSink>();
    TENON_ASSIGN_OR_RETURN(const RequestId id, engine.submit(std::move(request)));
    static_cast<void>(id);
  }
  TENON_RETURN_IF_ERROR(engine.run_until_idle());
  if (!engine.last_fault().empty()) return failed(engine.last_fault());
  Sample sample;
  std::vector<double> decode;
  for (const StepRecord& step : steps) {
    const double seconds = static_cast<double>(step.end_ns - step.start_ns) * 1e-9;
    if (step.rows > step.sequences) {
      sample.prefill_seconds += seconds;
    } else if (step.sequences == flags.batch) {
      decode.push_back(seconds);
    }
  }
  sample.decode_seconds = median(std::move(decode));
  return sample;
}

struct Speed {
  double seconds = 0;
  double tokens_per_second = 0;
  double gigabytes_per_second = 0;
  double teraflops = 0;
  double limit_seconds = 0;
  double fraction = 0;
};

double peak_flops(const MachineLimits& limits) {
  return std::max(limits.fma_flops, limits.bf16_flops);
}

// The machine drifts while a repetition runs: its limits are the mean of those around it.
MachineLimits between(const MachineLimits& a, const MachineLimits& b) {
  return {.read_gbps = (a.read_gbps + b.read_gbps) / 2,
          .read_median_gbps = (a.read_median_gbps + b.read_median_gbps) / 2,
          .fma_flops = (a.fma_flops + b.fma_flops) / 2,
          .bf16_flops = (a.bf16_flops + b.bf16_flops) / 2,
          .int8_ops = (a.int8_ops + b.int8_ops) / 2,
          .barrier_ns = (a.barrier_ns + b.barrier_ns) / 2};
}

// The limit: whichever of reading the weights and multiplying takes longer, plus reading the KV.
Speed speed_of(double seconds, double rows, double sampled_rows, double kv_tokens_read,
               const Work& work, const MachineLimits& limits) {
  const double flops = 2 * (work.matmul_parameters * rows + work.head_parameters * sampled_rows);
  const double kv_bytes = kv_tokens_read * work.kv_bytes_per_token;
  const double bandwidth = limits.read_median_gbps * 1e9;
  Speed speed;
  speed.seconds = seconds;
  speed.tokens_per_second = rows / seconds;
  speed.gigabytes_per_second = (work.weight_bytes + kv_bytes) / seconds / 1e9;
  speed.teraflops = flops / seconds / 1e12;
  speed.limit_seconds =
      std::max(work.weight_bytes / bandwidth, flops / peak_flops(limits)) + kv_bytes / bandwidth;
  speed.fraction = speed.limit_seconds / seconds;
  return speed;
}

Speed median_speed(std::vector<Speed> speeds) {
  std::sort(speeds.begin(), speeds.end(),
            [](const Speed& a, const Speed& b) { return a.fraction < b.fraction; });
  return speeds[speeds.size() / 2];
}

Json to_json(const Speed& speed) {
  return {{"seconds", speed.seconds},
          {"tokens_per_second", speed.tokens_per_second},
          {"gigabytes_per_second", speed.gigabytes_per_second},
          {"teraflops", speed.teraflops},
          {"limit_seconds", speed.limit_seconds},
          {"fraction_of_limit", speed.fraction}};
}

void print(const char* what, const Speed& speed) {
  std::printf("%-26s %10.2f ms %10.1f tokens/s %8.1f GB/s %8.3f TFLOP/s   %.2f of the limit\n",
              what, speed.seconds * 1e3, speed.tokens_per_second, speed.gigabytes_per_second,
              speed.teraflops, speed.fraction);
}

Status bench(const BenchFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  Pipeline& pipeline = *opened.pipeline;
  const Work work = work_of(pipeline);
  const uint32_t threads = pipeline.executor->workers();
  watch_interrupts();
  std::vector<Speed> prefills, decodes;
  std::vector<MachineLimits> all_limits;
  for (uint32_t i = 0; i < flags.repeat && !interrupted(); ++i) {
    const MachineLimits before = measure_machine_limits(pipeline.host.cpu_isa, threads, 0.3);
    TENON_ASSIGN_OR_RETURN(const Sample sample, measure(pipeline, flags, i));
    const MachineLimits limits =
        between(before, measure_machine_limits(pipeline.host.cpu_isa, threads, 0.3));
    all_limits.push_back(limits);
    const double batch = flags.batch;
    const double prompt = flags.prompt_tokens;
    prefills.push_back(
        speed_of(sample.prefill_seconds, prompt * batch, batch, prompt * batch, work, limits));
    decodes.push_back(speed_of(sample.decode_seconds, batch, batch,
                               (prompt + flags.decode_tokens / 2.0) * batch, work, limits));
  }
  if (decodes.empty()) return failed("interrupted before anything was measured");
  const Speed prefill = median_speed(std::move(prefills));
  const Speed decode = median_speed(std::move(decodes));
  const MachineLimits& limits = all_limits.back();
  if (flags.json) {
    const Json out = {{"format", 1},
                      {"pipeline", {{"hash", pipeline.hash}, {"numerics", pipeline.numerics}}},
                      {"machine",
                       {{"processor", cpu_brand()},
                        {"threads", threads},
                        {"read_gbps", limits.read_median_gbps},
                        {"read_best_gbps", limits.read_gbps},
                        {"fma_tflops", limits.fma_flops / 1e12},
                        {"bf16_tflops", limits.bf16_flops / 1e12},
                        {"int8_tops", limits.int8_ops / 1e12},
                        {"barrier_ns", limits.barrier_ns}}},
                      {"batch", flags.batch},
                      {"prompt_tokens", flags.prompt_tokens},
                      {"repeat", all_limits.size()},
                      {"prefill", to_json(prefill)},
                      {"decode", to_json(decode)}};
    std::printf("%s\n", out.dump(2).c_str());
    return {};
  }
  std::printf(
      "%s, %u threads; limits now: read %.1f (best %.1f) GB/s, fp32 %.3f, bf16 %.3f TFLOP/s, "
      "barrier %.0f ns\n",
      cpu_brand().c_str(), threads, limits.read_median_gbps, limits.read_gbps,
      limits.fma_flops / 1e12, limits.bf16_flops / 1e12, limits.barrier_ns);
  std::printf("numerics: %s\nmedian of %zu runs, batch %u\n", pipeline.numerics.c_str(),
              all_limits.size(), flags.batch);
  char label[64];
  std::snprintf(label, sizeof(label), "prefill, %u tokens", flags.prompt_tokens);
  print(label, prefill);
  std::snprintf(label, sizeof(label), "decode, at %u tokens", flags.prompt_tokens);
  print(label, decode);
  return {};
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure prefill and decode as fractions of the machine's limit");
  command->add_option("--prompt-tokens", flags->prompt_tokens, "tokens of each prompt")
      ->check(CLI::Range(1u, 1u << 20));
  command->add_option("--decode-tokens", flags->decode_tokens, "steps to decode")
      ->check(CLI::Range(1u, 1u << 20));
  command->add_option("--batch", flags->batch, "sequences at once")->check(CLI::Range(1u, 4096u));
  command->add_option("--repeat", flags->repeat, "repetitions; the median is shown")
      ->check(CLI::Range(1u, 1000u));
  command->add_flag("--json", flags->json, "machine-readable output");
  flags->pipeline.add_to(*command);
  command->callback([flags, &action] {
    action = [flags] {
      const Status status = bench(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
