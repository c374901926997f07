// Random wrong plugins: whatever one of them answers, every run ends, nothing crashes, and a
// request has either the text that it must have or an error that names the plugin at fault.
//
// TENON_WRONG_PLUGIN_STEPS sets how many steps a kind of plugin is given in all (20,000):
//   TENON_WRONG_PLUGIN_STEPS=250000 build/dev/bin/tenon_wrong_plugin_tests
#include "tests/fake_device/rig/wrong_plugins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "core/base/log.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMostStepsOfARun = 6000;

uint64_t steps_wanted() {
  const char* text = std::getenv("TENON_WRONG_PLUGIN_STEPS");
  return text == nullptr ? 20000 : std::strtoull(text, nullptr, 10);
}

enum class Kind { scheduler, kv_cache, sampler, drafter };
constexpr const char* kKinds[] = {"scheduler", "kv_cache", "sampler", "drafter"};

// A small world of random plugins, of which one is wrong.
class World {
 public:
  World(Kind kind, uint64_t seed) : kind_(kind), seed_(seed), random_(seed) {
    const char* const schedulers[] = {"static", "continuous", "chunked", "fair"};
    const char* const managers[] = {"naive", "paged", "prefix", "radix"};
    options_.scheduler = schedulers[random_.below(4)];
    options_.kv_cache = managers[random_.below(4)];
    options_.block_tokens = options_.kv_cache == "naive" ? 0 : 1u << random_.below(5);
    options_.context_tokens = 100;
    options_.kv_tokens = random_.below(2) == 0 ? 2000 : 400;
    options_.swap_tokens = random_.below(2) * 200;
    if (options_.scheduler != "static" && options_.swap_tokens > 0) {
      options_.scheduler_options = "preempt=swap";
    }
    options_.max_sequences = 6;
    options_.max_batch_tokens = 32 + random_.below(100);
    options_.window_tokens = random_.below(3) == 0 ? 13 : 0;
    options_.verify_by_rejection = false;
    options_.engine.check_kv = false;
    options_.engine.stall_steps = 60;
    options_.drafter = &toy_;
    const uint32_t every = 1 + random_.below(1u << random_.below(13));
    const WrongAnswers wrong(seed * 77 + 5, every);
    scheduler_ = std::make_unique<LoadedPlugin<Scheduler>>("scheduler", options_.scheduler,
                                                           options_.scheduler_options);
    manager_ = std::make_unique<LoadedPlugin<KVCacheManager>>("kv_cache", options_.kv_cache);
    sampler_ = std::make_unique<LoadedPlugin<Sampler>>("sampler", "standard");
    wrong_scheduler_ = std::make_unique<WrongScheduler>(**scheduler_, wrong);
    wrong_manager_ = std::make_unique<WrongKvCache>(**manager_, wrong);
    wrong_sampler_ = std::make_unique<WrongSampler>(**sampler_, wrong);
    wrong_drafter_ = std::make_unique<WrongDrafter>(toy_, wrong);
    if (kind == Kind::scheduler) options_.own_scheduler = wrong_scheduler_.get();
    if (kind == Kind::kv_cache) options_.own_kv_cache = wrong_manager_.get();
    if (kind == Kind::sampler) {
      options_.own_sampler = wrong_sampler_.get();
      options_.workers = 1;
    }
    if (kind == Kind::drafter) options_.drafter = wrong_drafter_.get();
  }

