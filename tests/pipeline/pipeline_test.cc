#include "core/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/exec/ref/ref_executor.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr uint64_t kGiB = 1u << 30;
// The bundled model: 6 layers, 2 KV heads of 64: 1536 elements of K and V a token.
constexpr uint64_t kElementsPerToken = 6 * 2 * 2 * 64;

// Takes kernels and only asks for them.
class AskingExecutor final : public Executor {
 public:
  std::string_view name() const override { return "asking"; }
  std::span<const Fact> provides() const override { return kProvides; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return true; }
  uint32_t workers() const override { return 3; }
  Status load(const ExecutorSetup& setup) override {
    if (setup.attention.prefill.kernel == nullptr) return internal("no attention kernel was given");
    for (const Weight* weight : {&setup.model->layers[0].q, &setup.model->layers[0].down}) {
      TENON_ASSIGN_OR_RETURN(const ChosenLinear chosen, setup.linear(weight->view()));
      if (!chosen.kernel->accepts(weight->view()).ok()) {
        return internal("a kernel that refuses was given");
      }
    }
    return {};
  }
  Status apply(std::span<const KvMove>) override { return {}; }
  Status launch(const BatchView&) override { return {}; }
  Result<StepOutput> collect(uint64_t) override { return StepOutput{}; }
  std::string numerics() const override { return "asking"; }
  uint64_t weight_bytes() const override { return 0; }
  uint64_t kv_bytes() const override { return 0; }

 private:
  static constexpr Fact kProvides[] = {{"kv.dtype", FactOp::in, 0, "f32 f16 bf16 u8"}};
};

ExecutorFactories executors() {
  ExecutorFactories made;
  made["ref"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return make_ref_executor();
  };
  made["asking"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return std::unique_ptr<Executor>(std::make_unique<AskingExecutor>());
  };
  return made;
}

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() {
    const std::string build = build_folder();
    PluginSearch search;
    // Files, not the folder: what else lies there must not decide what "auto" finds.
    for (const char* name :
         {"plugins/libtenon-scheduler_static", "plugins/libtenon-sampler_standard",
          "plugins/libtenon-scheduler_continuous", "plugins/libtenon-kv_cache_naive",
          "plugins/libtenon-kv_cache_paged", "plugins/libtenon-kv_cache_streaming",
          "plugins/libtenon-drafter_draft_model", "tests/pipeline/libtenon-picky"}) {
      search.files.push_back({build + "/" + name + ".so", {"test", 0, 0}});
    }
    auto opened = PluginRegistry::open(search);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
  }

  Result<std::unique_ptr<Pipeline>> build(const std::string& text,
                                          std::vector<std::string> overrides = {},
                                          uint64_t memory = 8 * kGiB) {
    overrides.push_back("model.path=" + source_folder() + "/configs/models/tale");
    auto config = parse_pipeline_config("format = 1\n" + text, "p.toml", "/", overrides);
    if (!config.ok()) return config.take_status();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors = executors();
    request.find_executor = find_executor_;
    request.host.cpu = kCpuAvx512;
    request.host.workers = 2;
    request.available_memory_bytes = memory;
    request.clock = clock_;
    return build_pipeline(std::move(request));
  }
  std::unique_ptr<Pipeline> built(const std::string& text, std::vector<std::string> overrides = {},
                                  uint64_t memory = 8 * kGiB) {
    auto pipeline = build(text, std::move(overrides), memory);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }
  std::string error_of(const std::string& text, std::vector<std::string> overrides = {},
                       uint64_t memory = 8 * kGiB) {
    const auto pipeline = build(text, std::move(overrides), memory);
    return pipeline.ok() ? "" : std::string(pipeline.status().message());
  }

  std::unique_ptr<PluginRegistry> registry_;
  const Clock* clock_ = nullptr;
  std::function<Result<ExecutorFactory>(const std::string&)> find_executor_;
};

constexpr const char* kRef = "[executor]\nplugin = 'ref'\n";
constexpr const char* kAsking = "[executor]\nplugin = 'asking'\n";

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
  request.executors = executors();
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

