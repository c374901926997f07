// What steps of known shapes need, what they take, and how a machine is found again from them.
#include "core/sim/step_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/exec/ranks/model_cut.h"
#include "core/model/plan/model_plan.h"
#include "core/model/synth/shape_model.h"
#include "core/sim/fit.h"
#include "core/sim/pace.h"

namespace tenon::sim {
namespace {

constexpr uint32_t kContext = 4096;
constexpr double kTurn = 100;

// A model without weights, with K and V in 16 bits.
struct Shaped {
  std::unique_ptr<Model> model;
  ModelCut cut;
  std::unique_ptr<ModelShapeStorage> shape;
  std::vector<KvGroupGeometry> groups;
  std::unique_ptr<StepModel> steps;
};
// `ranks`: as the first of so many machines that compute together sees it.
Shaped shaped(const std::string& name, const std::string& format = "", uint32_t ranks = 1) {
  Shaped out;
  auto model = open_without_weights(name, {}, format);
  EXPECT_TRUE(model.ok()) << model.status().message();
  out.model = *std::move(model);
  if (ranks > 1) out.cut = cut_model(*out.model, {.ranks = ranks});
  out.shape = std::make_unique<ModelShapeStorage>(out.model->plan, kContext);
  const ModelShape& shape = out.shape->shape();
  out.groups.resize(shape.group_count);
  for (GroupId group = 0; group < shape.group_count; ++group) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shape.layer_count; ++i) {
      if (shape.layers[i].group != group) continue;
      bytes += 2 * 2 * uint64_t{out.model->plan.layers[i].attention.kv_width()};
    }
    out.groups[group].bytes_per_token = bytes;
  }
  out.steps = std::make_unique<StepModel>(
      *out.model, shape, KvGeometry{.group_count = shape.group_count, .groups = out.groups.data()},
      ranks);
  return out;
}

Machine machine() {
  return {.name = "m",
          .memory_bytes = uint64_t{1} << 40,
          .bandwidth = 1e11,
          .link_bandwidth = 1e10,
          .products = {{"bf16", 4e12, {1, 64}, {0.8, 0.5}}, {"q8_0", 8e12, {1}, {0.6}}},
          .attention_operations = 1e12,
          .decode_share = 0.5,
          .prompt_share = 0.3,
          .step_ns = 20e3,
          .layer_ns = 2e3,
          .sequence_ns = 1e3,
          .logits_ns = 0.5};
}

TEST(StepNeeds, a_row_of_llama_8b_reads_its_weights_and_computes_twice_as_often) {
  const Shaped of = shaped("llama-3.1-8b");
  const SequenceLoad one[] = {{1, 1024}};
  const StepNeeds needs = of.steps->needs_of(one, 1, kTurn);
  double bytes = 0, elements = 0;
  for (const ProductNeed& need : needs.products) {
    bytes += need.bytes;
    elements += need.elements;
  }
  // Without the embedding: 32 layers of 218.1 million, and the head.
  EXPECT_NEAR(elements, 32 * 218.1e6 + 525.3e6, 1e6);
  EXPECT_EQ(bytes, 2 * elements);
  EXPECT_EQ(needs.decode_bytes, 1024 * 32 * 4096.0);
  EXPECT_EQ(needs.prompt_operations, 0);
  EXPECT_EQ(needs.logits, 128256);
}

TEST(StepNeeds, the_head_meets_the_rows_that_are_sampled_alone) {
  const Shaped of = shaped("llama-3.1-8b");
  const SequenceLoad prompt[] = {{512, 512}};
  const StepNeeds whole = of.steps->needs_of(prompt, 1, kTurn);
  EXPECT_EQ(whole.products.at(0).rows, 512);
  EXPECT_EQ(whole.products.at(1).rows, 1);
  // 4 · heads · head_dim · layers · Σ positions
  EXPECT_NEAR(whole.prompt_operations, 4.0 * 4096 * 32 * 512 * 256.5, 1e6);
  EXPECT_EQ(whole.decode_bytes, 0);
  const StepNeeds chunk = of.steps->needs_of(prompt, 0, kTurn);
  EXPECT_EQ(chunk.products.size(), 1u);
}