  // Returns the number of steps.
  uint64_t run() {
    SCOPED_TRACE(std::string("a wrong ") + kKinds[static_cast<int>(kind_)] + ", seed " +
                 std::to_string(seed_) + ": " + options_.scheduler + " over " + options_.kv_cache);
    Rig rig(options_);
    wrong_manager_->begin_being_wrong();
    std::vector<Request> requests;
    const uint32_t count = 1 + random_.below(10);
    for (uint32_t i = 0; i < count; ++i) {
      // Of a few beginnings, for managers that find them.
      Request request = greedy_request(
          std::vector<TokenId>(1 + random_.below(30), static_cast<TokenId>(random_.below(3))),
          1 + random_.below(25));
      for (const TokenId token : random_.tokens(1 + random_.below(20), options_.vocabulary)) {
        request.prompt.push_back(token);
      }
      request.samples = random_.below(4) == 0 ? 2 : 1;
      request.sampling.logprobs = random_.below(3);
      requests.push_back(request);
      rig.submit(std::move(request));
    }
    uint64_t steps = 0;
    for (; !rig.engine().idle() && steps < kMostStepsOfARun; ++steps) {
      rig.clock().advance(1'000'000);
      const Status status = rig.engine().step();
      EXPECT_TRUE(status.ok()) << status.message();
    }
    EXPECT_TRUE(rig.engine().idle())
        << "no end after " << steps << " steps; the latest fault: " << rig.engine().last_fault();
    for (size_t i = 0; i < requests.size() && rig.engine().idle(); ++i) {
      check(rig, requests[i], static_cast<RequestId>(i + 1));
    }
    return std::max<uint64_t>(steps, 1);
  }

  static uint64_t failed() { return failed_; }
  static uint64_t right() { return right_; }

 private:
  void check(Rig& rig, const Request& request, RequestId id) {
    for (uint32_t sample = 0; sample < request.samples; ++sample) {
      const ResultSink::Sample& result = rig.result(id, sample);
      if (result.reason == FinishReason::error) {
        ++failed_;
        EXPECT_THAT(result.message, HasSubstr(name())) << "of request " << id;
        EXPECT_LT(result.message.size(), 3000u);
        continue;
      }
      ++right_;
      EXPECT_EQ(result.ids(), oracle(options_.model(), request, sample, 100).ids)
          << "request " << id << ", sample " << sample
          << "; the latest fault: " << rig.engine().last_fault();
    }
  }
  std::string name() const {
    switch (kind_) {
      case Kind::scheduler:
        return "scheduler '" + options_.scheduler + "'";
      case Kind::kv_cache:
        return "kv_cache '" + options_.kv_cache + "'";
      case Kind::sampler:
        return "sampler 'standard'";
      case Kind::drafter:
        return "drafter 'toy'";
    }
    return {};
  }

  Kind kind_;
  uint64_t seed_;
  TestRandom random_;
  RigOptions options_;
  ToyDrafter toy_{{61, 0}, 3, 4};
  std::unique_ptr<LoadedPlugin<Scheduler>> scheduler_;
  std::unique_ptr<LoadedPlugin<KVCacheManager>> manager_;
  std::unique_ptr<LoadedPlugin<Sampler>> sampler_;
  std::unique_ptr<WrongScheduler> wrong_scheduler_;
  std::unique_ptr<WrongKvCache> wrong_manager_;
  std::unique_ptr<WrongSampler> wrong_sampler_;
  std::unique_ptr<WrongDrafter> wrong_drafter_;
  static inline uint64_t failed_ = 0, right_ = 0;
};

class WrongPlugin : public testing::TestWithParam<Kind> {};

TEST_P(WrongPlugin, is_named_and_spoils_no_text) {
  set_log_level(LogLevel::error);
  const char* first = std::getenv("TENON_WRONG_PLUGIN_SEED");
  uint64_t seed = first == nullptr ? 1 : std::strtoull(first, nullptr, 10);
  for (uint64_t steps = 0; steps < steps_wanted() && !HasFailure(); ++seed) {
    steps += World(GetParam(), seed).run();
    if (first != nullptr) break;
  }
  set_log_level(LogLevel::warning);
  std::printf("up to seed %llu: %llu samples failed, %llu had the right text\n",
              static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(World::failed()),
              static_cast<unsigned long long>(World::right()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrongPlugin,
                         testing::Values(Kind::scheduler, Kind::kv_cache, Kind::sampler,
                                         Kind::drafter),
                         [](const auto& kind) { return kKinds[static_cast<int>(kind.param)]; });

}  // namespace
}  // namespace tenon
