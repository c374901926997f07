#include "tools/tenon/bench/measure.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

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

// What is known of the answers beforehand: tokens of each request, which its seed numbers, and
// after how many tokens of a history they begin.
struct KnownAnswers {
  std::vector<std::vector<TokenId>> tokens;
  uint32_t prompt_tokens = 0;
  double acceptance = 0;  // how likely a draft is to be one of them
};

// Proposes a fixed number of tokens in every second step, so that steps with and without drafts
// are measured in turn.
class AlternatingDrafter final : public Drafter {
 public:
  AlternatingDrafter(uint32_t drafts, uint32_t vocabulary, const KnownAnswers& known,
                     uint32_t variant)
      : drafts_(drafts),
        vocabulary_(vocabulary),
        known_(known),
        tokens_(vocabulary, 1),
        chance_(kChances, variant) {}
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
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override {
    for (size_t i = 0; i < drafts.size(); ++i) {
      DraftOut& out = drafts[i];
      out.count = std::min(drafts_, static_cast<uint32_t>(out.tokens.size()));
      for (uint32_t place = 0; place < out.count; ++place) {
        out.tokens[place] = known_.tokens.empty() ? tokens_.next() : like_known(requests[i], place);
      }
    }
    return {};
  }
  Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) noexcept override {
    return {};
  }
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }

 private:
  // The token that will come, or as often as drafts are not to be kept, another one.
  TokenId like_known(const DraftRequest& request, uint32_t place) {
    const std::vector<TokenId>& answer = known_.tokens[request.key.seed];
    const size_t at = request.history.size() - known_.prompt_tokens + place;
    const TokenId right = at < answer.size() ? answer[at] : 0;
    if (chance_.next() < known_.acceptance * kChances) return right;
    return static_cast<TokenId>((static_cast<uint32_t>(right) + 1) % vocabulary_);
  }

  static constexpr uint32_t kChances = 1u << 20;
  const uint32_t drafts_, vocabulary_;
  const KnownAnswers& known_;
  TokenSource tokens_, chance_;
  bool drafting_ = false;
};

using Sinks = std::vector<std::shared_ptr<ResultSink>>;

Status submit_batch(Engine& engine, const BenchPlan& plan, uint32_t vocabulary, uint32_t variant,
                    Sinks& sinks) {
  for (uint32_t i = 0; i < plan.batch; ++i) {
    TokenSource tokens(vocabulary, uint64_t{variant} * plan.batch + i);
    Request request;
    request.prompt.resize(plan.prompt_tokens);
    std::ranges::generate(request.prompt, [&] { return tokens.next(); });
    request.sampling.temperature = 0;
    request.sampling.seed = i;
    if (!plan.adapters.empty()) request.adapter = plan.adapters[i % plan.adapters.size()];
    request.max_tokens = plan.decode_tokens + 1;
    request.ignore_eos = true;
    sinks.push_back(std::make_shared<ResultSink>());
    request.sink = sinks.back();
    TENON_ASSIGN_OR_RETURN(const RequestId id, engine.submit(std::move(request)));
    static_cast<void>(id);
  }
  return {};
}

// Tokens a second of some steps.
struct Rate {
  double tokens = 0, seconds = 0;
  uint32_t steps = 0;

  void add(const StepRecord& step, int64_t until_ns) {
    tokens += step.tokens;
    seconds += static_cast<double>(until_ns - step.start_ns) * 1e-9;
    ++steps;
  }
  double per_second() const { return tokens / seconds; }
};

// What drafts brought, in the steps that compute the whole batch.
void compare_rates(const std::vector<StepRecord>& steps, const BenchPlan& plan,
                   BenchSample& sample) {
  Rate plain, verifying;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const StepRecord& step = steps[i];
    const bool whole = step.sequences == plan.batch;
    if (!whole || step.rows - step.draft_rows > step.sequences) continue;
    if (step.draft_rows == 0) plain.add(step, steps[i + 1].start_ns);
    if (step.draft_rows == plan.batch * (plan.verify_tokens - 1)) {
      verifying.add(step, steps[i + 1].start_ns);
    }
  }
  if (plain.steps == 0 || verifying.steps == 0) return;
  sample.tokens_a_step = verifying.tokens / verifying.steps / plan.batch;
  sample.speedup = verifying.per_second() / plain.per_second();
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

