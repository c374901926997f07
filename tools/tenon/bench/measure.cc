#include "tools/tenon/bench/measure.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "core/base/statistics.h"
#include "core/engine/engine.h"
#include "core/report/machine_use.h"
#include "tools/tenon/process/interrupt.h"

namespace tenon {
namespace {

// A token that no model is likely to follow with the next one.
class TokenSource {
 public:
  TokenSource(uint32_t vocabulary, uint64_t variant)
      : vocabulary_(vocabulary), state_(0x9E3779B97F4A7C15ull * (variant + 1)) {}
  TokenId next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<TokenId>((state_ >> 33) % vocabulary_);
  }

 private:
  uint32_t vocabulary_;
  uint64_t state_;
};

// Proposes a fixed number of tokens in every second step, so that steps with and without drafts
// are measured in turn.
class AlternatingDrafter final : public Drafter {
 public:
  AlternatingDrafter(uint32_t drafts, uint32_t vocabulary)
      : drafts_(drafts), tokens_(vocabulary, 1) {}
  virtual ~AlternatingDrafter() = default;

  Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
  Status begin(SeqId, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override {
    drafting_ = !drafting_;
    for (size_t i = 0; i < requests.size(); ++i) {
      offered[i] = drafting_ && requests[i].max_tokens >= drafts_ ? drafts_ : 0;
    }
    return {};
  }
  Status draft(std::span<const DraftRequest>, std::span<DraftOut> drafts) noexcept override {
    for (DraftOut& out : drafts) {
      out.count = std::min(drafts_, static_cast<uint32_t>(out.tokens.size()));
      for (uint32_t i = 0; i < out.count; ++i) out.tokens[i] = tokens_.next();
    }
    return {};
  }
  Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) noexcept override {
    return {};
  }
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }

 private:
  const uint32_t drafts_;
  TokenSource tokens_;
  bool drafting_ = false;
};

Status submit_batch(Engine& engine, const BenchPlan& plan, uint32_t vocabulary, uint32_t variant) {
  for (uint32_t i = 0; i < plan.batch; ++i) {
    TokenSource tokens(vocabulary, uint64_t{variant} * plan.batch + i);
    Request request;
    request.prompt.resize(plan.prompt_tokens);
    std::ranges::generate(request.prompt, [&] { return tokens.next(); });
    request.sampling.temperature = 0;
    if (!plan.adapters.empty()) request.adapter = plan.adapters[i % plan.adapters.size()];
    request.max_tokens = plan.decode_tokens + 1;
    request.ignore_eos = true;
    request.sink = std::make_shared<ResultSink>();
    TENON_ASSIGN_OR_RETURN(const RequestId id, engine.submit(std::move(request)));
    static_cast<void>(id);
  }
  return {};
}

BenchSample sample_of(const std::vector<StepRecord>& steps, const BenchPlan& plan) {
  BenchSample sample;
  std::vector<double> decode, verify, expert_bytes;
  for (const StepRecord& step : steps) {
    const double seconds = static_cast<double>(step.end_ns - step.start_ns) * 1e-9;
    const uint32_t certain = step.rows - step.draft_rows;
    if (certain > step.sequences) {
      sample.prefill_seconds += seconds;
      sample.prefill_expert_bytes =
          std::max(sample.prefill_expert_bytes, static_cast<double>(step.expert_bytes));
    } else if (step.sequences != plan.batch) {
      continue;
    } else if (step.draft_rows == 0) {
      decode.push_back(seconds);
      expert_bytes.push_back(static_cast<double>(step.expert_bytes));
    } else if (step.draft_rows == plan.batch * (plan.verify_tokens - 1)) {
      verify.push_back(seconds);
      sample.verify_expert_bytes = static_cast<double>(step.expert_bytes);
    }
  }
  sample.decode_mean_seconds = std::accumulate(decode.begin(), decode.end(), 0.0) /
                               static_cast<double>(std::max<size_t>(1, decode.size()));
  sample.decode_expert_bytes = std::accumulate(expert_bytes.begin(), expert_bytes.end(), 0.0) /
                               static_cast<double>(std::max<size_t>(1, expert_bytes.size()));
  sample.decode_seconds = decode.empty() ? 0 : median(std::move(decode));
  sample.verify_seconds = verify.empty() ? 0 : median(std::move(verify));
  return sample;
}

}  // namespace

Result<BenchSample> measure_steps(Pipeline& pipeline, const BenchPlan& plan, uint32_t variant) {
  if (pipeline.model->plan.mask_token) {
    return unsupported(
        "the model generates by diffusion, in steps that are neither prefill nor decoding – `tenon "
        "run` reports how fast it is – choose a model that generates token by token");
  }
  const uint32_t vocabulary = pipeline.shape->shape().vocabulary;
  std::vector<StepRecord> steps;
  EngineOptions options = pipeline.engine_options();
  options.on_step = [&steps](const StepRecord& step) { steps.push_back(step); };
  AlternatingDrafter drafter(plan.verify_tokens - 1, vocabulary);
  EngineParts parts = pipeline.parts();
  if (plan.verify_tokens > 1) {
    parts.drafter = &drafter;
    parts.drafter_name = "bench";
    parts.draft_runner = nullptr;
    parts.verify_by_rejection = false;
    options.max_draft_tokens = plan.verify_tokens - 1;
  }
  Engine engine(std::move(parts), options);
  TENON_RETURN_IF_ERROR(submit_batch(engine, plan, vocabulary, variant));
  while (!engine.idle()) {
    if (interrupted()) return failed("ended by " + std::string(interrupt_name()));
    TENON_RETURN_IF_ERROR(engine.step());
  }
  if (!engine.last_fault().empty()) return failed(engine.last_fault());
  const BenchSample sample = sample_of(steps, plan);
  const auto never = [&](const std::string& what) {
    return failed(
        "no step " + what + " all " + std::to_string(plan.batch) +
        " sequences; raise kv_cache.memory or limits.max_sequences, or decode more tokens");
  };
  if (sample.decode_seconds == 0) return never("decoded");
  if (plan.verify_tokens > 1 && sample.verify_seconds == 0) return never("verified drafts of");
  return sample;
}

double limit_seconds(const StepWork& work, const StepLoad& load, const MachineLimits& limits) {
  const StepOperations operations = operations_of(work, load);
  return least_seconds({.weight_bytes = weight_bytes_of(work, load),
                        .kv_bytes = work.bytes_of(load),
                        .int8_operations = operations.int8,
                        .bf16_operations = operations.bf16,
                        .f32_operations = operations.f32},
                       {.read_bytes = limits.read_median_gbps * 1e9,
                        .f32 = limits.fma_flops,
                        .bf16 = limits.bf16_flops,
                        .int8 = limits.int8_ops});
}

}  // namespace tenon
