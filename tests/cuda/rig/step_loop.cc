#include "tests/cuda/rig/step_loop.h"

#include <utility>

#include "core/engine/answers/row_draws.h"
#include "core/exec/ref/executor.h"
#include "core/request/sampling_keys.h"

namespace tenon::cuda::test {
namespace {

std::vector<Request> some_requests(uint32_t vocabulary) {
  std::vector<Request> requests;
  Numbers numbers(7);
  for (const uint32_t length : {3u, 14u, 1u, 9u, 6u}) {
    Request request;
    for (uint32_t i = 0; i < length; ++i) {
      request.prompt.push_back(static_cast<TokenId>(numbers.below(vocabulary)));
    }
    request.max_tokens = 4 + length % 5;
    request.samples = requests.size() == 3 ? 2 : 1;
    request.sampling.temperature = requests.size() % 2 == 1 ? 0.8f : 0.0f;
    request.sampling.seed = requests.size();
    requests.push_back(request);
  }
  return requests;
}

}  // namespace

StepLoop::StepLoop(const LoopCase& c)
    : world_(c.world),
      driver_(std::make_shared<TestDriver>(uint64_t{1} << 30, c.seed)),
      guest_(std::make_shared<TestGuest>(*driver_)),
      executor_(c.on_host ? make_ref_executor() : make_cuda_executor(driver_, loads(guest_))),
      scheduler_("scheduler", c.scheduler),
      kv_cache_("kv_cache", c.kv_cache),
      sampler_("sampler", "standard") {
  EXPECT_EQ(scheduler_.error() + kv_cache_.error() + sampler_.error(), "");
  if (c.guest) {
    c.guest(*guest_);
    EXPECT_TRUE(executor_->invite("cublaslt").ok());
  }
  ExecutorSetup setup;
  setup.model = world_.model.get();
  setup.shape = &world_.shape;
  setup.geometry = world_.geometry;
  setup.max_rows = c.world.max_rows;
  setup.max_sequences = c.world.max_sequences;
  setup.graph_bytes = c.graph_bytes;
  const Status loaded = executor_->load(setup);
  EXPECT_TRUE(loaded.ok()) << loaded.message();
  const Status bound = kv_cache_->bind(world_.shape, world_.geometry);
  EXPECT_TRUE(bound.ok()) << bound.message();
  watched_ = std::make_unique<WatchedScheduler>(*scheduler_, *driver_, c.on_plan);
  EngineParts parts;
  parts.scheduler = watched_.get();
  parts.kv_cache = kv_cache_.get();
  parts.sampler = sampler_.get();
  parts.executor = executor_.get();
  parts.drafter = c.drafter;
  parts.draft_trees = c.drafter != nullptr;
  parts.shape = &world_.shape;
  parts.geometry = world_.geometry;
  parts.limits = {c.world.max_sequences, c.world.max_rows, world_.shape.context_tokens};
  parts.clock = &clock_;
  const PluginHandle& sampler = sampler_.handle();
  const auto* order = static_cast<const std::string_view*>(
      sampler.descriptor()->extension(sampler.instance(), kRowDraws));
  if (c.draws) parts.draw_order = *parse_sampling_order(*order);
  EngineOptions options;
  options.logits_digest = !c.draws;
  options.check_kv = true;
  options.plan_ahead = c.plan_ahead;
  engine_ = std::make_unique<Engine>(std::move(parts), std::move(options));
}

std::vector<Answer> StepLoop::run() {
  std::vector<std::shared_ptr<ResultSink>> sinks;
  for (Request& request : some_requests(world_.shape.vocabulary)) {
    request.sink = sinks.emplace_back(std::make_shared<ResultSink>());
    const auto id = engine_->submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
  }
  const Status status = engine_->run_until_idle(500);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<Answer> answers;
  for (const auto& sink : sinks) {
    for (const auto& sample : sink->samples()) {
      answers.push_back({sample.ids(), sample.record.logits_digest, sample.message});
    }
  }
  return answers;
}

}  // namespace tenon::cuda::test
