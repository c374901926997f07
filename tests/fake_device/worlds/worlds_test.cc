// Random worlds: a scheduler, a KV manager, limits, drafts and hardly any memory, all of them
// drawn, and a handful of requests – plain ones, several samples, the best of several, beams – that
// arrive at random moments, some to be cancelled. What is accepted at submission ends, in a bounded
// number of steps and with the tokens that it gets alone in all the memory it wants.
//
//   TENON_TEST_WORLDS=5000 tenon_worlds_tests      all of them; fewer are a part of every test run
//   TENON_TEST_WORLD=1234 tenon_worlds_tests       one of them, said in full
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "core/tiers/disk_store.h"
#include "core/tiers/host_store.h"
#include "tests/fake_device/rig/rig.h"
#include "tests/support/models/memory_files.h"

namespace tenon {
namespace {

constexpr uint64_t kUsualWorlds = 1000;
constexpr uint64_t kWorldsPerTiers = 4;  // so many have them once, where their manager can
constexpr uint32_t kContext = 48;
constexpr uint32_t kEventful = 160;  // steps in which requests come, or are cancelled
constexpr uint64_t kMostSteps = 20000;

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Arrival {
  Request request;
  uint32_t step = 0;
  uint32_t cancelled_at = 0;  // a later step; 0 = never
};

struct World {
  RigOptions options;
  uint32_t drafts = 0;
  std::vector<Arrival> arrivals;  // by step
};

std::string said(const World& world) {
  const RigOptions& options = world.options;
  std::ostringstream out;
  out << options.scheduler << " (" << options.scheduler_options << ") " << options.kv_cache << " "
      << "(" << options.kv_cache_options << ") " << options.kv_tokens << " tokens in blocks of "
      << options.block_tokens << ", swap " << options.swap_tokens << ", " << options.max_sequences
      << " rows, " << options.max_batch_tokens << " a step, window " << options.window_tokens
      << (options.recurrent ? ", recurrent" : "") << (options.attends ? "" : " alone");
  if (options.state_slots) out << " of " << *options.state_slots << " slots";
  out << ", drafts " << world.drafts << (options.engine.plan_ahead ? ", ahead" : "");
  for (const Arrival& arrival : world.arrivals) {
    const Request& request = arrival.request;
    out << "\n  step " << arrival.step << ": prompt " << request.prompt.size() << ", max "
        << request.max_tokens << ", n " << request.samples << ", best of " << request.best_of
        << ", beams " << request.beams;
    if (arrival.cancelled_at > 0) out << ", cancelled at step " << arrival.cancelled_at;
  }
  return out.str();
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  World world() {
    World world;
    RigOptions& options = world.options;
    options.vocabulary = 5 + random_.below(20);
    options.context_tokens = kContext;
    options.eos_tokens = {2, 3};
    options.scheduler = one_of({"static", "continuous", "chunked", "fair"});
    options.kv_cache = one_of({"paged", "paged", "prefix", "radix", "naive"});
    options.scheduler_options = scheduler_options(options.scheduler);
    options.block_tokens = 1u << random_.below(5);
    memory(options);
    options.max_sequences = 1 + random_.below(16);
    options.max_batch_tokens = options.max_sequences + random_.below(60);
    if (random_.below(6) == 0) options.window_tokens = 3 + random_.below(20);
    options.recurrent = random_.below(4) == 0;
    options.engine.plan_ahead = random_.below(2) == 0;
    world.drafts = random_.below(3) == 0 ? 1 + random_.below(4) : 0;
    stem_ = random_.tokens(1 + random_.below(20), options.vocabulary);
    const uint32_t count = 1 + random_.below(10);
    uint32_t step = 0;
    for (uint32_t i = 0; i < count; ++i) {
      step += random_.below(3) == 0 ? random_.below(12) : 0;
      const uint32_t cancelled_at = random_.below(8) == 0 ? step + 1 + random_.below(40) : 0;
      world.arrivals.push_back({request(options), step, cancelled_at});
    }
    return world;
  }

 private:
  std::string one_of(const std::vector<const char*>& words) {
    return words[random_.below(static_cast<uint32_t>(words.size()))];
  }

  void memory(RigOptions& options) {
    if (options.kv_cache == "naive") {
      options.kv_tokens = kContext * (1 + random_.below(6));
      options.swap_tokens = kContext * random_.below(3);
      return;
    }
    const uint32_t blocks = (kContext + options.block_tokens - 1) / options.block_tokens;
    options.kv_tokens = options.block_tokens * (blocks + random_.below(2 * blocks + 2));
    options.swap_tokens = random_.below(2) * random_.below(2 * kContext);
  }

  std::string scheduler_options(const std::string& scheduler) {
    std::string text = "victim=" + one_of({"auto", "last", "least_cost"});
    const auto sometimes = [&](uint32_t one_in, const std::string& option, uint32_t most = 0) {
      if (random_.below(one_in) != 0) return;
      text += " " + option + (most > 0 ? std::to_string(1 + random_.below(most)) : "");
    };
    const bool chunks = scheduler == "chunked" || scheduler == "fair";
    sometimes(3, "preempt=swap");
    sometimes(4, "max_batch_tokens=", 6);
    sometimes(4, "max_sequences=", 4);
    if (scheduler != "fair") sometimes(3, "policy=" + one_of({"priority", "shortest_first"}));
    if (scheduler != "static") sometimes(2, "watermark=0");
    if (scheduler == "continuous") sometimes(3, "chunk_tokens=", 6);
    if (chunks) sometimes(2, "step_tokens=", 12);
    return text;
  }

  Request request(const RigOptions& options) {
    Request request;
    if (random_.below(2) == 0) request.prompt = stem_;
    const auto tail = random_.tokens(1 + random_.below(20), options.vocabulary);
    request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
    request.max_tokens = random_.below(8) == 0 ? 0 : 1 + random_.below(30);
    request.ignore_eos = random_.below(2) == 0;
    request.priority = static_cast<int32_t>(random_.below(3));
    request.tenant = random_.below(3);
    switch (random_.below(4)) {
      case 0:
      case 1:
        request.beams = 1 + random_.below(6);
        request.samples = 1 + random_.below(request.beams);
        request.length_penalty = static_cast<float>(random_.below(3)) * 0.5f;
        request.beam_stop = static_cast<BeamStop>(random_.below(3));
        return request;
      case 2:
        request.samples = 1 + random_.below(5);
        if (random_.below(2) == 0) request.best_of = request.samples + random_.below(3);
        break;
      default:
        break;
    }
    request.sampling.temperature = random_.below(2) == 0 ? 0.0f : 0.8f;
    request.sampling.seed = random_.below(1000);
    return request;
  }

  TestRandom random_;
  std::vector<TokenId> stem_;
};

using Sinks = std::vector<std::shared_ptr<ResultSink>>;

// What each request got; null = it was refused.
Sinks answers(const World& world, RigOptions options, uint32_t drafts, bool cancels,
              uint64_t* from_tiers = nullptr) {
  ToyDrafter drafter(options.model(), drafts, 4);
  if (drafts > 0) options.drafter = &drafter;
  Rig rig(options);
  Sinks sinks;
  std::vector<RequestId> ids;
  const auto submit = [&](Request request) {
    sinks.push_back(std::make_shared<ResultSink>());
    request.sink = sinks.back();
    const Result<RequestId> id = rig.engine().submit(std::move(request));
    ids.push_back(id.ok() ? *id : 0);
    if (!id.ok()) sinks.back() = nullptr;
  };
  for (uint32_t step = 0; step < kEventful; ++step) {
    for (size_t i = 0; i < world.arrivals.size(); ++i) {
      const Arrival& arrival = world.arrivals[i];
      if (arrival.step == step) submit(arrival.request);
      if (cancels && step > 0 && arrival.cancelled_at == step) rig.engine().cancel(ids[i]);
    }
    EXPECT_TRUE(rig.engine().step().ok());
  }
  rig.run(kMostSteps);
  EXPECT_EQ(rig.engine().last_fault(), "");
  if (from_tiers != nullptr) *from_tiers += rig.tiers().totals().found_tokens;
  return sinks;
}

// The same requests one after another, in all the memory they want.
RigOptions roomy(RigOptions options) {
  options.scheduler = "static";
  options.scheduler_options = "max_sequences=1";
  if (options.kv_cache != "streaming") options.kv_cache = "naive";
  options.max_sequences = 64;
  options.max_batch_tokens = 4096;
  options.kv_tokens = 64 * kContext;
  options.swap_tokens = 0;
  options.state_slots.reset();
  options.engine.plan_ahead = false;
  return options;
}

void expect_same(const ResultSink& found, const ResultSink& expected, bool cancelled) {
  ASSERT_EQ(found.samples().size(), expected.samples().size());
  for (size_t s = 0; s < found.samples().size(); ++s) {
    const ResultSink::Sample &one = found.samples()[s], &other = expected.samples()[s];
    EXPECT_TRUE(one.ended);
    if (cancelled) continue;
    EXPECT_EQ(one.message, other.message);
    EXPECT_EQ(one.ids(), other.ids()) << "sample " << s;
    EXPECT_EQ(one.record.logits_digest, other.record.logits_digest) << "sample " << s;
  }
}

// The same world with a manager that evicts, in memory for little more than one sequence.
World streaming(World world, uint64_t number) {
  TestRandom random(number);
  RigOptions& options = world.options;
  options.window_tokens = 0;
  options.block_tokens = 1u << random.below(3);
  options.stream(random.below(6), 1 + random.below(16), 1 + random.below(8));
  const uint32_t held = options.sink_tokens + options.kept_tokens + options.stride_tokens;
  options.kv_tokens = held + options.block_tokens * random.below(12);
  return world;
}

// The same world with recurrent layers, with attention or without, and as few slots of state as a
// pipeline accepts, or a few more.
World recurrent(World world, uint64_t number) {
  TestRandom random(number ^ 0x5a5a);
  RigOptions& options = world.options;
  options.recurrent = true;
  options.attends = random.below(3) > 0 || options.kv_cache == "streaming";
  const bool finds = options.kv_cache == "prefix" || options.kv_cache == "radix";
  const uint32_t least = (options.engine.plan_ahead ? 3 : 2) + (finds ? 2 : 0);
  options.state_slots = least + random.below(2) * random.below(12);
  return world;
}

// With little memory and a little disk below the cache, which lose what does not fit. Their thread
// takes its time, so steps with tiers are not the same twice; tokens are.
void add_tiers(RigOptions& options, MemoryDisk& disk, uint64_t number) {
  TestRandom random(number ^ 0x7137);
  const uint64_t host_bytes = 64 + random.below(4096), disk_bytes = 400 + random.below(40'000);
  const bool has_host = random.below(2) == 0;
  options.tier_budget_bytes = 64 + random.below(4096);
  options.tiers = [&disk, has_host, host_bytes, disk_bytes](const std::string& world) {
    std::vector<std::unique_ptr<TierStore>> stores;
    if (has_host) stores.push_back(std::make_unique<HostStore>(host_bytes));
    stores.push_back(
        *DiskStore::open("/kv", disk_bytes, world, std::make_unique<MemoryFiles>(disk)));
    return stores;
  };
}

// Returns how many requests were accepted.
size_t expect_like(const World& world, const RigOptions& options, const Sinks& expected,
                   uint64_t* from_tiers = nullptr) {
  const Sinks found = answers(world, options, world.drafts, true, from_tiers);
  size_t accepted = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    if (found[i] == nullptr) continue;
    ++accepted;
    expect_same(*found[i], *expected[i], world.arrivals[i].cancelled_at > 0);
  }
  return accepted;
}

size_t expect_sound(uint64_t number, uint64_t& from_tiers) {
  World world = Draw(number).world();
  if (number % 5 == 0) world = streaming(std::move(world), number);
  if (number % 3 == 0) world = recurrent(std::move(world), number);
  SCOPED_TRACE("TENON_TEST_WORLD=" + std::to_string(number) + ": " + said(world));
  const Sinks expected = answers(world, roomy(world.options), 0, false);
  const size_t accepted = expect_like(world, world.options, expected);
  const std::string& manager = world.options.kv_cache;
  const bool keeps = manager == "prefix" || manager == "radix";
  if (!keeps || number % kWorldsPerTiers != 0) return accepted;
  MemoryDisk disk;
  RigOptions options = world.options;
  add_tiers(options, disk, number);
  for (const char* day : {"tiers, the first day", "tiers, after a restart"}) {
    SCOPED_TRACE(day);
    EXPECT_EQ(expect_like(world, options, expected, &from_tiers), accepted);
  }
  return accepted;
}

TEST(Worlds, let_everything_end_that_they_accepted_and_with_its_tokens) {
  if (const uint64_t one = number_in("TENON_TEST_WORLD", 0); one > 0) {
    std::cout << said(Draw(one).world()) << "\n";
    uint64_t from_tiers = 0;
    expect_sound(one, from_tiers);
    return;
  }
  const uint64_t worlds = number_in("TENON_TEST_WORLDS", kUsualWorlds);
  size_t accepted = 0;
  uint64_t from_tiers = 0;
  for (uint64_t number = 1; number <= worlds && !HasFailure(); ++number) {
    accepted += expect_sound(number, from_tiers);
  }
  EXPECT_GT(accepted, worlds) << "most requests are to be accepted";
  EXPECT_GT(from_tiers, worlds) << "tiers are to have found something";
}

}  // namespace
}  // namespace tenon
