#include "tests/pipeline/pipeline_fixture.h"

namespace tenon {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(PipelineTest, is_composed_from_a_configuration) {
  const auto pipeline = built(kRef);
  ASSERT_NE(pipeline, nullptr);
  EXPECT_TRUE(pipeline->scheduler && pipeline->kv_cache && pipeline->sampler);
  EXPECT_FALSE(pipeline->attention);
  EXPECT_FALSE(pipeline->drafter);
  EXPECT_NE(pipeline->tokenizer, nullptr);
  EXPECT_EQ(pipeline->limits.context_tokens, 2048u);
  EXPECT_EQ(pipeline->hash.size(), 16u);
  EXPECT_THAT(pipeline->numerics, testing::EndsWith(" kv=f32"));
  const EngineParts parts = pipeline->parts();
  EXPECT_EQ(parts.scheduler, pipeline->scheduler.get());
  EXPECT_EQ(parts.scheduler_name, "continuous");
}

TEST_F(PipelineTest, runs_by_the_clock_that_it_is_given) {
  const VirtualClock clock(77);
  clock_ = &clock;
  const auto pipeline = built(kRef);
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->parts().clock, &clock);
  clock_ = nullptr;
  const auto usual = built(kRef);
  ASSERT_NE(usual, nullptr);
  EXPECT_EQ(usual->parts().clock, &usual->wall_clock);
}

TEST_F(PipelineTest, takes_the_best_kernel_that_fits_the_rest) {
  const auto pipeline = built(kAsking);
  ASSERT_NE(pipeline, nullptr);
  // "tiny_cache" scores higher, but no KV manager here stores u8.
  EXPECT_EQ(pipeline->attention.object().descriptor().id, "sixteens");
  EXPECT_EQ(pipeline->geometry.groups[0].dtype, DType::bf16);
  EXPECT_EQ(pipeline->geometry.groups[0].block_tokens, 16u);
}

TEST_F(PipelineTest, looks_for_another_kernel_when_a_setting_excludes_the_best) {
  const auto pipeline = built(kAsking, {"kv_cache.block_tokens=8"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->attention.object().descriptor().id, "any_block");
  EXPECT_EQ(pipeline->geometry.groups[0].block_tokens, 8u);
}

TEST_F(PipelineTest, finds_a_linear_kernel_for_each_weight) {
  const auto pipeline = built(kAsking);
  ASSERT_NE(pipeline, nullptr);
  std::vector<std::string_view> ids;
  for (const auto& kernel : pipeline->linear) ids.push_back(kernel.object().descriptor().id);
  // The first takes rows of up to 256 columns; the down projection has 768.
  EXPECT_THAT(ids, testing::ElementsAre("narrow", "wide"));
}

TEST_F(PipelineTest, names_every_kernel_that_refused_a_weight) {
  EXPECT_THAT(error_of(kAsking, {"linear.plugin=narrow"}),
              HasSubstr("linear 'narrow': the rows are too long"));
}

TEST_F(PipelineTest, gives_prompts_and_single_rows_kernels_of_their_own) {
  const auto one = built(kAsking);
  ASSERT_NE(one, nullptr);
  EXPECT_FALSE(one->attention_decode);
  const auto prompts = built(kAsking, {"attention.prefill.plugin=any_block"});
  ASSERT_NE(prompts, nullptr);
  EXPECT_EQ(prompts->attention.object().descriptor().id, "any_block");
  EXPECT_EQ(prompts->attention_decode.object().descriptor().id, "sixteens");
  const auto rows = built(kAsking, {"attention.decode.plugin=any_block"});
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->attention.object().descriptor().id, "sixteens");
  EXPECT_EQ(rows->attention_decode.object().descriptor().id, "any_block");
}

TEST_F(PipelineTest,
       refuses_two_kernels_of_other_numerics_where_bits_must_not_depend_on_the_batch) {
  EXPECT_THAT(error_of(kAsking, {"attention.decode.plugin=any_block", "executor.deterministic=true",
                                 "linear.plugin=wide"}),
              HasSubstr("executor.deterministic is true, but attention of prompts computes as "
                        "\"none\" and that of single rows"));
  EXPECT_NE(built(kAsking, {"attention.decode.plugin=sixteens", "executor.deterministic=true",
                            "linear.plugin=wide"}),
            nullptr);
}

TEST_F(PipelineTest, tells_every_plugin_that_two_kernels_of_other_numerics_make_rows_depend) {
  const auto one = built(kAsking);
  const auto two = built(kAsking, {"attention.decode.plugin=any_block"});
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->fact_view.find("numerics.rows"), nullptr);
  ASSERT_NE(two->fact_view.find("numerics.rows"), nullptr);
  EXPECT_EQ(two->fact_view.find("numerics.rows")->word, "batch");
  EXPECT_THAT(two->facts.table(), HasSubstr("attention of single rows"));
}

