// Layers with experts: routing, lists of rows, products by expert, and the families that have them.
#include "core/exec/ref/blocks/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/exec/cuda/kernels/launches.h"
#include "tests/cuda/rig/e4m3.h"
#include "tests/cuda/rig/emulated_device.h"
#include "tests/cuda/rig/on_device.h"

namespace tenon::cuda::test {
namespace {

struct Routed {
  std::vector<uint32_t> experts;  // [rows, chosen]
  std::vector<float> factors;     // [rows, chosen + 1]
};

RouteScoring of(ExpertScoring scoring) {
  return scoring == ExpertScoring::softmax             ? RouteScoring::softmax
         : scoring == ExpertScoring::softmax_of_chosen ? RouteScoring::softmax_of_chosen
                                                       : RouteScoring::sigmoid;
}

constexpr int kWidth = 20;

Routed route(const ExpertsPlan& plan, const std::vector<float>& x, const std::vector<float>& router,
             const std::vector<float>& bias, const std::vector<float>& correction,
             const std::vector<float>& shared, uint64_t seed = 1) {
  EmulatedDevice device(seed);
  const auto rows = static_cast<uint32_t>(x.size() / kWidth);
  const auto upload = [&](const std::vector<float>& values, const char* name) {
    return values.empty() ? nullptr : device.upload(values, name);
  };
  RouteCall call = {};
  call.x = device.upload(x, "x");
  call.router = device.upload(router, "router");
  call.bias = upload(bias, "bias");
  call.correction = upload(correction, "correction");
  call.shared_router = upload(shared, "shared_router");
  call.experts = device.make<uint32_t>(rows * plan.chosen, "experts");
  call.factors = device.make<float>(rows * (plan.chosen + 1), "factors");
  call.rows = rows;
  RouteShape shape = {};
  shape.width = shape.x_stride = shape.router_stride = kWidth;
  shape.count = static_cast<int>(plan.count);
  shape.chosen = static_cast<int>(plan.chosen);
  shape.groups = static_cast<int>(plan.groups);
  shape.groups_chosen = static_cast<int>(plan.groups_chosen);
  shape.scoring = of(plan.scoring);
  shape.normalised = plan.normalised;
  shape.best_two = plan.group_score == GroupScore::best_two;
  shape.scale = plan.scale;
  EXPECT_EQ(launch_route(nullptr, call, shape), 0);
  return {device.download(call.experts, rows * plan.chosen),
          device.download(call.factors, rows * (plan.chosen + 1))};
}

std::vector<float> scores_of(const std::vector<float>& x, const std::vector<float>& router,
                             const std::vector<float>& bias, uint32_t row, uint32_t count) {
  std::vector<float> scores;
  for (uint32_t expert = 0; expert < count; ++expert) {
    double sum = bias.empty() ? 0.0 : bias[expert];
    for (uint32_t k = 0; k < kWidth; ++k)
      sum += double{x[row * kWidth + k]} * router[expert * kWidth + k];
    scores.push_back(static_cast<float>(sum));
  }
  return scores;
}

TEST(CudaExperts, are_chosen_as_the_oracle_chooses_them) {
  Numbers numbers(3);
  for (const ExpertScoring scoring :
       {ExpertScoring::softmax, ExpertScoring::softmax_of_chosen, ExpertScoring::sigmoid}) {
    for (const GroupScore group_score : {GroupScore::best, GroupScore::best_two}) {
      for (const uint32_t groups : {1u, 4u}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(scoring)) + " " + std::to_string(groups));
        ExpertsPlan plan;
        plan.count = 136;  // more than a block has threads
        plan.chosen = 5;
        plan.scoring = scoring;
        plan.normalised = groups == 1;
        plan.scale = 2.5f;
        plan.groups = groups;
        plan.groups_chosen = 2;
        plan.group_score = group_score;
        const bool with_correction = scoring == ExpertScoring::sigmoid;
        const std::vector<float> x = numbers.many(6 * kWidth);
        const std::vector<float> router = numbers.many(plan.count * kWidth);
        const std::vector<float> bias =
            groups == 1 ? numbers.many(plan.count) : std::vector<float>();
        const std::vector<float> correction =
            with_correction ? numbers.many(plan.count) : std::vector<float>();
        const std::vector<float> shared = numbers.many(kWidth);
        const Routed routed = route(plan, x, router, bias, correction, shared);
        for (uint32_t row = 0; row < 6; ++row) {
          const std::vector<float> scores = scores_of(x, router, bias, row, plan.count);
          const auto expected = ref::choose(plan, scores, correction);
          for (uint32_t i = 0; i < plan.chosen; ++i) {
            EXPECT_EQ(routed.experts[row * plan.chosen + i], expected[i].expert) << row;
            EXPECT_NEAR(routed.factors[row * (plan.chosen + 1) + i], expected[i].factor, 1e-5f);
          }
          double own = 0.0;
          for (uint32_t k = 0; k < kWidth; ++k) own += double{x[row * kWidth + k]} * shared[k];
          EXPECT_NEAR(routed.factors[row * (plan.chosen + 1) + plan.chosen],
                      1.0 / (1.0 + std::exp(-own)), 1e-5);
        }
      }
    }
  }
}

