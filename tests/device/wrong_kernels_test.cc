// Random wrong kernels: whatever a linear or an attention kernel answers, loading refuses it by
// name or every run ends, nothing crashes, and a request has either its text or an error that names
// the kernel. Where a kernel computes other numbers there is no right text; the run ends all the
// same.
//
// TENON_WRONG_PLUGIN_STEPS sets how many steps a kind of kernel is given in all (5,000), and
// TENON_WRONG_PLUGIN_SEED runs one seed alone.
#include "tests/device/wrong_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/contract/checked_attention.h"
#include "core/contract/checked_linear.h"
#include "core/engine/engine.h"
#include "core/exec/cpu/executor.h"
#include "tests/device/small_world.h"
#include "tests/support/linear/plain_kernels.h"

namespace tenon::test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMostStepsOfARun = 3000;
constexpr uint32_t kRequests = 6;

uint64_t steps_wanted() {
  const char* text = std::getenv("TENON_WRONG_PLUGIN_STEPS");
  return text == nullptr ? 5000 : std::strtoull(text, nullptr, 10);
}

enum class Kind { none, attention, decode, linear };
constexpr const char* kKinds[] = {"none", "attention", "decode", "linear"};

// What decides about the numbers of a world.
struct Numbers {
  bool plain_kernels = false;
  bool tied = false;
  auto operator<=>(const Numbers&) const = default;
};

WorldOptions world_options(const Numbers& numbers, uint32_t block_tokens) {
  WorldOptions options;
  options.config.tied_embeddings = numbers.tied;
  options.block_tokens = block_tokens;
  options.kv_tokens = 320;
  options.swap_tokens = 0;
  options.max_rows = 24;
  options.max_sequences = 4;
  return options;
}

// Some begin alike, for a manager that finds that.
Request request_of(uint32_t index) {
  Request request;
  for (uint32_t p = 0; p < 5 + 4 * index; ++p) {
    request.prompt.push_back(static_cast<TokenId>(p < 8 ? 3 + p : (p * 7 + index * 11) % 61));
  }
  request.max_tokens = 4 + index;
  request.sampling.temperature = index % 2 == 0 ? 0.0f : 0.9f;
  request.sampling.seed = index;
  return request;
}

struct RunOptions {
  Kind kind = Kind::none;
  Numbers numbers;
  uint64_t seed = 1;
  bool spoils_numbers = false;
  uint32_t every = 0;
  uint32_t threads = 1;
  uint32_t block_tokens = 16;
  std::string scheduler = "continuous";
  std::string kv_cache = "paged";
  bool plan_ahead = false;
};

// Executor and kernels of one world, one of them wrong.
class Kernels {
 public:
  Kernels(const RunOptions& options, const SmallWorld& world)
      : linear_plugin_("linear", "dense"),
        attention_plugin_("attention", "cpu"),
        decode_plugin_("attention", "cpu") {
    const WrongAnswers wrong(options.seed * 77 + 5, options.every);
    const bool plain = options.numbers.plain_kernels;
    LinearKernel* linear =
        plain ? static_cast<LinearKernel*>(&plain_linear_) : linear_plugin_.get();
    AttentionKernel* attention =
        plain ? static_cast<AttentionKernel*>(&plain_attention_) : attention_plugin_.get();
    AttentionKernel* decode =
        plain ? static_cast<AttentionKernel*>(&plain_decode_) : decode_plugin_.get();
    const uint32_t blocks = world.geometry.groups[0].blocks;
    if (options.kind == Kind::linear) {
      wrong_linear_ = std::make_unique<WrongLinearKernel>(
          host_, facts_,
          WrongKernelOptions<LinearKernel>{linear, wrong, options.spoils_numbers, blocks});
      linear = wrong_linear_.get();
    }
    if (options.kind == Kind::attention || options.kind == Kind::decode) {
      AttentionKernel*& spoilt = options.kind == Kind::decode ? decode : attention;
      wrong_attention_ = std::make_unique<WrongAttentionKernel>(
          host_, facts_,
          WrongKernelOptions<AttentionKernel>{spoilt, wrong, options.spoils_numbers, blocks});
      spoilt = wrong_attention_.get();
    }
    const auto name = [&](Kind kind) {
      return std::string(options.kind == kind ? kWrongKernel : "right");
    };
    linear_ = std::make_unique<CheckedLinear>(*linear, name(Kind::linear));
    attention_ = std::make_unique<CheckedAttention>(*attention, name(Kind::attention));
    decode_ = std::make_unique<CheckedAttention>(*decode, name(Kind::decode));
    kernels_.prefill = {attention_.get(), name(Kind::attention)};
    kernels_.decode = options.kind == Kind::decode
                          ? NamedAttention{decode_.get(), name(Kind::decode)}
                          : kernels_.prefill;
  }

