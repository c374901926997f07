#include "tests/device/small_engine.h"

#include <utility>

namespace tenon::test {
namespace {

std::vector<Request> some_requests(uint32_t vocabulary) {
  std::vector<Request> requests;
  uint64_t random = 7;
  for (const uint32_t length : {3u, 17u, 1u, 22u, 9u, 16u, 12u}) {
    Request request;
    for (uint32_t p = 0; p < length; ++p) {
      random = random * 6364136223846793005ull + 1442695040888963407ull;
      request.prompt.push_back(static_cast<TokenId>((random >> 33) % vocabulary));
    }
    request.max_tokens = 10 + length % 9;
    request.samples = requests.size() == 4 ? 2 : 1;
    request.sampling.temperature = requests.size() % 3 == 2 ? 0.8f : 0.0f;
    request.sampling.seed = requests.size();
    requests.push_back(request);
  }
  return requests;
}

}  // namespace

void PrintTo(const Answer& answer, std::ostream* out) {
  *out << answer.ids.size() << " tokens, digest " << answer.digest << " " << answer.message;
}

SmallEngine::SmallEngine(const EngineCase& c)
    : world_(c.world),
      machine_(world_, c.side, 9),
      scheduler_("scheduler", c.scheduler),
      kv_cache_("kv_cache", c.kv_cache),
      sampler_("sampler", "standard") {
  EXPECT_EQ(scheduler_.error() + kv_cache_.error() + sampler_.error(), "");
  const Status bound = kv_cache_->bind(world_.shape, world_.geometry);
  EXPECT_TRUE(bound.ok()) << bound.message();
  EngineParts parts;
  parts.scheduler =
      c.around_scheduler ? c.around_scheduler(*scheduler_, machine_.executor()) : scheduler_.get();
  parts.kv_cache = kv_cache_.get();
  parts.sampler = sampler_.get();
  parts.drafter = c.drafter;
  parts.draft_trees = c.trees;
  parts.executor = &machine_.executor();
  parts.shape = &world_.shape;
  parts.geometry = world_.geometry;
  parts.limits = {world_.options.max_sequences, world_.options.max_rows,
                  world_.shape.context_tokens};
  parts.clock = &clock_;
  if (c.drafter != nullptr) bind_drafter(*c.drafter, parts);
  EngineOptions options;
  options.logits_digest = true;
  options.check_kv = true;
  options.plan_ahead = c.plan_ahead;
  engine_ = std::make_unique<Engine>(std::move(parts), std::move(options));
}

std::vector<Answer> SmallEngine::run() {
  std::vector<std::shared_ptr<ResultSink>> sinks;
  for (Request& request : some_requests(world_.shape.vocabulary)) {
    request.sink = sinks.emplace_back(std::make_shared<ResultSink>());
    const auto id = engine_->submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
  }
  const Status status = engine_->run_until_idle(2000);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(engine_->last_fault(), "");
  std::vector<Answer> answers;
  for (const auto& sink : sinks) {
    for (const ResultSink::Sample& sample : sink->samples()) {
      answers.push_back({sample.ids(), sample.record.logits_digest, sample.message});
    }
  }
  return answers;
}

void SmallEngine::bind_drafter(Drafter& drafter, EngineParts& parts) {
  std::vector<LayerId> room(world_.shape.layer_count + 1);
  HiddenLayersOut wanted{room};
  const Status bound = drafter.bind(world_.shape, wanted);
  EXPECT_TRUE(bound.ok()) << bound.message();
  parts.hidden_layers.assign(room.begin(), room.begin() + wanted.count);
  parts.hidden_drawn_only = wanted.drawn_only;
}

WorldOptions engine_world(const std::string& kv_cache) {
  WorldOptions world;
  world.config.layers = 4;
  world.config.window_tokens = {0, 9, 0, 9};
  world.block_tokens = kv_cache == "naive" ? 64 : 4;
  world.kv_tokens = kv_cache == "naive" ? 256 : 144;
  world.swap_tokens = kv_cache == "naive" ? 0 : 64;
  return world;
}

const std::vector<Answer>& answers_of_the_host() {
  static const std::vector<Answer> answers =
      SmallEngine({.world = engine_world("paged"), .side = Side::cpu}).run();
  return answers;
}

}  // namespace tenon::test
