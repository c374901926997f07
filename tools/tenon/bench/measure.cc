#include "tools/tenon/bench/measure.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "core/base/statistics.h"
#include "core/engine/engine.h"
#include "core/model/tensors/tensor_values.h"
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

BenchOperations operations_in(const Weight& weight) {
  const double operations = 2.0 * weight.n_out * weight.k_in;
  if (weight.format == "bf16") return {.bf16 = operations};
  if (weight.format == "f32" || weight.format == "f16") return {.f32 = operations};
  return {.int8 = operations};
}

void add(BenchOperations& sum, const BenchOperations& more, double times = 1) {
  sum.int8 += more.int8 * times;
  sum.bf16 += more.bf16 * times;
  sum.f32 += more.f32 * times;
}

double stored_bytes(const Weight& weight) {
  double bytes = 0;
  for (const TensorView& part : weight.parts) bytes += static_cast<double>(bytes_of(part).size());
  return bytes;
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

BenchWork work_of(const Pipeline& pipeline) {
  const Model& model = *pipeline.model;
  BenchWork work;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerWeights& layer = model.layers[i];
    for (const Weight* weight : layer.matrices()) {
      add(work.row, operations_in(*weight));
      work.weight_bytes += stored_bytes(*weight);
    }
    // A row meets the chosen ones alone, a step those that any of its rows chose.
    const ExpertsPlan& experts = model.plan.layers[i].experts;
    if (experts) work.expert_share = static_cast<double>(experts.chosen) / experts.count;
    const double idle = experts ? 1.0 - work.expert_share : 0.0;
    for (const ExpertWeights& expert : layer.experts) {
      for (const Weight* weight : {&expert.gate, &expert.up, &expert.down}) {
        add(work.row, operations_in(*weight), -idle);
        work.weight_bytes -= stored_bytes(*weight);
        work.expert_bytes += stored_bytes(*weight);
      }
    }
  }
  work.head = operations_in(model.head);
  work.weight_bytes += stored_bytes(model.head);
  const ModelShape& shape = pipeline.shape->shape();
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const auto bytes = static_cast<double>(pipeline.group_geometry[group].bytes_per_token);
    if (shape.groups[group].kind == KvKind::recurrent) {
      work.state_bytes += bytes;
    } else if (group == shape.ledger_group) {
      work.kv_bytes_per_token = bytes;
    }
  }
  return work;
}

// Of K, V and states. A sequence samples one row a step.
double BenchWork::bytes_of(const BenchLoad& load) const {
  return load.kv_tokens * kv_bytes_per_token + load.sampled_rows * 2 * state_bytes;
}

BenchOperations operations_of(const BenchWork& work, const BenchLoad& load) {
  BenchOperations all;
  add(all, work.row, load.rows);
  add(all, work.head, load.sampled_rows);
  return all;
}

// Executors that do not tell which experts they used count as if they used all.
double weight_bytes_of(const BenchWork& work, const BenchLoad& load) {
  return work.weight_bytes + (load.expert_bytes > 0 ? load.expert_bytes : work.expert_bytes);
}

double limit_seconds(const BenchWork& work, const BenchLoad& load, const MachineLimits& limits) {
  const BenchOperations operations = operations_of(work, load);
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