TEST(CudaExperts, that_score_alike_are_taken_in_their_order) {
  ExpertsPlan plan;
  plan.count = 7;
  plan.chosen = 3;
  std::vector<float> x(kWidth, 0.0f), router(7 * kWidth, 0.0f);
  x[0] = 1.0f;
  router[4 * kWidth] = 1.0f;
  const Routed routed = route(plan, x, router, {}, {}, {});
  EXPECT_EQ(routed.experts, (std::vector<uint32_t>{4, 0, 1}));
  EXPECT_EQ(routed.factors[1], routed.factors[2]);
  EXPECT_EQ(routed.factors[3], 1.0f) << "of a shared expert without a gate";
}

TEST(CudaExperts, are_different_ones_also_for_a_row_that_is_no_number) {
  ExpertsPlan plan;
  plan.count = 9;
  plan.chosen = 4;
  Numbers numbers(2);
  const std::vector<float> router = numbers.many(9 * kWidth);
  const Routed routed = route(plan, std::vector<float>(kWidth, NAN), router, {}, {}, {});
  EXPECT_EQ(std::set<uint32_t>(routed.experts.begin(), routed.experts.end()).size(), 4u);
  for (const uint32_t expert : routed.experts) EXPECT_LT(expert, 9u);
}

// Rows of a step and what they chose.
struct Choice {
  uint32_t rows, chosen, count;
  std::vector<uint32_t> experts;

  Choice(uint32_t row_count, uint32_t of_row, uint32_t of_all, uint64_t seed)
      : rows(row_count), chosen(of_row), count(of_all) {
    Numbers numbers(seed);
    for (uint32_t row = 0; row < rows; ++row) {
      // Few experts get most of the rows.
      const uint32_t first = numbers.below(row % 3 == 0 ? count : 2);
      for (uint32_t i = 0; i < chosen; ++i) experts.push_back((first + i) % count);
    }
  }
  ExpertRows on(EmulatedDevice& device) const {
    ExpertRows made = {};
    made.experts = device.upload(experts, "experts");
    auto* lists = device.make<uint32_t>(uint64_t{count} * (rows + 2), "lists");
    auto* counts = device.make<uint32_t>(count, "counts");
    made.rows = rows;
    made.chosen = chosen;
    made.count = count;
    made.room = rows + 2;
    EXPECT_EQ(launch_collect_places(nullptr, made, lists, counts), 0);
    made.lists = lists;
    made.counts = counts;
    return made;
  }
};

TEST(CudaExperts, have_lists_of_their_rows) {
  for (const uint32_t rows : {1u, 70u, 200u}) {
    const Choice choice(rows, 2, 5, rows);
    EmulatedDevice device;
    const ExpertRows on_device = choice.on(device);
    const auto counts = device.download(on_device.counts, 5);
    for (uint32_t expert = 0; expert < 5; ++expert) {
      std::vector<uint32_t> expected;
      for (uint32_t place = 0; place < choice.experts.size(); ++place) {
        if (choice.experts[place] == expert) expected.push_back(place);
      }
      ASSERT_EQ(counts[expert], expected.size());
      if (expected.empty()) continue;
      EXPECT_EQ(device.download(on_device.lists + expert * on_device.room, expected.size()),
                expected);
    }
  }
}