TEST_F(PipelineTest, creates_a_drafter_that_gets_what_it_needs) {
  const auto pipeline = built(kRef, {"drafter.plugin=rewinder"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_TRUE(pipeline->drafter);
  EXPECT_EQ(pipeline->facts.find("sampler.verify")->word, "exact");
  EXPECT_NE(built(kRef, {"drafter.plugin=hidden_reader"}), nullptr);
}

TEST_F(PipelineTest, refuses_a_drafter_that_needs_what_nobody_gives) {
  EXPECT_THAT(error_of(kRef, {"drafter.plugin=foreseer"}),
              HasSubstr("engine \"tenon\" and drafter \"foreseer\" do not fit"));
}

std::string second_model(const char* folder) {
  return "drafter.model=" + source_folder() + "/" + folder;
}

TEST_F(PipelineTest, runs_a_second_model_in_groups_of_the_same_memory) {
  const auto pipeline = built(kRef, {"drafter.plugin=draft_model", "limits.max_sequences=2",
                                     second_model("configs/models/tale-draft")});
  ASSERT_NE(pipeline, nullptr);
  ASSERT_NE(pipeline->second, nullptr);
  EXPECT_EQ(pipeline->geometry.group_count, 2u);
  EXPECT_EQ(pipeline->kv_shape().groups[0].owner, KvOwner::target);
  EXPECT_EQ(pipeline->kv_shape().groups[1].owner, KvOwner::draft);
  EXPECT_EQ(pipeline->kv_shape().layer_count, 6u + 2u);
  EXPECT_EQ(pipeline->kv_shape().layers[6].group, 1u);
  // 2 layers, 1 KV head of 64.
  EXPECT_EQ(pipeline->geometry.groups[1].bytes_per_token, 2u * 2 * 64 * 4);
  EXPECT_EQ(pipeline->geometry.groups[0].blocks, pipeline->geometry.groups[1].blocks);
  EXPECT_EQ(pipeline->second->executor->kv_bytes(), pipeline->geometry.groups[1].bytes_per_token *
                                                        16 * pipeline->geometry.groups[1].blocks);
  EXPECT_EQ(pipeline->parts().draft_runner, pipeline->second->runner.get());
  EXPECT_FALSE(pipeline->parts().verify_by_rejection);
}

TEST_F(PipelineTest, verifies_by_rejection_where_that_is_configured) {
  const auto pipeline = built(kRef, {"drafter.plugin=rewinder", "drafter.verify=rejection"});
  ASSERT_NE(pipeline, nullptr);
  EXPECT_TRUE(pipeline->parts().verify_by_rejection);
}

TEST_F(PipelineTest, refuses_second_models_that_do_not_speak_the_same_vocabulary) {
  EXPECT_THAT(error_of(kRef, {"drafter.plugin=draft_model",
                              second_model("tests/golden/models/llama_tied")}),
              StartsWith("--set: the second model has a vocabulary of 99 tokens, but the model has "
                         "4096; drafts need the same vocabulary"));
  EXPECT_THAT(error_of(kRef, {"drafter.plugin=draft_model", second_model("no/such/folder")}),
              StartsWith("--set: "));
}

TEST_F(PipelineTest, wants_a_second_model_for_a_drafter_that_runs_one_and_for_no_other) {
  EXPECT_EQ(error_of(kRef, {"drafter.plugin=draft_model"}),
            "--set: drafter \"draft_model\" runs a second model, but none is configured; set "
            "drafter.model to the folder of a smaller model with the same vocabulary");
  EXPECT_EQ(
      error_of(kRef, {"drafter.plugin=rewinder", second_model("configs/models/tale-draft")}),
      "--set: drafter.model is set, but drafter \"rewinder\" runs no second model; remove it");
}

TEST_F(PipelineTest, refuses_a_text_that_cannot_be_read_or_that_no_drafter_looks_in) {
  EXPECT_THAT(error_of(kRef, {"drafter.plugin=rewinder", "drafter.text=no/such/file"}),
              StartsWith("--set: drafter.text: "));
  EXPECT_EQ(
      error_of(kRef, {"drafter.plugin=rewinder", "drafter.text=" + source_folder() + "/README.md"}),
      "--set: drafter.text is set, but drafter 'rewinder' looks in no text; remove it");
  EXPECT_EQ(error_of(kRef, {"drafter.text=README.md"}),
            "--set: 'drafter.text' is set, but there is no drafter; set drafter.plugin too");
}

TEST_F(PipelineTest, refuses_a_second_model_where_the_executor_runs_only_one) {
  EXPECT_THAT(
      error_of(kAsking, {"drafter.plugin=draft_model", second_model("configs/models/tale-draft")}),
      HasSubstr("executor 'asking' cannot run a second model"));
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

TEST_F(PipelineTest, can_be_explained_without_its_weights) {
  auto config = parse_pipeline_config("format = 1\n" + std::string(kRef), "p.toml", "/",
                                      {"model.path=" + source_folder() + "/configs/models/tale"});
  ASSERT_TRUE(config.ok());
  PipelineRequest request;
  request.config = *std::move(config);
  request.registry = registry_.get();
  request.executors = executors();
  request.load_weights = false;
  const auto pipeline = build_pipeline(std::move(request));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  EXPECT_EQ((*pipeline)->executor->weight_bytes(), 0u);
  EXPECT_THAT((*pipeline)->facts.table(), HasSubstr("kv.block_tokens    = 16"));
}

}  // namespace
}  // namespace tenon
