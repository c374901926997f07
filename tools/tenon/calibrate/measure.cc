#include "tools/tenon/calibrate/measure.h"

#include "core/base/statistics.h"
#include "core/engine/engine.h"
#include "tools/tenon/process/interrupt.h"

namespace tenon {
namespace {

constexpr uint32_t kDecodedTokens = 12;

std::vector<TokenId> prompt_of(uint32_t tokens, uint32_t vocabulary, uint32_t variant) {
  std::vector<TokenId> out(tokens);
  uint64_t state = 0x9e3779b97f4a7c15u * (variant + 1);
  for (TokenId& token : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<TokenId>((state >> 33) % vocabulary);
  }
  return out;
}

struct Timed {
  std::vector<double> prompts, rows;
};

Status run_plan(Pipeline& pipeline, const StepPlan& plan, uint32_t variant, Timed& out) {
  EngineOptions options = pipeline.engine_options();
  options.on_step = [&](const StepRecord& step) {
    const double seconds = static_cast<double>(step.end_ns - step.start_ns) * 1e-9;
    if (step.rows == plan.sequences * plan.prompt_tokens) {
      out.prompts.push_back(seconds);
    } else if (step.rows == plan.sequences && step.logits_rows == plan.sequences) {
      out.rows.push_back(seconds);
    }
  };
  Engine engine(pipeline.parts(), options);
  const uint32_t vocabulary = pipeline.shape->shape().vocabulary;
  for (uint32_t i = 0; i < plan.sequences; ++i) {
    Request request;
    request.prompt = prompt_of(plan.prompt_tokens, vocabulary, variant * plan.sequences + i);
    request.sampling.temperature = 0;
    request.max_tokens = kDecodedTokens + 1;
    request.ignore_eos = true;
    request.sink = std::make_shared<ResultSink>();
    TENON_RETURN_IF_ERROR(engine.submit(std::move(request)).take_status());
  }
  while (!engine.idle()) {
    if (interrupted()) return failed("ended by " + std::string(interrupt_name()));
    TENON_RETURN_IF_ERROR(engine.step());
  }
  return engine.last_fault().empty() ? Status() : failed(engine.last_fault());
}

bool fits(const SchedulerLimits& limits, const StepPlan& plan) {
  return plan.sequences * plan.prompt_tokens <= limits.max_batch_tokens &&
         plan.prompt_tokens + kDecodedTokens + 1 <= limits.context_tokens;
}

std::string words_of(const CalibratedModel& model, const StepPlan& plan, const char* what) {
  return model.name + ": " + what + " of " + std::to_string(plan.sequences) + " × " +
         std::to_string(plan.prompt_tokens);
}

sim::MeasuredStep step_of(const CalibratedModel& model, const StepPlan& plan, bool prompts,
                          double seconds) {
  sim::MeasuredStep out{.model = model.steps.get(), .held_out = model.held_out};
  const uint32_t rows = prompts ? plan.prompt_tokens : 1;
  const uint32_t entries = prompts ? plan.prompt_tokens : plan.prompt_tokens + kDecodedTokens / 2;
  out.sequences.assign(plan.sequences, {rows, entries});
  out.logits_rows = plan.sequences;
  out.seconds = seconds;
  out.name = words_of(model, plan, prompts ? "prompts" : "rows");
  return out;
}

}  // namespace

Status measure_round(const std::vector<StepPlan>& plans, uint32_t threads, CalibratedModel& model) {
  llm::PipelineSource source;
  source.overrides = {"model.path=" + model.path, "scheduler.plugin=continuous",
                      "kv_cache.plugin=paged", "limits.max_sequences=32",
                      "executor.threads=" + std::to_string(threads)};
  TENON_ASSIGN_OR_RETURN(PipelineConfig config, llm::read_config(source));
  TENON_ASSIGN_OR_RETURN(const llm::OpenedPipeline opened,
                         llm::open_pipeline(std::move(config), {}));
  Pipeline& pipeline = *opened.pipeline;
  if (model.steps == nullptr) {
    model.steps = std::make_unique<sim::StepModel>(*pipeline.model, pipeline.shape->shape(),
                                                   pipeline.geometry);
  }
  model.prompts.resize(plans.size());
  model.rows.resize(plans.size());
  bool warm = false;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (!fits(pipeline.limits, plans[i])) continue;
    const auto round = static_cast<uint32_t>(model.rows[i].size());
    if (!warm) {
      Timed not_counted;
      TENON_RETURN_IF_ERROR(run_plan(pipeline, plans[i], round, not_counted));
      warm = true;
    }
    Timed timed;
    TENON_RETURN_IF_ERROR(run_plan(pipeline, plans[i], round, timed));
    if (timed.prompts.empty() || timed.rows.empty()) continue;
    model.prompts[i].push_back(timed.prompts.front());
    model.rows[i].push_back(median(timed.rows));
  }
  return {};
}

std::vector<sim::MeasuredStep> measured_steps(const std::vector<StepPlan>& plans,
                                              const CalibratedModel& model) {
  std::vector<sim::MeasuredStep> out;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (model.rows[i].empty()) continue;
    out.push_back(step_of(model, plans[i], true, median(model.prompts[i])));
    out.push_back(step_of(model, plans[i], false, median(model.rows[i])));
  }
  return out;
}

}  // namespace tenon
