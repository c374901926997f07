// The executor `cuda` with cuBLASLt's double as its guest: whole models against the oracle, and the
// step loop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/cuda/products/cublaslt_products.h"
#include "core/exec/cuda/weights/packed_matrix.h"
#include "tests/cuda/rig/cublaslt_double.h"
#include "tests/cuda/rig/on_device.h"
#include "tests/cuda/rig/step_loop.h"
#include "tests/device/test_drafters.h"

namespace tenon::cuda::test {
namespace {

using testing::HasSubstr;

// An executor with its guest, and what it was loaded with.
struct WithGuest {
  WithGuest(const Model& model, const ModelShape& shape, const LoadOptions& options,
            uint64_t memory_bytes = uint64_t{1} << 30)
      : driver(std::make_shared<EmulatedDriver>(memory_bytes, 4)),
        library(std::make_shared<CublasLtDouble>(*driver)),
        executor(make_cuda_executor(driver, loads(library))),
        invited(executor->invite("cublaslt")),
        steps(*executor, model, shape, options) {
    EXPECT_TRUE(invited.ok()) << invited.message();
  }
  const Status& loaded() const { return steps.load_status(); }

  std::shared_ptr<EmulatedDriver> driver;
  std::shared_ptr<CublasLtDouble> library;
  std::unique_ptr<Executor> executor;
  Status invited;
  StepDriver steps;
};

void expect_oracle_with_guest(const Model& model, float tolerance, DType kv_dtype) {
  const ModelShapeStorage shape(model.plan, 64);
  LoadOptions options;
  options.kv_dtype = kv_dtype;
  options.max_rows = 40;
  const auto tokens = some_tokens(11, model.plan.vocabulary, 3);
  const auto ref = make_ref_executor();
  StepDriver oracle(*ref, model, shape.shape(), options);
  WithGuest guest(model, shape.shape(), options);
  ASSERT_TRUE(guest.loaded().ok()) << guest.loaded().message();
  expect_near(guest.steps.feed(tokens, {7, 1, 3}), oracle.feed(tokens, {11}), tolerance);
  EXPECT_GT(guest.library->runs(), 0u);
}

TEST(CublasLtModels, give_the_logits_of_the_oracle) {
  struct Case {
    const char* name;
    float tolerance;
    DType kv;
  };
  for (const Case& c :
       {Case{"models/llama_gqa", 1e-4f, DType::f32}, Case{"models/llama_biases", 1e-4f, DType::f32},
        Case{"models/gpt2", 1e-4f, DType::f32}, Case{"models/gemma2", 1e-4f, DType::f32},
        Case{"models/granite_biases", 1e-4f, DType::f32}, Case{"models/mixtral", 1e-4f, DType::f32},
        Case{"models/granitemoeshared", 1e-4f, DType::f32},
        Case{"models/deepseek_v2_low_rank_q", 1e-4f, DType::f32},
        Case{"models/llama_bf16", 2e-2f, DType::bf16},
        Case{"gguf/llama_mixed_blocks.gguf", 2e-2f, DType::bf16},
        Case{"published/gptq_4bit_order", 2e-2f, DType::bf16}}) {
    SCOPED_TRACE(c.name);
    const auto model = open_golden(c.name);
    ASSERT_NE(model, nullptr);
    expect_oracle_with_guest(*model, c.tolerance, c.kv);
  }
}

TEST(CublasLtModels, that_are_bundled_give_the_logits_of_the_oracle) {
  for (const char* name : {"tale-draft", "tale"}) {
    SCOPED_TRACE(name);
    auto model = open_model(source_folder() + "/configs/models/" + name);
    ASSERT_TRUE(model.ok()) << model.status().message();
    expect_oracle_with_guest(**model, 2e-2f, DType::bf16);
  }
}

// Launches of a step of eleven rows, by their kernels' names.
std::map<std::string, Counts> launches(WithGuest& guest, const Model& model) {
  EXPECT_TRUE(guest.loaded().ok()) << guest.loaded().message();
  guest.driver->machine().record_launches();
  guest.steps.feed(some_tokens(11, model.plan.vocabulary, 3), {11});
  return guest.driver->machine().recorded_counts();
}

TEST(CublasLtModels, have_all_their_dense_products_from_the_guest_and_no_others) {
  const auto dense = open_golden("models/llama_gqa");
  const auto experts = open_golden("models/mixtral");
  const auto scaled = open_golden("models/granite_biases");
  ASSERT_TRUE(dense && experts && scaled);
  const ModelShapeStorage dense_shape(dense->plan, 64), experts_shape(experts->plan, 64),
      scaled_shape(scaled->plan, 64);
  WithGuest plain(*dense, dense_shape.shape(), {});
  EXPECT_EQ(launches(plain, *dense).count("multiply_f32"), 0u);
  EXPECT_EQ(plain.library->runs(), dense->plan.layers.size() * 7 + 1);
  WithGuest mixed(*experts, experts_shape.shape(), {});
  const auto of_experts = launches(mixed, *experts);
  EXPECT_EQ(of_experts.count("multiply_f32"), 0u);
  EXPECT_EQ(of_experts.count("multiply_experts"), 1u);
  EXPECT_EQ(mixed.library->runs(), experts->plan.layers.size() * 4 + 1);
  // What is added with a bias and a factor stays: a layer's two.
  ASSERT_NE(scaled->plan.layers[0].residual_scale, 1.0f);
  WithGuest some(*scaled, scaled_shape.shape(), {});
  EXPECT_EQ(launches(some, *scaled).count("multiply_f32"), 1u);
  EXPECT_EQ(some.library->runs(), scaled->plan.layers.size() * 5 + 1);
}

TEST(CublasLtModels, have_numerics_of_their_own) {
  const auto model = open_golden("models/llama_gqa");
  ASSERT_NE(model, nullptr);
  const ModelShapeStorage shape(model->plan, 64);
  WithGuest guest(*model, shape.shape(), {});
  EXPECT_EQ(guest.executor->numerics(), "cuda/f32+cublaslt-13.0.0");
  EXPECT_EQ(guest.executor->guest(), "cublaslt");
  const auto second = guest.executor->sibling();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->guest(), "cublaslt");
  EXPECT_EQ(make_cuda_executor(guest.driver)->guest(), "");
}

TEST(CublasLtModels, are_refused_where_the_guest_would_have_nothing_to_do) {
  const auto model = open_golden("gguf/llama_tied_q8_0.gguf");
  ASSERT_NE(model, nullptr);
  // Its other matrices are narrower than blocks. Which these are now does not matter: nothing is
  // uploaded.
  for (LayerWeights& layer : model->layers) {
    for (Weight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
      if (!packed_layout(*weight)) *weight = model->embedding;
    }
  }
  const ModelShapeStorage shape(model->plan, 64);
  WithGuest guest(*model, shape.shape(), {});
  EXPECT_EQ(guest.loaded().code(), StatusCode::unsupported);
  EXPECT_THAT(std::string(guest.loaded().message()),
              HasSubstr("those of this model all stay packed, which the executor 'cuda' multiplies "
                        "itself; set linear.plugin = \"auto\""));
}

TEST(CublasLtModels, are_refused_where_they_fit_without_the_workspace_alone) {
  const auto model = open_golden("models/llama_gqa");
  ASSERT_NE(model, nullptr);
  const ModelShapeStorage shape(model->plan, 64);
  const uint64_t memory = CublasLtProducts::kWorkspaceBytes + 1000;
  const auto driver = std::make_shared<EmulatedDriver>(memory);
  const auto executor = make_cuda_executor(driver);
  ASSERT_TRUE(StepDriver(*executor, *model, shape.shape(), {}).load_status().ok());
  WithGuest guest(*model, shape.shape(), {}, memory);
  EXPECT_EQ(guest.loaded().code(), StatusCode::out_of_memory);
  EXPECT_THAT(std::string(guest.loaded().message()),
              HasSubstr(" captured steps, 32 MiB cuBLASLt's workspace); an emulated device has"));
  EXPECT_EQ(guest.driver->free_bytes(), memory) << "something was uploaded";
}

TEST(CublasLtGuest, is_refused_with_what_it_lacks_and_by_its_name) {
  const auto driver = std::make_shared<EmulatedDriver>();
  const auto missing = []() -> Result<std::shared_ptr<LtLibrary>> {
    return unsupported("cuBLASLt cannot be loaded: it is an emulated absence");
  };
  const auto executor = make_cuda_executor(driver, missing);
  ASSERT_EQ(executor->guests().size(), 1u);
  EXPECT_EQ(executor->guests()[0], "cublaslt");
  EXPECT_EQ(std::string(executor->invite("cublaslt").message()),
            "cuBLASLt cannot be loaded: it is an emulated absence");
  EXPECT_EQ(executor->guest(), "");
  EXPECT_EQ(std::string(executor->invite("cudnn").message()),
            "the executor 'cuda' has no guest 'cudnn'");
  EXPECT_TRUE(make_cuda_executor(driver)->guests().empty());
}

// The step loop.

void nothing(CublasLtDouble&) {}
void alike(CublasLtDouble& library) {
  library.sum_alike();
}

std::vector<std::vector<TokenId>> tokens_of(const std::vector<Answer>& answers) {
  std::vector<std::vector<TokenId>> tokens;
  for (const Answer& answer : answers) tokens.push_back(answer.ids);
  return tokens;
}

constexpr uint64_t kRoom = uint64_t{1} << 20;

struct LoopStrategies {
  const char* scheduler;
  const char* kv_cache;
  bool plan_ahead;
  uint64_t graph_bytes;
};

TEST(CublasLtStepLoop, gives_the_tokens_of_the_oracle) {
  const auto expected = tokens_of(StepLoop({.on_host = true}).run());
  for (const LoopStrategies& s : {LoopStrategies{"continuous", "paged", false, 0},
                                  LoopStrategies{"continuous", "paged", true, kRoom},
                                  LoopStrategies{"chunked", "radix", true, kRoom},
                                  LoopStrategies{"static", "naive", false, kRoom},
                                  LoopStrategies{"fair", "prefix", true, 0}}) {
    SCOPED_TRACE(std::string(s.scheduler) + " " + s.kv_cache);
    StepLoop loop({.world = tenon::test::engine_world(s.kv_cache),
                   .scheduler = s.scheduler,
                   .kv_cache = s.kv_cache,
                   .plan_ahead = s.plan_ahead,
                   .graph_bytes = s.graph_bytes,
                   .seed = 2,
                   .guest = nothing});
    EXPECT_EQ(tokens_of(loop.run()), expected);
    EXPECT_EQ(loop.engine().last_fault(), "");
    EXPECT_GT(loop.guest().runs(), 0u);
    EXPECT_GT(loop.guest().most_workspace(), 0u);
    EXPECT_EQ(loop.driver().replays() > 0, s.graph_bytes > 0);
  }
}

// Of a library that sums alike whatever the number of rows; so nothing but the executor could
// differ.
TEST(CublasLtStepLoop, gives_captured_steps_and_trees_the_bits_of_steps_that_are_not) {
  const auto expected = StepLoop({.guest = alike}).run();
  tenon::test::TreeDrafter drafter(tenon::test::tiny_config().vocabulary);
  for (Drafter* const drafts : std::initializer_list<Drafter*>{nullptr, &drafter}) {
    StepLoop loop(
        {.plan_ahead = true, .graph_bytes = kRoom, .seed = 6, .drafter = drafts, .guest = alike});
    EXPECT_EQ(loop.run(), expected);
    EXPECT_EQ(loop.engine().last_fault(), "");
    EXPECT_EQ(loop.driver().replays() > 0, drafts == nullptr)
        << "steps with drafts are not captured";
  }
  EXPECT_GT(drafter.accepted(), 0u);
}

TEST(CublasLtStepLoop, draws_on_the_device_the_tokens_of_the_sampler) {
  const auto expected = tokens_of(StepLoop({.guest = alike}).run());
  StepLoop loop({.plan_ahead = true, .graph_bytes = kRoom, .guest = alike, .draws = true});
  EXPECT_EQ(tokens_of(loop.run()), expected);
}

// A run fails in the middle of a step's launches. Later launches are captured all the same,
// and nothing is captured that was not planned.
TEST(CublasLtStepLoop, goes_on_behind_errors_of_the_library) {
  const auto expected = StepLoop({.guest = alike}).run();
  for (const uint64_t graph_bytes : {uint64_t{0}, kRoom}) {
    for (const uint64_t run : {1u, 14u}) {
      SCOPED_TRACE(std::to_string(run) + " with room for " + std::to_string(graph_bytes));
      uint32_t plans = 0;
      CublasLtDouble* library = nullptr;
      LoopCase c{.graph_bytes = graph_bytes, .guest = alike};
      c.on_plan = [&](uint64_t) {
        if (++plans == 2) library->fail_run(run);
      };
      StepLoop loop(c);
      library = &loop.guest();
      uint32_t failed = 0;
      for (const Answer& answer : loop.run()) {
        if (answer.message.empty()) continue;
        ++failed;
        EXPECT_THAT(answer.message, HasSubstr(" by cuBLASLt: the function failed to launch"));
        EXPECT_THAT(answer.message, HasSubstr("a product of "));
      }
      EXPECT_GT(failed, 0u);
      const uint64_t replays = loop.driver().replays();
      EXPECT_EQ(loop.run(), expected);
      EXPECT_EQ(loop.driver().replays() > replays, graph_bytes > 0);
    }
  }
}

}  // namespace
}  // namespace tenon::cuda::test