// The steps of a batch from its prompts to its end; `answers` gets each request's tokens.
Result<std::vector<StepRecord>> run_batch(Pipeline& pipeline, const BenchPlan& plan,
                                          uint32_t variant, Drafter* drafter,
                                          std::vector<std::vector<TokenId>>& answers) {
  std::vector<StepRecord> steps;
  EngineOptions options = pipeline.engine_options();
  options.on_step = [&steps](const StepRecord& step) { steps.push_back(step); };
  EngineParts parts = pipeline.parts();
  if (drafter != nullptr) {
    parts.drafter = drafter;
    parts.drafter_name = "bench";
    parts.draft_runner = nullptr;
    parts.verify_by_rejection = false;
    options.max_draft_tokens = plan.verify_tokens - 1;
  }
  Engine engine(std::move(parts), options);
  Sinks sinks;
  TENON_RETURN_IF_ERROR(
      submit_batch(engine, plan, pipeline.shape->shape().vocabulary, variant, sinks));
  while (!engine.idle()) {
    if (interrupted()) return failed("ended by " + std::string(interrupt_name()));
    TENON_RETURN_IF_ERROR(engine.step());
  }
  if (!engine.last_fault().empty()) return failed(engine.last_fault());
  answers.clear();
  for (const auto& sink : sinks) {
    answers.push_back(sink->samples().empty() ? std::vector<TokenId>()
                                              : sink->samples().front().ids());
  }
  return steps;
}

Status check_sample(const BenchSample& sample, const BenchPlan& plan) {
  const auto never = [&](const std::string& what) {
    return failed(
        "no step " + what + " all " + std::to_string(plan.batch) +
        " sequences; raise kv_cache.memory or limits.max_sequences, or decode more tokens");
  };
  if (sample.decode_seconds == 0) return never("decoded");
  if (plan.verify_tokens > 1 && sample.verify_seconds == 0) return never("verified drafts of");
  if (plan.acceptance && sample.speedup == 0) return never("was followed by another of");
  return {};
}

}  // namespace

Result<BenchSample> measure_steps(Pipeline& pipeline, const BenchPlan& plan, uint32_t variant) {
  if (pipeline.model->plan.mask_token) {
    return unsupported(
        "the model generates by diffusion, in steps that are neither prefill nor decoding – `tenon "
        "run` reports how fast it is – choose a model that generates token by token");
  }
  KnownAnswers known;
  std::vector<std::vector<TokenId>> answers;
  std::vector<StepRecord> before;
  if (plan.acceptance) {
    known.prompt_tokens = plan.prompt_tokens;
    known.acceptance = *plan.acceptance;
    TENON_ASSIGN_OR_RETURN(before, run_batch(pipeline, plan, variant, nullptr, known.tokens));
  }
  AlternatingDrafter drafter(plan.verify_tokens - 1, pipeline.shape->shape().vocabulary, known,
                             variant);
  TENON_ASSIGN_OR_RETURN(
      const std::vector<StepRecord> steps,
      run_batch(pipeline, plan, variant, plan.verify_tokens > 1 ? &drafter : nullptr, answers));
  BenchSample sample = sample_of(steps, plan);
  if (plan.acceptance) {
    compare_rates(steps, plan, sample);
    // The second time a cache may have the prompts.
    const BenchSample first = sample_of(before, plan);
    sample.prefill_seconds = first.prefill_seconds;
    sample.prefill_expert_bytes = first.prefill_expert_bytes;
  }
  TENON_RETURN_IF_ERROR(check_sample(sample, plan));
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
