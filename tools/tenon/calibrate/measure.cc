#include "tools/tenon/calibrate/measure.h"

#include <algorithm>

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
  std::vector<double> prompts_seconds, rows_seconds;
};

// Again and again in one engine, as requests come to one that runs already: the first time, which
// wakes workers and touches memory, does not count.
Status run_plan(const CalibratedModel& model, const StepPlan& plan, uint32_t repeats, Timed& out) {
  Pipeline& pipeline = *model.opened.pipeline;
  bool counts = false;
  EngineOptions options = pipeline.engine_options();
  options.on_step = [&](const StepRecord& step) {
    const double seconds = static_cast<double>(step.end_ns - step.start_ns) * 1e-9;
    if (!counts) return;
    if (step.rows == plan.sequences * plan.prompt_tokens) {
      out.prompts_seconds.push_back(seconds);
    } else if (step.rows == plan.sequences && step.logits_rows == plan.sequences) {
      out.rows_seconds.push_back(seconds);
    }
  };
  Engine engine(pipeline.parts(), options);
  const uint32_t vocabulary = pipeline.shape->shape().vocabulary;
  for (uint32_t repeat = 0; repeat <= repeats; ++repeat) {
    for (uint32_t i = 0; i < plan.sequences; ++i) {
      Request request;
      request.prompt = prompt_of(plan.prompt_tokens, vocabulary, repeat * plan.sequences + i);
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
    if (!engine.last_fault().empty()) return failed(engine.last_fault());
    counts = true;
  }
  return {};
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

Result<CalibratedModel> open_calibrated(const std::string& name, const std::string& path,
                                        uint32_t threads, bool held_out) {
  llm::PipelineSource source;
  source.overrides = {"model.path=" + path, "scheduler.plugin=continuous", "kv_cache.plugin=paged",
                      "limits.max_sequences=32", "executor.threads=" + std::to_string(threads)};
  TENON_ASSIGN_OR_RETURN(PipelineConfig config, llm::read_config(source));
  CalibratedModel out{.name = name, .opened = {}, .steps = {}, .held_out = held_out};
  TENON_ASSIGN_OR_RETURN(out.opened, llm::open_pipeline(std::move(config), {}));
  const Pipeline& pipeline = *out.opened.pipeline;
  out.steps =
      std::make_unique<sim::StepModel>(*pipeline.model, pipeline.shape->shape(), pipeline.geometry);
  return out;
}

Result<std::vector<sim::MeasuredStep>> measure_plans(const CalibratedModel& model,
                                                     const std::vector<StepPlan>& plans,
                                                     uint32_t repeats) {
  std::vector<sim::MeasuredStep> out;
  const SchedulerLimits& limits = model.opened.pipeline->limits;
  for (const StepPlan& plan : plans) {
    const bool fits = plan.sequences * plan.prompt_tokens <= limits.max_batch_tokens &&
                      plan.prompt_tokens + kDecodedTokens + 1 <= limits.context_tokens;
    if (!fits) continue;
    Timed timed;
    TENON_RETURN_IF_ERROR(run_plan(model, plan, repeats, timed));
    if (timed.rows_seconds.empty() || timed.prompts_seconds.empty()) continue;
    out.push_back(step_of(model, plan, true, median(timed.prompts_seconds)));
    out.push_back(step_of(model, plan, false, median(timed.rows_seconds)));
  }
  return out;
}

}  // namespace tenon