  Status load(const RunOptions& options, const SmallWorld& world) {
    TENON_ASSIGN_OR_RETURN(executor_, make_cpu_executor({.threads = options.threads}));
    LinearLimits limits;
    limits.max_rows = world.options.max_rows;
    limits.workers = options.threads;
    TENON_RETURN_IF_ERROR(linear_->bind(limits));
    ExecutorSetup setup;
    setup.model = world.model.get();
    setup.shape = &world.shape;
    setup.geometry = world.geometry;
    setup.max_rows = world.options.max_rows;
    setup.max_sequences = world.options.max_sequences;
    setup.attention = kernels_;
    setup.linear = [this](const WeightView&) -> ChosenLinear { return linear_.get(); };
    return executor_->load(setup);
  }
  Executor& executor() { return *executor_; }

 private:
  HostServices host_;
  PipelineFacts facts_;
  PlainLinear plain_linear_;
  PlainAttention plain_attention_, plain_decode_;
  LoadedPlugin<LinearKernel> linear_plugin_;
  LoadedPlugin<AttentionKernel> attention_plugin_, decode_plugin_;
  std::unique_ptr<WrongLinearKernel> wrong_linear_;
  std::unique_ptr<WrongAttentionKernel> wrong_attention_;
  std::unique_ptr<CheckedLinear> linear_;
  std::unique_ptr<CheckedAttention> attention_, decode_;
  AttentionKernels kernels_;
  std::unique_ptr<Executor> executor_;
};

using Results = std::vector<std::shared_ptr<ResultSink>>;

class Run {
 public:
  explicit Run(const RunOptions& options)
      : options_(options),
        world_(world_options(options.numbers, options.block_tokens)),
        kernels_(options, world_),
        scheduler_("scheduler", options.scheduler),
        kv_cache_("kv_cache", options.kv_cache),
        sampler_("sampler", "standard") {}

  Status load() { return kernels_.load(options_, world_); }

  // Returns the number of steps; the results of requests 0, 1, … are in `results` then.
  uint64_t run() {
    make_engine();
    const std::string numerics = kernels_.executor().numerics();
    for (uint32_t i = 0; i < kRequests; ++i) {
      Request request = request_of(i);
      request.sink = results.emplace_back(std::make_shared<ResultSink>());
      const auto id = engine_->submit(std::move(request));
      EXPECT_TRUE(id.ok()) << id.status().message();
    }
    uint64_t steps = 0;
    for (; !engine_->idle() && steps < kMostStepsOfARun; ++steps) {
      clock_.advance(1'000'000);
      const Status status = engine_->step();
      EXPECT_TRUE(status.ok()) << status.message();
    }
    EXPECT_TRUE(engine_->idle()) << "no end after " << steps << " steps";
    EXPECT_EQ(kernels_.executor().numerics(), numerics) << "changed on the way";
    EXPECT_LT(numerics.size(), 1000u);
    EXPECT_EQ(numerics.find('\x1b'), std::string::npos);
    return steps;
  }
  bool idle() const { return engine_->idle(); }

  Results results;

 private:
  void make_engine() {
    const Status bound = kv_cache_->bind(world_.shape, world_.geometry);
    ASSERT_TRUE(bound.ok()) << bound.message();
    EngineParts parts;
    parts.scheduler = scheduler_.get();
    parts.kv_cache = kv_cache_.get();
    parts.sampler = sampler_.get();
    parts.executor = &kernels_.executor();
    parts.shape = &world_.shape;
    parts.geometry = world_.geometry;
    parts.limits = {world_.options.max_sequences, world_.options.max_rows,
                    world_.shape.context_tokens};
    parts.clock = &clock_;
    parts.scheduler_name = options_.scheduler;
    parts.kv_cache_name = options_.kv_cache;
    parts.sampler_name = "standard";
    EngineOptions engine;
    engine.check_kv = true;
    engine.plan_ahead = options_.plan_ahead;
    engine_ = std::make_unique<Engine>(std::move(parts), std::move(engine));
  }