struct Product {
  const char* name;
  Input type = Input::bf16;
  int bits = 0;
  uint32_t each = 1;
  bool floats = false;
};
constexpr int kN = 70, kK = 64;

// Numbers of all experts, from which rows and columns take theirs.
struct Numbered {
  std::vector<float> x, w, bias;
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  Numbered(const Product& p, const Choice& choice) {
    Numbers numbers(4);
    const uint64_t rows = p.each == 1 ? choice.experts.size() : choice.rows;
    x = widened(rounded(numbers.many(rows * kK)));
    bias = numbers.many(uint64_t{choice.count} * kN);
    w = widened(rounded(numbers.many(uint64_t{choice.count} * kN * kK)));
    if (p.bits == 0) return;
    const auto stride = static_cast<size_t>(quant_stride(kK, p.bits));
    codes.resize(w.size() / kK * stride);
    for (size_t group = 0; group < w.size() / 32; ++group) {
      const float scale = 0.01f + 0.005f * numbers.next();
      scales.push_back(p.floats ? scale / 20 : to_float(to_half(scale)));
      for (size_t i = group * 32; i < group * 32 + 32; ++i) {
        const int place = quant_place(static_cast<int>(i % kK), p.bits);
        uint8_t* const row = &codes[i / kK * stride];
        if (p.floats) {
          row[place] = static_cast<uint8_t>(numbers.below(256));
          w[i] = of_8_bits(row[place]) * scales.back();
          continue;
        }
        const int code = static_cast<int>(numbers.below(p.bits == 4 ? 16 : 255));
        const int value = p.bits == 4 ? code - 8 : code - 127;
        w[i] = static_cast<float>(value) * scales.back();
        if (p.bits == 8) row[place] = static_cast<uint8_t>(value);
        if (p.bits == 4) row[place / 2] |= static_cast<uint8_t>(code << (place % 2 * 4));
      }
    }
  }
};

std::vector<float> multiply(const Product& p, const Choice& choice, const Numbered& numbers,
                            uint64_t seed = 1) {
  EmulatedDevice device(seed);
  const uint64_t places = choice.experts.size();
  const auto plain = [&](const std::vector<float>& values, const char* name) {
    return p.type == Input::f32 ? static_cast<const void*>(device.upload(values, name))
                                : device.upload(rounded(values), name);
  };
  MultiplyCall call = {};
  call.x = plain(numbers.x, "x");
  call.w = p.bits == 0 ? plain(numbers.w, "w") : device.upload(numbers.codes, "w");
  call.bias = device.upload(numbers.bias, "bias");
  call.y = device.make<float>(places * kN, "y");
  call.n_out = call.y_stride = kN;
  call.k_in = call.x_stride = kK;
  call.w_stride = p.bits == 0 ? kK : static_cast<int>(quant_stride(kK, p.bits));
  QuantScales quant = {};
  if (p.bits != 0) {
    const size_t rows = numbers.w.size() / kK;
    std::vector<float> scales;
    std::vector<uint16_t> halves;
    for (size_t i = 0; i < kK / 32 * rows; ++i) {
      scales.push_back(numbers.scales[i % rows * (kK / 32) + i / rows]);
      halves.push_back(to_half(scales.back()).bits);
    }
    const void* const at = p.floats ? static_cast<const void*>(device.upload(scales, "scales"))
                                    : device.upload(halves, "scales");
    quant = {at, nullptr, kK / 32, 32, p.bits, static_cast<int>(rows), p.floats};
  }
  EXPECT_EQ(launch_multiply_experts(nullptr, p.type, call, quant, choice.on(device), p.each), 0);
  return device.download(call.y, places * kN);
}

