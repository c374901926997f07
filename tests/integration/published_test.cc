// Checkpoints in the layouts that tools publish, read and run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/model/tensors/weight_rows.h"
#include "tests/support/linear/published_products.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {
namespace {

class Published : public testing::TestWithParam<PublishedCase> {
 protected:
  PublishedProducts golden_{GetParam().name};
};

TEST_P(Published, weights_are_what_their_numbers_stand_for) {
  ASSERT_NE(golden_.model(), nullptr);
  const LayerWeights& layer = golden_.model()->layers[0];
  EXPECT_EQ(layer.experts.empty() ? layer.q.format : layer.experts[0].gate.format,
            GetParam().format);
  golden_.for_each(
      [](const Weight& weight, const std::vector<float>& x, const std::vector<double>& wanted) {
        ASSERT_TRUE(readable_by_rows(weight).ok());
        std::vector<float> values(weight.k_in);
        double error = 0, size = 0;
        for (uint32_t n = 0; n < weight.n_out; ++n) {
          read_row(weight, n, values.data());
          double sum = 0;
          for (uint32_t k = 0; k < weight.k_in; ++k) sum += double{values[k]} * x[k];
          error += (sum - wanted[n]) * (sum - wanted[n]);
          size += wanted[n] * wanted[n];
        }
        // Scales in f32 become f16 in some formats.
        EXPECT_LE(std::sqrt(error / size), 5e-4) << weight.name;
      });
}

Logits published_logits(const Model& model, const ExecutorCase& executor_case) {
  const ModelShapeStorage shape(model.plan, 64);
  Loaded executor(executor_case, model, shape.shape());
  return executor->feed(some_tokens(24, model.plan.vocabulary), {9, 1, 5});
}

// Both add products in rising k, of the same weights.
TEST_P(Published, a_whole_model_says_the_same_tokens_on_the_cpu_as_on_the_oracle) {
  ASSERT_NE(golden_.model(), nullptr);
  const Logits wanted = published_logits(*golden_.model(), {});
  for (const ExecutorCase& cpu : cpu_cases()) {
    if (cpu.kind != ExecutorCase::Kind::cpu_plugins || cpu.rounds_activations()) continue;
    SCOPED_TRACE(cpu.name());
    const Logits got = published_logits(*golden_.model(), cpu);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t row = 0; row < got.size(); ++row) {
      EXPECT_EQ(std::ranges::max_element(got[row]) - got[row].begin(),
                std::ranges::max_element(wanted[row]) - wanted[row].begin());
      for (size_t i = 0; i < got[row].size(); ++i) {
        ASSERT_NEAR(got[row][i], wanted[row][i], 1e-3 * (1 + std::fabs(wanted[row][i])));
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<PublishedCase>& test) {
  return test.param.name;
}
INSTANTIATE_TEST_SUITE_P(Goldens, Published, testing::ValuesIn(kPublishedCases), name_of);
INSTANTIATE_TEST_SUITE_P(GgufGoldens, Published,
                         testing::Values(PublishedCase{"gguf_nvfp4", "nvfp4_64"}), name_of);

}  // namespace
}  // namespace tenon::test
