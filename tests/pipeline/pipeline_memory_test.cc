#include "core/base/log.h"
#include "core/pipeline/memory_text.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace tenon {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// The bundled model: 6 layers, 2 KV heads of 64: 1536 elements of K and V a token.
constexpr uint64_t kElementsPerToken = 6 * 2 * 2 * 64;

TEST_F(PipelineTest, gives_a_contiguous_manager_blocks_of_the_whole_context) {
  const auto pipeline =
      built(kRef, {"kv_cache.plugin=naive", "limits.context_tokens=500", "limits.max_sequences=3"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->geometry.groups[0].block_tokens, 500u);
  EXPECT_EQ(pipeline->geometry.groups[0].blocks, 3u);
}

TEST_F(PipelineTest, sizes_the_cache_for_all_sequences_when_memory_allows) {
  const auto pipeline = built(kRef, {"limits.max_sequences=4", "limits.context_tokens=100"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->geometry.groups[0].bytes_per_token, kElementsPerToken * 4);
  EXPECT_EQ(pipeline->geometry.groups[0].blocks, 4u * 7u);  // ceil(100 / 16) each
}

TEST_F(PipelineTest, takes_half_of_the_memory_beside_the_weights_at_most) {
  const auto all = built(kRef, {"limits.max_sequences=64"});
  ASSERT_NE(all, nullptr);
  const uint64_t weights = all->model->weight_bytes();
  const uint64_t block_bytes = 16 * kElementsPerToken * 4;
  const auto pipeline = built(kRef, {"limits.max_sequences=64"}, weights + 2 * 300 * block_bytes);
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->geometry.groups[0].blocks, 300u);
}

TEST_F(PipelineTest, says_what_it_takes_and_for_how_many_whole_sequences) {
  const auto some = built(kRef, {"limits.max_sequences=8", "kv_cache.memory=24MiB"});
  ASSERT_NE(some, nullptr);
  EXPECT_EQ(memory_line(*some),
            "memory: weights 11.0 MiB, K/V 24.0 MiB for 8 sequences, or 2 of 2048 tokens each");
  const auto one = built(kRef, {"limits.max_sequences=1", "limits.context_tokens=160"});
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(memory_line(*one),
            "memory: weights 11.0 MiB, K/V 960.0 KiB for 1 sequence of 160 tokens");
  EXPECT_EQ(sequence_bytes(one->kv_needs, 10), 10 * kElementsPerToken * 4);
  EXPECT_EQ(sequence_bytes(one->kv_needs, 1000), 160 * kElementsPerToken * 4);
}

TEST_F(PipelineTest, cuts_a_swap_pool_into_blocks_of_the_same_size) {
  const auto pipeline = built(kRef, {"kv_cache.swap_memory=1MiB"});
  ASSERT_NE(pipeline, nullptr);
  const uint64_t block_bytes = 16 * kElementsPerToken * 4;
  EXPECT_EQ(pipeline->geometry.groups[0].swap_blocks, (1u << 20) / block_bytes);
  EXPECT_EQ(pipeline->fact_view.find("kv.swap")->word, "yes");
  EXPECT_EQ(built(kRef)->geometry.groups[0].swap_blocks, 0u);
}

TEST_F(PipelineTest, refuses_a_swap_pool_without_room_for_a_block) {
  EXPECT_EQ(error_of(kRef, {"kv_cache.swap_memory=1KiB"}),
            "--set: kv_cache.swap_memory is 1.0 KiB, but one KV block takes 96.0 KiB; raise it, or "
            "set 0 for no pool");
}

TEST_F(PipelineTest, refuses_memory_for_less_than_one_sequence) {
  EXPECT_EQ(error_of(kRef, {"kv_cache.memory=1MiB"}),
            "--set: kv_cache.memory is 1.0 MiB, but one sequence of 2048 tokens needs 12.0 MiB; "
            "raise it, or lower limits.context_tokens to 160 or less");
  EXPECT_THAT(error_of(kRef, {}, kGiB / 64),
              HasSubstr("one sequence of 2048 tokens needs 12.0 MiB of K and V, but only "));
  EXPECT_THAT(error_of(kRef, {"kv_cache.memory=1KiB"}), Not(HasSubstr("lower limits")));
}

TEST_F(PipelineTest, refuses_more_memory_than_the_machine_has) {
  const auto refused = [this](std::vector<std::string> overrides) {
    return error_of(kRef, std::move(overrides), 8 * kGiB);
  };
  EXPECT_THAT(refused({"kv_cache.memory=1TiB"}),
              HasSubstr("--set: kv_cache.memory is 1.0 TiB – there are 16.0 GiB of memory in all, "
                        "weights included – set kv_cache.memory to 8.0 GiB or less"));
  EXPECT_THAT(refused({"kv_cache.swap_memory=1TiB"}),
              HasSubstr("--set: kv_cache.swap_memory is 1.0 TiB – there are 16.0 GiB of memory in "
                        "all, weights included – set kv_cache.swap_memory to 8.0 GiB or less"));
  EXPECT_THAT(
      refused({"kv_cache.memory=9GiB", "kv_cache.swap_memory=9GiB"}),
      HasSubstr("kv_cache.memory is 9.0 GiB and kv_cache.swap_memory is 9.0 GiB – there are "
                "16.0 GiB of memory in all, weights included – set kv_cache.memory and "
                "kv_cache.swap_memory together to 8.0 GiB or less"));
}

// Of a machine that others use too: they may end before the cache fills.
TEST_F(PipelineTest, warns_of_more_memory_than_is_free_now) {
  std::string said;
  set_log_sink([&](LogLevel level, std::string_view, std::string_view text) {
    if (level == LogLevel::warning) said += text;
  });
  EXPECT_NE(built(kRef, {"kv_cache.memory=64MiB"}, 40 << 20), nullptr);
  set_log_sink({});
  EXPECT_THAT(said, AllOf(HasSubstr("--set: kv_cache.memory is 64.0 MiB – "),
                          HasSubstr(" are free now beside the weights"),
                          HasSubstr("set kv_cache.memory to ")));
  said.clear();
  set_log_sink([&](LogLevel, std::string_view, std::string_view text) { said += text; });
  EXPECT_NE(built(kRef, {"kv_cache.memory=64MiB"}), nullptr);
  set_log_sink({});
  EXPECT_EQ(said, "");
}

constexpr const char* kStreaming =
    "[executor]\nplugin = 'ref'\n"
    "[kv_cache]\nplugin = 'streaming'\nblock_tokens = 8\n"
    "[kv_cache.options]\nwindow_tokens = 60\nstride_tokens = 16\n";

TEST_F(PipelineTest, sizes_the_cache_for_what_a_manager_keeps) {
  const auto pipeline = built(kStreaming, {"limits.max_sequences=3"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->geometry.groups[0].blocks, 3u * (8 + 64 + 16) / 8);
  EXPECT_EQ(pipeline->limits.context_tokens, 2048u);
  EXPECT_THAT(pipeline->numerics, EndsWith("kv=f32,streaming(sinks=8 window=64 stride=16)"));
  ASSERT_NE(pipeline->parts().eviction, nullptr);
  EXPECT_EQ(pipeline->parts().eviction->first, 87u);
}

TEST_F(PipelineTest, knows_when_nothing_is_ever_evicted) {
  const auto pipeline = built(kStreaming, {"limits.context_tokens=87"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_THAT(pipeline->numerics, EndsWith("kv=f32"));
  EXPECT_EQ(pipeline->parts().eviction, nullptr);
}

constexpr const char* kHeavyHitters =
    "[kv_cache]\nplugin = 'heavy_hitters'\nblock_tokens = 8\n"
    "[kv_cache.options]\nheavy_tokens = 12\nwindow_tokens = 60\nstride_tokens = 16\n";

TEST_F(PipelineTest, evicts_by_weight_where_the_executor_tells_it) {
  const auto pipeline = built(kHeavyHitters, {"executor.plugin=ref"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_THAT(pipeline->numerics,
              EndsWith("kv=f32,heavy_hitters(sinks=4 heavy=12 window=64 stride=16)"));
  EXPECT_NE(pipeline->parts().scores, nullptr);
  const auto roomy = built(kHeavyHitters, {"executor.plugin=ref", "limits.context_tokens=95"});
  ASSERT_NE(roomy, nullptr);
  EXPECT_EQ(roomy->parts().scores, nullptr) << "nothing is evicted";
}

TEST_F(PipelineTest, refuses_a_manager_that_evicts_by_weight_where_nobody_tells_it) {
  EXPECT_THAT(error_of(kHeavyHitters, {"executor.plugin=asking"}),
              HasSubstr("kv_cache 'heavy_hitters' evicts by the weight that tokens got, which "
                        "executor 'asking' does not tell – use executor \"ref\", or executor and "
                        "attention \"cpu\", or kv_cache \"streaming\", which needs no weights"));
}

TEST_F(PipelineTest, refuses_a_scheduler_that_cannot_end_a_prompt_where_blocks_go) {
  const std::string message = error_of(kStreaming, {"scheduler.plugin=whole"});
  EXPECT_THAT(message, AllOf(HasSubstr("sched.emits"), HasSubstr("kv_cache streaming"),
                             HasSubstr("scheduler whole")));
}

TEST_F(PipelineTest, refuses_a_manager_that_does_not_say_what_it_evicts) {
  EXPECT_EQ(error_of(kRef, {"kv_cache.plugin=vague"}),
            "kv_cache 'vague' evicts from token 64 on, every 0 tokens, and keeps 64 – expected "
            "numbers above 0, and a text that tells what rows see");
}

}  // namespace
}  // namespace tenon
