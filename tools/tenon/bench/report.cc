#include "tools/tenon/bench/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/machine/cpu_features.h"
#include "core/base/statistics.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

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

Json to_json(const StepOperations& operations) {
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

DraftGain median_gain(const std::vector<DraftGain>& gains) {
  std::vector<double> tokens, speedups;
  for (const DraftGain& gain : gains) {
    tokens.push_back(gain.tokens_a_step);
    speedups.push_back(gain.speedup);
  }
  return {median(std::move(tokens)), median(std::move(speedups))};
}

void show_json(const Pipeline& pipeline, const StepWork& work, const Measured& measured) {
  const Speed decode = median_speed(measured.decode);
  Json out = {{"format", 2},
              {"pipeline", {{"hash", pipeline.hash}, {"numerics", pipeline.numerics}}},
              {"machine", machine_json(measured.threads, measured.limits)},
              {"load_seconds", measured.load_seconds},
              {"memory", to_json(measured.memory)},
              {"work",
               {{"weight_bytes", work.weight_bytes},
                {"kv_bytes_per_token", work.kv_bytes_per_token},
                {"state_bytes", work.state_bytes},
                {"row_operations", to_json(work.row)},
                {"head_operations", to_json(work.head)}}},
              {"batch", measured.plan.batch},
              {"prompt_tokens", measured.plan.prompt_tokens},
              {"decode_tokens", measured.plan.decode_tokens},
              {"repeat", measured.decode.size()},
              {"prefill", to_json(median_speed(measured.prefill))},
              {"decode", to_json(decode)}};
  if (interrupted()) out["partial"] = "ended by " + std::string(interrupt_name());
  out["decode"]["mean_step_seconds"] = median(measured.decode_means);
  if (work.expert_bytes > 0) {
    out["work"]["expert_bytes"] = work.expert_bytes;
    out["work"]["expert_share"] = work.expert_share;
    out["decode"]["used_expert_bytes"] = median(measured.decode_expert_bytes);
  }
  if (!measured.verify.empty()) {
    const Speed verify = median_speed(measured.verify);
    out["verify"] = to_json(verify);
    out["verify"]["tokens"] = measured.plan.verify_tokens;
    const double times = verify.seconds / decode.seconds;
    out["verify"]["times_decode"] = times;
    if (!measured.gains.empty()) {
      const DraftGain gain = median_gain(measured.gains);
      out["verify"]["acceptance"] = *measured.plan.acceptance;
      out["verify"]["tokens_a_step"] = gain.tokens_a_step;
      out["verify"]["speedup"] = gain.speedup;
      out["verify"]["of_expected"] = gain.speedup * times / gain.tokens_a_step;
    }
  }
  put(json_text(out));
}

void show(const Pipeline& pipeline, const Measured& measured) {
  if (measured.limits) print(measured.threads, *measured.limits);
  putf("numerics: %s\nmedian of %zu runs, batch %u\n", pipeline.numerics.c_str(),
       measured.decode.size(), measured.plan.batch);
  if (interrupted()) {
    putf("partial: ended by %s; %u runs were asked for\n", interrupt_name(), measured.wanted);
  }
  putf("loaded in %.2f s; ", measured.load_seconds);
  print(measured.memory);
  const std::string prompt = std::to_string(measured.plan.prompt_tokens) + " tokens";
  print("prefill, " + prompt, median_speed(measured.prefill));
  const Speed decode = median_speed(measured.decode);
  print("decode, at " + prompt, decode);
  if (!measured.decode_expert_bytes.empty() && measured.decode_expert_bytes.front() > 0) {
    putf("experts used in a step: %.3f GB\n", median(measured.decode_expert_bytes) / 1e9);
  }
  if (measured.verify.empty()) return;
  const Speed verify = median_speed(measured.verify);
  print("verify " + std::to_string(measured.plan.verify_tokens) + ", at " + prompt, verify);
  const double times = verify.seconds / decode.seconds;
  putf("verifying takes %.2f times as long as decoding\n", times);
  if (measured.gains.empty()) return;
  const DraftGain gain = median_gain(measured.gains);
  putf("%.2f tokens a step at an acceptance of %.2f: %.2f times as fast, %.2f of (tokens / cost)\n",
       gain.tokens_a_step, *measured.plan.acceptance, gain.speedup,
       gain.speedup * times / gain.tokens_a_step);
}

}  // namespace

Speed speed_of(double seconds, const StepWork& work, const StepLoad& load,
               const std::optional<MachineLimits>& limits) {
  Speed speed;
  speed.seconds = seconds;
  speed.tokens_per_second = load.rows / seconds;
  speed.gigabytes_per_second = (weight_bytes_of(work, load) + work.bytes_of(load)) / seconds / 1e9;
  speed.teraops = operations_of(work, load).sum() / seconds / 1e12;
  if (!limits) return speed;
  speed.processor_share = limits->processor_share;
  if (!speed.busy()) speed.limit_seconds = limit_seconds(work, load, *limits);
  return speed;
}

void show_measured(const Pipeline& pipeline, bool json, const StepWork& work,
                   const Measured& measured) {
  if (measured.decode.empty()) {
    tell("ended by " + std::string(interrupt_name()) + " before anything was measured");
  } else if (json) {
    show_json(pipeline, work, measured);
  } else {
    show(pipeline, measured);
  }
}

void show_limits(uint32_t threads, const MachineLimits& limits, bool json) {
  if (json) {
    put(json_text(machine_json(threads, limits)));
  } else {
    print(threads, limits);
  }
}

}  // namespace tenon