TEST(StepNeeds, experts_count_as_far_as_rows_choose_them) {
  const Shaped of = shaped("mixtral-8x7b");
  const SequenceLoad one[] = {{1, 1}};
  const StepNeeds few = of.steps->needs_of(one, 1, kTurn);
  const std::vector<SequenceLoad> more(64, {1, 1});
  const StepNeeds many = of.steps->needs_of(more, 64, kTurn);
  const double all = 32 * 8 * 3.0 * 4096 * 14336 * 2;
  EXPECT_NEAR(few.expert_bytes, all / 4, all * 1e-6);
  EXPECT_NEAR(many.expert_bytes, all, all * 1e-3);
}

TEST(StepNeeds, a_window_bounds_what_is_read) {
  const Shaped of = shaped("mistral-7b");
  const SequenceLoad within[] = {{1, 4096}}, beyond[] = {{1, 9000}};
  EXPECT_EQ(of.steps->needs_of(within, 1, kTurn).decode_bytes,
            of.steps->needs_of(beyond, 1, kTurn).decode_bytes);
}

double elements_of(const StepNeeds& needs) {
  double elements = 0;
  for (const ProductNeed& need : needs.products) elements += need.elements;
  return elements;
}

TEST(StepNeeds, machines_that_compute_together_share_weights_heads_and_sums) {
  const Shaped whole = shaped("llama-3.1-8b"), part = shaped("llama-3.1-8b", "", 4);
  const SequenceLoad loads[] = {{1, 1024}, {300, 300}};
  const StepNeeds all = whole.steps->needs_of(loads, 2, kTurn);
  const StepNeeds own = part.steps->needs_of(loads, 2, kTurn);
  EXPECT_NEAR(elements_of(own), elements_of(all) / 4, 1);
  EXPECT_EQ(own.decode_bytes, all.decode_bytes / 4);
  EXPECT_NEAR(own.prompt_operations, all.prompt_operations / 4, 1);
  EXPECT_EQ(all.sums, 0);
  // Attention and the MLP of each layer, rows of 4096 numbers in bf16.
  EXPECT_EQ(own.sums, 64);
  EXPECT_EQ(own.summed_bytes, 301 * 4096 * 2);
  EXPECT_EQ(own.gathered_bytes, 2 * 128256 * 2 * 0.75);
}

TEST(StepNeeds, one_kv_head_that_machines_share_is_read_by_each) {
  // 8 KV heads on 16 machines: each keeps one, so two read the same.
  const Shaped whole = shaped("llama-3.1-8b"), part = shaped("llama-3.1-8b", "", 16);
  const SequenceLoad one[] = {{1, 1024}};
  EXPECT_EQ(part.steps->needs_of(one, 1, kTurn).decode_bytes,
            whole.steps->needs_of(one, 1, kTurn).decode_bytes / 8);
}

TEST(StepCost, sums_take_rounds_of_messages_or_bytes_whichever_is_quicker) {
  const JoiningLink link{.bandwidth = 1e11, .latency_ns = 4000, .most = 8};
  EXPECT_EQ(sum_seconds(link, 1, 1e6), 0);
  EXPECT_NEAR(sum_seconds(link, 8, 1), 3 * 4e-6, 1e-9);
  EXPECT_NEAR(sum_seconds(link, 8, 1e9), 2 * (3 * 4e-6 + 7.0 / 8 * 1e-2), 1e-9);
  double last = 0;
  for (double bytes = 1; bytes < 1e9; bytes *= 1.3) {
    EXPECT_GE(sum_seconds(link, 8, bytes), last);
    last = sum_seconds(link, 8, bytes);
  }
}

TEST(StepCost, more_machines_are_quicker_as_far_as_their_links_allow) {
  Machine m = machine();
  m.joined = {.bandwidth = 3e11, .latency_ns = 4000, .most = 8};
  const auto seconds = [&](uint32_t ranks) {
    const Shaped of = shaped("llama-3.1-8b", "", ranks);
    const SequenceLoad one[] = {{1, 1024}};
    return step_time(m, of.steps->needs_of(one, 1, machine_turn(m)), ranks).seconds();
  };
  const double one = seconds(1), two = seconds(2), eight = seconds(8);
  EXPECT_LT(two, one);
  EXPECT_LT(eight, two);
  EXPECT_GT(eight, one / 8);
  m.joined.latency_ns = 1e6;
  EXPECT_GT(seconds(8), one);
}

