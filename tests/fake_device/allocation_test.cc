// A step in the middle of things asks the system for no memory.
#include <gtest/gtest.h>

#include "tests/fake_device/rig/rig.h"
#include "tests/support/allocation_count.h"
#include "tests/support/instant_executor.h"

namespace tenon {
namespace {

// Eight sequences run, `waiting` more have no row.
// Something of everything, a request each.
void add_stages(SamplingParams& sampling, int variant) {
  if (variant == 1) sampling.repetition_penalty = 1.1f;
  if (variant == 2) sampling.dry_multiplier = 0.8f;
  if (variant == 3) sampling.top_p = 0.9f;
  if (variant == 4) sampling.typical_p = 0.9f;
  if (variant == 5) sampling.xtc_probability = 0.5f;
  if (variant == 6) sampling.logprobs = 3;
  if (variant == 7) {
    sampling.top_k = 0;
    sampling.mirostat = 2;
  }
}

uint64_t allocations_in_steps(const char* scheduler_id, const char* kv_id, uint32_t block_tokens,
                              uint32_t waiting = 0, const char* scheduler_options = "") {
  LoadedPlugin<Scheduler> scheduler("scheduler", scheduler_id, scheduler_options);
  EXPECT_EQ(scheduler.error(), "");
  LoadedPlugin<KVCacheManager> kv("kv_cache", kv_id);
  LoadedPlugin<Sampler> sampler("sampler", "standard");
  KvGroup group;
  ModelShape shape;
  shape.vocabulary = 8;
  shape.group_count = 1;
  shape.groups = &group;
  KvGroupGeometry blocks{DType::f32, block_tokens, 4096 / block_tokens, 8};
  InstantExecutor executor(8);
  WallClock clock;
  EngineParts parts;
  parts.scheduler = scheduler.get();
  parts.kv_cache = kv.get();
  parts.sampler = sampler.get();
  parts.executor = &executor;
  parts.shape = &shape;
  parts.geometry = {512, 8, 1, &blocks};
  parts.limits = {8, 1024, 512};
  parts.clock = &clock;
  EXPECT_TRUE(kv->bind(shape, parts.geometry).ok());
  Engine engine(parts, {.logits_digest = true});
  for (uint32_t i = 0; i < 8 + waiting; ++i) {
    Request request;
    request.priority = static_cast<int32_t>(i % 3);
    request.tenant = i % 3;
    // Nothing in common that one could wait for.
    request.prompt.assign(20, static_cast<TokenId>(i % 8));
    request.max_tokens = 300;
    request.sampling.top_k = 4;
    add_stages(request.sampling, i);
    EXPECT_TRUE(engine.submit(std::move(request)).ok());
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(engine.step().ok());
  const uint64_t before = test::allocation_count();
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(engine.step().ok());
  EXPECT_EQ(engine.totals().generated_tokens, 8u * 220);
  return test::allocation_count() - before;
}

TEST(Allocation, never_happens_in_a_warm_step) {
  if (!test::counts_allocations()) GTEST_SKIP() << "nobody can count under this sanitizer";
  EXPECT_GT(test::allocation_count(), 0u) << "the counter counts nothing";
  EXPECT_EQ(allocations_in_steps("continuous", "paged", 16), 0u);
  EXPECT_EQ(allocations_in_steps("static", "paged", 1), 0u);
  EXPECT_EQ(allocations_in_steps("static", "naive", 512), 0u);
  EXPECT_EQ(allocations_in_steps("chunked", "paged", 16), 0u);
  EXPECT_EQ(allocations_in_steps("chunked", "prefix", 16), 0u);
  EXPECT_EQ(allocations_in_steps("chunked", "prefix", 1), 0u);
  EXPECT_EQ(allocations_in_steps("chunked", "radix", 16), 0u);
  EXPECT_EQ(allocations_in_steps("chunked", "radix", 1), 0u);
  EXPECT_EQ(allocations_in_steps("fair", "paged", 16), 0u);
}

TEST(Allocation, never_happens_while_others_wait) {
  EXPECT_EQ(allocations_in_steps("static", "paged", 16, 20), 0u);
  EXPECT_EQ(allocations_in_steps("continuous", "paged", 16, 20, "policy=priority"), 0u);
  EXPECT_EQ(allocations_in_steps("chunked", "paged", 16, 20, "policy=shortest_first"), 0u);
  EXPECT_EQ(allocations_in_steps("fair", "paged", 16, 20), 0u);
}

}  // namespace
}  // namespace tenon