  RunOptions options_;
  SmallWorld world_;
  Kernels kernels_;
  LoadedPlugin<Scheduler> scheduler_;
  LoadedPlugin<KVCacheManager> kv_cache_;
  LoadedPlugin<Sampler> sampler_;
  VirtualClock clock_;
  std::unique_ptr<Engine> engine_;
};

// What right kernels give, whatever else differs.
const Results& right_results(const Numbers& numbers) {
  static std::map<Numbers, Results> known;
  Results& results = known[numbers];
  if (results.empty()) {
    Run run({.numbers = numbers});
    const Status loaded = run.load();
    EXPECT_TRUE(loaded.ok()) << loaded.message();
    run.run();
    results = run.results;
  }
  return results;
}

RunOptions options_of(Kind kind, uint64_t seed) {
  WrongAnswers random(seed * 31 + 7, 1);
  RunOptions options;
  options.kind = kind;
  options.seed = seed;
  options.numbers = {random.below(2) == 0, random.below(2) == 0};
  options.spoils_numbers = random.below(4) == 0;
  options.threads = options.spoils_numbers ? 1 : 1 + random.below(2);
  options.every = 1 + random.below(1u << random.below(16));
  options.block_tokens = random.below(2) == 0 ? 4 : 16;
  const char* const schedulers[] = {"static", "continuous", "chunked", "fair"};
  const char* const managers[] = {"paged", "prefix", "radix"};
  options.scheduler = schedulers[random.below(4)];
  options.kv_cache = managers[random.below(3)];
  options.plan_ahead = random.below(2) == 0;
  return options;
}

struct Counts {
  uint64_t refused = 0, failed = 0, right = 0, other = 0;
};

void expect_right_or_named(const RunOptions& options, const Results& results, Counts& counts) {
  const Results& right = right_results(options.numbers);
  for (uint32_t i = 0; i < kRequests; ++i) {
    const ResultSink::Sample& sample = results[i]->samples().at(0);
    if (sample.reason == FinishReason::error) {
      ++counts.failed;
      EXPECT_THAT(sample.message, HasSubstr(kWrongKernel)) << "of request " << i;
      EXPECT_LT(sample.message.size(), 3000u);
    } else if (sample.ids() == right[i]->samples().at(0).ids()) {
      ++counts.right;
    } else {
      ++counts.other;
      EXPECT_TRUE(options.spoils_numbers) << "request " << i << " has a wrong text";
    }
  }
}

// Returns the number of steps.
uint64_t run_seed(Kind kind, uint64_t seed, Counts& counts) {
  SCOPED_TRACE(std::string("a wrong ") + kKinds[static_cast<int>(kind)] + " kernel, seed " +
               std::to_string(seed));
  const RunOptions options = options_of(kind, seed);
  Run run(options);
  if (const Status loaded = run.load(); !loaded.ok()) {
    ++counts.refused;
    EXPECT_THAT(std::string(loaded.message()), HasSubstr(kWrongKernel));
    EXPECT_LT(loaded.message().size(), 3000u);
    return 1;
  }
  const uint64_t steps = run.run();
  if (run.idle()) expect_right_or_named(options, run.results, counts);
  return steps + 1;
}

class WrongKernel : public testing::TestWithParam<Kind> {};

TEST_P(WrongKernel, is_named_and_spoils_no_text) {
  set_log_level(LogLevel::error);
  const char* first = std::getenv("TENON_WRONG_PLUGIN_SEED");
  uint64_t seed = first == nullptr ? 1 : std::strtoull(first, nullptr, 10);
  Counts counts;
  for (uint64_t steps = 0; steps < steps_wanted() && !HasFailure(); ++seed) {
    steps += run_seed(GetParam(), seed, counts);
    if (first != nullptr) break;
  }
  set_log_level(LogLevel::warning);
  std::printf(
      "up to seed %llu: %llu loads refused, %llu requests failed, %llu had the right text, "
      "%llu another\n",
      static_cast<unsigned long long>(seed), static_cast<unsigned long long>(counts.refused),
      static_cast<unsigned long long>(counts.failed), static_cast<unsigned long long>(counts.right),
      static_cast<unsigned long long>(counts.other));
  if (first == nullptr && steps_wanted() >= 5000) {
    EXPECT_GT(counts.refused * counts.failed * counts.right, 0u) << "a way to end was not met";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrongKernel,
                         testing::Values(Kind::attention, Kind::decode, Kind::linear),
                         [](const auto& kind) { return kKinds[static_cast<int>(kind.param)]; });

}  // namespace
}  // namespace tenon::test