TEST_F(PipelineTest, refuses_a_kernel_of_their_own_where_the_executor_takes_none) {
  EXPECT_THAT(error_of(kRef, {"attention.decode.plugin=any_block"}),
              HasSubstr("does its own arithmetic and takes no attention plugin"));
}

TEST_F(PipelineTest, plans_ahead_where_the_configuration_says_so) {
  const auto usual = built(kRef), ahead = built(kRef, {"engine.plan_ahead=1"});
  ASSERT_TRUE(usual && ahead);
  EXPECT_FALSE(usual->engine_options().plan_ahead);
  EXPECT_TRUE(ahead->engine_options().plan_ahead);
}

TEST_F(PipelineTest, refuses_a_kernel_that_does_not_know_the_format) {
  EXPECT_THAT(error_of(kAsking, {"linear.plugin=quantised"}),
              StartsWith("--set: the model has weights of format \"bf16\", which linear quantised "
                         "cannot multiply"));
}

TEST_F(PipelineTest, refuses_kernels_for_an_executor_that_uses_none) {
  const std::string message = error_of(kRef, {"attention.plugin=any_block", "linear.plugin=wide"});
  EXPECT_THAT(message, HasSubstr("--set: executor \"ref\" does its own arithmetic and takes no "
                                 "attention plugin; remove [attention]"));
  EXPECT_THAT(message, HasSubstr("takes no linear plugin"));
}

TEST_F(PipelineTest, says_who_does_not_fit_whom_and_what_to_try) {
  const std::string message = error_of(std::string(kAsking) +
                                       "[attention]\nplugin = 'sixteens'\n[kv_cache]\n"
                                       "block_tokens = 8\n");
  EXPECT_THAT(message, StartsWith("p.toml:5:1: attention \"sixteens\" and the setting "
                                  "kv_cache.block_tokens do not fit"));
  EXPECT_THAT(message, HasSubstr("config kv_cache.block_tokens : 8                (p.toml:7:1)"));
  EXPECT_THAT(message, HasSubstr("try: kv_cache.block_tokens = 16, or attention.plugin = "
                                 "\"any_block\" (any)"));
}

TEST_F(PipelineTest, refuses_rows_that_depend_on_the_batch_where_it_is_told_to) {
  const std::vector<std::string> batched = {"attention.plugin=any_block", "linear.plugin=batched"};
  EXPECT_EQ(error_of(kAsking, batched), "");
  EXPECT_EQ(error_of(std::string(kAsking) + "deterministic = true\n", batched),
            "--set: linear \"batched\" and the setting executor.deterministic do not fit\n"
            "  numerics.rows     linear batched                : batch       (--set)\n"
            "                    config executor.deterministic : invariant   (p.toml:4:1)\n"
            "  try: executor.deterministic = false, or linear.plugin = \"narrow\" (any), or "
            "linear.plugin = \"wide\" (any)");
  EXPECT_EQ(error_of(kAsking, {"executor.deterministic=true"}), "");
}

TEST_F(PipelineTest, reports_no_conflict_of_a_kernel_that_it_would_not_choose) {
  const std::string message =
      error_of(kAsking, {"executor.deterministic=true", "linear.plugin=batched"});
  EXPECT_THAT(message, HasSubstr("numerics.rows"));
  // "tiny_cache" scores best; its u8 fits no KV manager, whatever else does not fit.
  EXPECT_THAT(message, testing::Not(HasSubstr("kv.dtype")));
}

TEST_F(PipelineTest, refuses_a_context_that_the_model_does_not_have) {
  EXPECT_EQ(error_of(kRef, {"limits.context_tokens=4096"}),
            "--set: limits.context_tokens is 4096, but the model's context is 2048; set that or "
            "less, or limits.exceed_model_context = true (what the model says beyond its context "
            "may make no sense)");
}