TEST(CudaExperts, multiply_rows_with_their_own_matrices) {
  for (const Product& p :
       {Product{"f32", Input::f32}, Product{"bf16"}, Product{"each", Input::bf16, 0, 2},
        Product{"8 bits", Input::bf16, 8, 2}, Product{"4 bits", Input::bf16, 4},
        Product{"floats of 8 bits", Input::bf16, 8, 1, true}}) {
    for (const uint32_t rows : {1u, 13u, 70u}) {
      SCOPED_TRACE(std::string(p.name) + ", rows " + std::to_string(rows));
      const Choice choice(rows, 2, 3, 5);
      const Numbered numbers(p, choice);
      const std::vector<float> y = multiply(p, choice, numbers);
      for (uint32_t place = 0; place < choice.experts.size(); ++place) {
        const uint64_t expert = choice.experts[place];
        for (int n = 0; n < kN; ++n) {
          double sum = numbers.bias[expert * kN + n];
          for (int k = 0; k < kK; ++k) {
            sum +=
                double{numbers.x[place / p.each * kK + k]} * numbers.w[(expert * kN + n) * kK + k];
          }
          ASSERT_NEAR(y[place * kN + n], sum, 1e-4) << "place " << place << ", column " << n;
        }
      }
    }
  }
}

TEST(CudaExperts, give_a_row_the_same_bits_whatever_others_choose) {
  for (const Product& p :
       {Product{"bf16"}, Product{"8 bits", Input::bf16, 8}, Product{"4 bits", Input::bf16, 4},
        Product{"floats of 8 bits", Input::bf16, 8, 1, true}}) {
    SCOPED_TRACE(p.name);
    const Choice all(70, 2, 3, 5);
    const Numbered numbers(p, all);
    const std::vector<float> whole = multiply(p, all, numbers, 2);
    for (const uint32_t row : {0u, 33u, 69u}) {
      Choice one(1, 2, 3, 5);
      one.experts = {all.experts[2 * row], all.experts[2 * row + 1]};
      Numbered own = numbers;
      own.x.assign(numbers.x.begin() + 2 * row * kK, numbers.x.begin() + 2 * (row + 1) * kK);
      const std::vector<float> alone = multiply(p, one, own, row);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), whole.begin() + 2 * row * kN)) << row;
    }
  }
}

TEST(CudaExperts, are_added_in_the_order_of_the_choice) {
  EmulatedDevice device;
  const std::vector<float> of = {1, 2, 10, 20, 3, 4, 30, 40};
  const std::vector<float> factors = {0.5f, 2.0f, 4.0f, 1.0f, 3.0f, 0.25f};
  float* hidden = device.upload_variable<float>({100, 200, 300, 400}, "hidden");
  AddExpertsCall call = {};
  call.of = device.upload(of, "of");
  call.factors = device.upload(factors, "factors");
  call.shared = device.upload<float>({1, 1, 8, 8}, "shared");
  call.out = hidden;
  call.rows = 2;
  call.chosen = call.width = 2;
  call.add = true;
  call.scale = 0.5f;
  EXPECT_EQ(launch_add_experts(nullptr, call), 0);
  EXPECT_EQ(device.download(hidden, 4),
            (std::vector<float>{100 + 12.25f, 200 + 22.5f, 300 + 47.5f, 400 + 63.0f}));
  call.shared = nullptr;
  call.add = false;
  EXPECT_EQ(launch_add_experts(nullptr, call), 0);
  EXPECT_EQ(device.download(hidden, 4), (std::vector<float>{20.5f, 41.0f, 93.0f, 124.0f}));
}

TEST(CudaExperts, of_every_family_give_the_logits_of_the_oracle) {
  for (const char* name :
       {"mixtral", "mixtral_window", "qwen2_moe", "qwen2_moe_sparse", "qwen3_moe",
        "qwen3_moe_biases", "qwen3_moe_stacked", "olmoe", "olmoe_clipped", "gpt_oss",
        "gpt_oss_plain", "granitemoe", "granitemoe_biases", "granitemoeshared"}) {
    expect_oracle(std::string("models/") + name, 1e-4f, {});
  }
}

TEST(CudaExperts, in_bf16_and_of_published_folders_give_the_logits_of_the_oracle) {
  LoadOptions options;
  options.kv_dtype = DType::bf16;
  for (const char* name : {"models/mixtral_bf16", "published/mxfp4_experts"}) {
    expect_oracle(name, 2e-2f, options);
  }
}

}  // namespace
}  // namespace tenon::cuda::test