TEST(StepCost, more_rows_sequences_and_entries_never_take_less) {
  const Shaped of = shaped("smollm-135m");
  const Machine m = machine();
  const double turn = machine_turn(m);
  const auto cost = [&](std::vector<SequenceLoad> loads) {
    const auto count = static_cast<uint32_t>(loads.size());
    return step_ns(m, of.steps->needs_of(loads, count, turn));
  };
  int64_t last = 0;
  for (uint32_t rows = 1; rows <= 2048; rows += rows < 80 ? 1 : 37) {
    const int64_t now = cost({{rows, 2048}});
    EXPECT_GE(now, last) << rows;
    last = now;
  }
  last = 0;
  for (uint32_t entries = 1; entries < 4000; entries += 13) {
    const int64_t now = cost({{1, entries}, {1, 7}});
    EXPECT_GE(now, last) << entries;
    last = now;
  }
}

TEST(StepCost, what_stays_in_caches_is_read_as_fast_as_they_are) {
  const Shaped of = shaped("smollm-135m");
  const SequenceLoad one[] = {{1, 100}};
  Machine m = machine();
  const StepNeeds needs = of.steps->needs_of(one, 1, machine_turn(m));
  const double from_memory = step_time(m, needs).reading;
  m.cached = {{1e6, 2 * read_bytes(needs)}, {2 * m.bandwidth, 2 * m.bandwidth}};
  m.memory_layer_ns = 5e3;
  EXPECT_NEAR(step_time(m, needs).reading, from_memory / 2, from_memory * 1e-9);
  const double overheads = step_time(m, needs).overheads;
  m.cached.bytes = {1e6, read_bytes(needs) / 2};
  EXPECT_EQ(step_time(m, needs).reading, from_memory);
  EXPECT_NEAR(step_time(m, needs).overheads, overheads + 30 * 5e-6, 1e-9);
}

TEST(StepCost, a_format_without_a_rate_is_named) {
  const Shaped of = shaped("smollm-135m", "q4_0");
  EXPECT_EQ(std::string(check_formats(machine(), *of.steps).message()),
            "machine 'm' has no rate for weights of format 'q4_0'; it has bf16 and q8_0: add a "
            "[[product]] to its file, or simulate a model of one of those");
  EXPECT_TRUE(check_formats(machine(), *shaped("smollm-135m", "q8_0").steps).ok());
}

TEST(Fit, least_squares_are_not_negative) {
  // Without the condition the second would be -1.
  const std::vector<double> a = {1, 1, 1, 2, 1, 3}, b = {3, 2, 1};
  const std::vector<double> x = non_negative_least_squares(a, b, 2);
  EXPECT_NEAR(x[0], 2, 1e-5);
  EXPECT_NEAR(x[1], 0, 1e-5);
}

TEST(Fit, the_machine_that_took_the_time_is_found_again) {
  const Machine truth = machine();
  std::vector<Shaped> models;
  for (const char* format : {"", "q8_0"}) {
    for (const char* name : {"tale", "smollm-135m", "smollm-360m", "qwen2.5-0.5b"}) {
      models.push_back(shaped(name, format));
    }
  }
  std::vector<MeasuredStep> steps;
  for (const Shaped& model : models) {
    for (const uint32_t count : {1u, 4u, 16u, 64u}) {
      for (const uint32_t rows : {1u, 16u, 64u}) {
        for (const uint32_t before : {0u, 900u}) {
          MeasuredStep step{.model = model.steps.get()};
          step.sequences.assign(count, {rows, rows + before});
          step.logits_rows = count;
          step.held_out = &model == &models.back() && count == 4;
          step.seconds =
              1e-9 * static_cast<double>(step_ns(
                         truth, step.model->needs_of(step.sequences, count, machine_turn(truth))));
          steps.push_back(std::move(step));
        }
      }
    }
  }
  Machine limits = truth;
  limits.decode_share = limits.prompt_share = 1;
  for (ProductRate& rate : limits.products) {
    rate.rows = {1};
    rate.shares = {1};
  }
  const auto fit = fit_machine(limits, {1, 64}, steps);
  ASSERT_TRUE(fit.ok()) << fit.status().message();
  EXPECT_LT(fit->mean_error, 0.03);
  EXPECT_LT(fit->held_out_error, 0.05);
  EXPECT_NEAR(fit->machine.find("bf16")->share_at(1), 0.8, 0.08);
  EXPECT_TRUE(check_machine(fit->machine).ok()) << check_machine(fit->machine).message();
}