TEST_F(PipelineTest, exceeds_the_context_of_the_model_where_that_is_asked_for) {
  const auto pipeline =
      built(kRef, {"limits.context_tokens=4096", "limits.exceed_model_context=true"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->limits.context_tokens, 4096u);
  EXPECT_EQ(pipeline->shape->shape().context_tokens, 4096u);
  EXPECT_EQ(built(kRef, {"limits.exceed_model_context=true"})->limits.context_tokens, 2048u);
  EXPECT_EQ(built(kRef, {"limits.exceed_model_context=false"})->hash, built(kRef)->hash);
}

TEST_F(PipelineTest, refuses_fewer_rows_than_sequences) {
  EXPECT_THAT(error_of(kRef, {"limits.max_batch_tokens=8", "limits.max_sequences=9"}),
              StartsWith("--set: limits.max_batch_tokens is 8, less than limits.max_sequences, 9"));
}

TEST_F(PipelineTest, refuses_an_unknown_executor_with_the_known_ones) {
  EXPECT_THAT(error_of("", {"executor.plugin=reff"}),
              HasSubstr("there is no executor \"reff\"; expected one of asking, ref"));
}

TEST_F(PipelineTest, looks_elsewhere_for_executors_that_are_not_built_in) {
  find_executor_ = [](const std::string& name) -> Result<ExecutorFactory> {
    if (name == "outside")
      return ExecutorFactory([](const HostFacts&) { return make_ref_executor(); });
    return not_found("the executor \"" + name + "\" is not installed here");
  };
  EXPECT_NE(built("", {"executor.plugin=outside"}), nullptr);
  EXPECT_EQ(error_of("", {"executor.plugin=cuda"}),
            "--set: the executor \"cuda\" is not installed here; expected one of asking, ref");
}

TEST_F(PipelineTest, says_where_an_executor_that_cannot_run_was_asked_for) {
  find_executor_ = [](const std::string&) -> Result<ExecutorFactory> {
    return ExecutorFactory([](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
      return unsupported("the executor \"cuda\" is installed, but there is no driver");
    });
  };
  EXPECT_EQ(error_of("", {"executor.plugin=cuda"}),
            "--set: the executor \"cuda\" is installed, but there is no driver");
}

TEST_F(PipelineTest, refuses_a_model_that_is_not_there) {
  PipelineRequest request;
  request.config =
      *parse_pipeline_config("format = 1\n[model]\npath = 'gone'\n", "p.toml", "/nowhere", {});
  request.registry = registry_.get();
  request.executors = composed_executors();
  const auto pipeline = build_pipeline(std::move(request));
  ASSERT_FALSE(pipeline.ok());
  EXPECT_THAT(pipeline.status().message(), StartsWith("p.toml:3:1: "));
  EXPECT_THAT(pipeline.status().message(), HasSubstr("/nowhere/gone"));
}

TEST_F(PipelineTest, reports_the_faults_of_all_sections_at_once) {
  const std::string message =
      error_of(std::string(kRef) +
               "[scheduler]\nplugin = 'statik'\n[sampler.options]\nheat = 1\n"
               "[drafter]\nplugin = 'ngrams'\n");
  EXPECT_THAT(message,
              HasSubstr("p.toml:5:1: no scheduler plugin 'statik'; did you mean 'static'?"));
  EXPECT_THAT(message, HasSubstr("p.toml:7:1: sampler 'standard' has no option 'heat'"));
  EXPECT_THAT(message, HasSubstr("p.toml:9:1: no drafter plugin 'ngrams'"));
}

TEST_F(PipelineTest, writes_what_auto_became_into_the_configuration) {
  const auto pipeline = built(kAsking);
  ASSERT_NE(pipeline, nullptr);
  const std::string text = resolved_toml(pipeline->config, pipeline->components, false);
  for (const char* line : {"dtype = \"bf16\"", "block_tokens = 16", "context_tokens = 2048",
                           "max_batch_tokens = 2048", "[attention]\nplugin = \"sixteens\""}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(PipelineTest, has_the_hash_of_its_values_however_they_came_about) {
  const auto by_default = built(kRef);
  const auto spelled_out = built(kRef, {"scheduler.plugin=continuous", "kv_cache.dtype=f32",
                                        "kv_cache.block_tokens=16", "limits.context_tokens=2048"});
  const auto other = built(kRef, {"kv_cache.block_tokens=32"});
  ASSERT_TRUE(by_default && spelled_out && other);
  EXPECT_EQ(by_default->hash, spelled_out->hash);
  EXPECT_NE(by_default->hash, other->hash);
}

TEST_F(PipelineTest, lowers_what_plugins_hear_of_the_machine) {
  const auto pipeline = built(kRef, {"executor.isa=avx2"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->host.cpu, kCpuAvx2);
}

TEST_F(PipelineTest, refuses_an_instruction_set_of_another_kind_of_processor) {
  const auto pipeline = build(kRef, {"executor.isa=neon"});
  ASSERT_FALSE(pipeline.ok());
  EXPECT_THAT(pipeline.status().message(),
              HasSubstr("instruction set \"neon\" is another kind of processor's"));
}

TEST_F(PipelineTest, can_be_explained_without_its_weights) {
  auto config = parse_pipeline_config("format = 1\n" + std::string(kRef), "p.toml", "/",
                                      {"model.path=" + source_folder() + "/configs/models/tale"});
  ASSERT_TRUE(config.ok());
  PipelineRequest request;
  request.config = *std::move(config);
  request.registry = registry_.get();
  request.executors = composed_executors();
  request.load_weights = false;
  const auto pipeline = build_pipeline(std::move(request));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  EXPECT_EQ((*pipeline)->executor->weight_bytes(), 0u);
  EXPECT_THAT((*pipeline)->facts.table(), HasSubstr("kv.block_tokens    = 16"));
}

}  // namespace
}  // namespace tenon
