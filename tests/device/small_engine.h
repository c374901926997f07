// An engine over a small world, made of real plugins, and what it answers to some requests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "tests/device/small_world.h"

namespace tenon::test {

struct EngineCase {
  WorldOptions world;
  Side side = Side::cpu;
  std::string scheduler = "continuous";
  std::string kv_cache = "paged";
  // What the engine gets in the scheduler's place.
  std::function<Scheduler*(Scheduler&, Executor&)> around_scheduler = {};
  Drafter* drafter = nullptr;
  bool trees = false;
  bool plan_ahead = false;
};

// One sample's tokens, and a digest of the logits that they were drawn from.
struct Answer {
  std::vector<TokenId> ids;
  uint64_t digest = 0;
  std::string message;
  friend bool operator==(const Answer&, const Answer&) = default;
};
void PrintTo(const Answer& answer, std::ostream* out);

class SmallEngine {
 public:
  explicit SmallEngine(const EngineCase& c);

  // Runs a mix of requests; all samples of all of them, in order. Fails the test where something
  // was at fault.
  std::vector<Answer> run();

 private:
  void bind_drafter(Drafter& drafter, EngineParts& parts);

  SmallWorld world_;
  Machine machine_;
  LoadedPlugin<Scheduler> scheduler_;
  LoadedPlugin<KVCacheManager> kv_cache_;
  LoadedPlugin<Sampler> sampler_;
  VirtualClock clock_;
  std::unique_ptr<Engine> engine_;
};

// Two groups of which one is windowed, and too little memory for all requests at once.
WorldOptions engine_world(const std::string& kv_cache);
// What every run over such a world must give: on the CPU executor, without drafts.
const std::vector<Answer>& answers_of_the_host();

}  // namespace tenon::test