TEST(Fit, too_few_steps_are_refused) {
  const auto fit = fit_machine(machine(), {1, 64}, {});
  ASSERT_FALSE(fit.ok());
  EXPECT_EQ(std::string(fit.status().message()),
            "there are 0 steps to fit a machine to; expected 8 at least");
}

TEST(ShapeModel, a_model_without_weights_has_their_sizes_and_formats) {
  const auto plain = open_without_weights("llama-3.1-8b", {}, "");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_NEAR(static_cast<double>((*plain)->weight_bytes()), 16.06e9, 0.01e9);
  EXPECT_FALSE((*plain)->plan.tied_embeddings);
  const auto packed = open_without_weights("llama-3.1-8b", {}, "q4_0");
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  EXPECT_EQ((*packed)->layers[0].q.format, "q4_0");
  EXPECT_EQ((*packed)->embedding.format, "bf16");
}

TEST(ShapeModel, what_is_neither_a_model_nor_a_shape_is_named) {
  const auto none = open_without_weights("somewhere/llama-9", {}, "");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(std::string(none.status().message()),
              testing::HasSubstr("there is no shape 'llama-9'; there are llama-3.2-1b"));
  const auto format = open_without_weights("tale", {}, "q3");
  ASSERT_FALSE(format.ok());
  EXPECT_THAT(std::string(format.status().message()),
              testing::HasSubstr("there is no format 'q3' of weights; there are"));
}

// Steps of a machine that others slow down: prompts by a half, rows by a fifth.
TEST(Pace, is_what_steps_take_beside_what_the_file_says) {
  const Shaped of = shaped("smollm-135m");
  const Machine m = machine();
  std::vector<MeasuredStep> steps;
  for (const uint32_t rows : {1u, 48u}) {
    for (const uint32_t count : {1u, 8u}) {
      MeasuredStep step{.model = of.steps.get()};
      step.sequences.assign(count, {rows, rows + 20});
      step.logits_rows = count;
      const StepNeeds needs = of.steps->needs_of(step.sequences, count, machine_turn(m));
      step.seconds = step_time(m, needs).seconds() * (rows == 1 ? 1.2 : 1.5);
      steps.push_back(std::move(step));
    }
  }
  const auto pace = pace_of(m, steps);
  ASSERT_TRUE(pace.ok()) << pace.status().message();
  EXPECT_NEAR(pace->rows, 1.2, 1e-9);
  EXPECT_NEAR(pace->prompts, 1.5, 1e-9);
  EXPECT_NEAR(pace->mean, std::sqrt(1.2 * 1.5), 1e-9);
  EXPECT_NEAR(pace->least, 1.2, 1e-9);
  EXPECT_NEAR(pace->most, 1.5, 1e-9);
  EXPECT_EQ(pace->steps, 4u);
  EXPECT_FALSE(pace_of(m, {}).ok());
}

TEST(Pace, a_machine_at_a_pace_takes_so_many_times_as_long_for_everything) {
  const Shaped of = shaped("smollm-135m");
  Machine m = machine();
  m.cached = {{1e6, 1e9}, {4 * m.bandwidth, m.bandwidth}};
  const Machine slower = at_pace(m, 1.3);
  ASSERT_TRUE(check_machine(slower).ok()) << check_machine(slower).message();
  EXPECT_NE(slower.source.find("1.300"), std::string::npos);
  for (const uint32_t rows : {1u, 7u, 64u, 500u}) {
    const SequenceLoad loads[] = {{rows, 600}, {1, 900}};
    const auto seconds = [&](const Machine& of_it) {
      return step_time(of_it, of.steps->needs_of(loads, 2, machine_turn(of_it))).seconds();
    };
    EXPECT_NEAR(seconds(slower) / seconds(m), 1.3, 1e-9) << rows;
  }
}

}  // namespace
}  // namespace tenon::sim
