// Executors against logits that Hugging Face transformers computed (tests/golden/models), and
// against the oracle where there is no golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/files/npy.h"
#include "core/model/model.h"
#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {
namespace {

const std::string kGoldens = golden_models();

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// As a fraction of the range of the logits. Where activations are rounded to bf16 (8 bits), as
// bf16 dot products have it, errors of 2^-9 of the values add up over layers.
double tolerance(const ExecutorCase& executor, const Model& model) {
  const auto is_bf16 = [](const Weight& weight) { return weight.format == "bf16"; };
  const LayerWeights& layer = model.layers[0];
  const bool rounds = executor.rounds_activations() &&
                      (is_bf16(model.head) || is_bf16(layer.q) || is_bf16(layer.down));
  return rounds ? 2e-2 : 1e-4;
}

class GoldenTest : public testing::TestWithParam<std::tuple<ExecutorCase, std::string>> {};

TEST_P(GoldenTest, logits_agree_with_transformers) {
  const auto& [executor_case, name] = GetParam();
  const auto model = open_model(kGoldens + name);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto tokens = read_npy_i32(kGoldens + name + "/tokens.npy");
  const auto values = read_npy_f32(kGoldens + name + "/logits.npy");
  ASSERT_TRUE(tokens.ok() && values.ok());
  const uint64_t vocabulary = values->shape[1];
  Logits expected;
  for (auto at = values->values.begin(); at != values->values.end();
       at += static_cast<ptrdiff_t>(vocabulary)) {
    expected.emplace_back(at, at + static_cast<ptrdiff_t>(vocabulary));
  }
  const ModelShapeStorage shape((*model)->plan, (*model)->plan.context_tokens);
  Loaded executor(executor_case, **model, shape.shape());
  // What is seen as a whole is computed as a whole.
  const bool whole = (*model)->plan.mask_token.has_value();
  const std::vector<uint32_t> chunks =
      whole ? std::vector<uint32_t>{40} : std::vector<uint32_t>{17, 1, 5};
  const Logits actual = executor->feed(tokens->values, chunks);
  EXPECT_LE(largest_difference(actual, expected), tolerance(executor_case, **model));
}

TEST_P(GoldenTest, rows_have_the_same_bits_however_the_text_is_cut) {
  const auto& [executor_case, name] = GetParam();
  const auto model = open_model(kGoldens + name);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const std::vector<TokenId> tokens = some_tokens(40, (*model)->plan.vocabulary);
  if ((*model)->plan.mask_token) GTEST_SKIP() << "what is seen as a whole cannot be cut";
  const ModelShapeStorage shape((*model)->plan, 64);
  const Logits whole = Loaded(executor_case, **model, shape.shape())->feed(tokens, {40});
  const Logits cut = Loaded(executor_case, **model, shape.shape())->feed(tokens, {17, 1, 5});
  EXPECT_EQ(cut, whole);
}

// The contract is by numerics id, which names the instruction set: sets whose products are fused
// otherwise make other bits, and say so.
class OneIdTest : public testing::TestWithParam<std::string> {};

TEST_P(OneIdTest, one_numerics_id_means_the_same_bits_on_any_instruction_set_and_threads) {
  const auto model = open_model(kGoldens + GetParam());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const std::vector<TokenId> tokens = some_tokens(24, (*model)->plan.vocabulary);
  const ModelShapeStorage shape((*model)->plan, 64);
  std::map<std::string, Logits> by_id;
  for (ExecutorCase executor_case : cpu_cases()) {
    if (executor_case.kind != ExecutorCase::Kind::cpu_plugins) continue;
    for (const uint32_t threads : {1u, 3u}) {
      executor_case.threads = threads;
      Loaded executor(executor_case, **model, shape.shape());
      Logits logits = executor->feed(tokens, {24});
      const std::string id = executor.executor().numerics();
      const auto [first, is_new] = by_id.try_emplace(id, std::move(logits));
      if (!is_new) {
        EXPECT_EQ(logits, first->second) << id << " " << executor_case.name();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, OneIdTest, testing::ValuesIn(golden_names()),
                         [](const auto& test) { return test.param; });

INSTANTIATE_TEST_SUITE_P(Goldens, GoldenTest,
                         testing::Combine(testing::ValuesIn(executor_cases()),
                                          testing::ValuesIn(golden_names())),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param);
                         });

// Shapes that fit no vector: odd widths, a single KV head, head_dim 6.
FlatConfig odd_config() {
  FlatConfig config = tiny_config();
  config.hidden = 37;
  config.intermediate = 101;
  config.heads = 5;
  config.kv_heads = 1;
  config.head_dim = 6;
  config.vocabulary = 83;
  return config;
}
// Shapes that fill several vectors of every operation.
FlatConfig wide_config() {
  FlatConfig config = tiny_config();
  config.hidden = 192;
  config.intermediate = 416;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.vocabulary = 515;
  return config;
}
FlatConfig with_everything(FlatConfig config) {
  config.qkv_bias = config.output_bias = config.mlp_bias = config.qk_norm = true;
  config.window_tokens = {0, 9};
  return config;
}

class OracleTest : public testing::TestWithParam<ExecutorCase> {
 protected:
  static void expect_close(const Model& model, const ModelShape& shape) {
    const std::vector<TokenId> tokens = some_tokens(40, model.plan.vocabulary);
    const Logits expected = Loaded({}, model, shape)->feed(tokens, {40});
    const Logits actual = Loaded(GetParam(), model, shape)->feed(tokens, {23, 1, 4});
    EXPECT_LE(largest_difference(actual, expected), tolerance(GetParam(), model));
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, OracleTest, testing::ValuesIn(cpu_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(OracleTest, shapes_and_formats_of_all_kinds_agree_with_the_oracle) {
  for (const FlatConfig& config : {odd_config(), wide_config(), with_everything(odd_config()),
                                   with_everything(wide_config())}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(std::to_string(config.hidden) + " " + std::string(dtype_name(dtype)));
      for (const bool tied : {false, true}) {
        FlatConfig one = config;
        one.tied_embeddings = tied;
        const auto model = make_tiny_model({.config = one, .dtype = dtype, .misaligned = true});
        expect_close(*model, ModelShapeStorage(model->plan, 64).shape());
      }
    }
  }
}

TEST_P(OracleTest, layers_may_share_kv_and_cap_their_scores) {
  auto model = make_tiny_model({.config = wide_config()});
  const ModelShapeStorage storage(model->plan, 64);
  std::vector<LayerShape> layers(storage.shape().layers, storage.shape().layers + 2);
  KvGroup group = storage.shape().groups[0];
  ModelShape shape = storage.shape();
  shape.layers = layers.data();
  shape.groups = &group;
  group.layers = 1;
  layers[0].soft_cap = 0.7f;
  layers[1].shares_kv_with = 0;
  layers[1].index_in_group = 0;
  model->layers[1].k = model->layers[1].v = Weight{};
  expect_close(*model, shape);
}

TEST_P(OracleTest, long_texts_stay_close) {
  const auto model = make_tiny_model({.config = wide_config()});
  ModelPlan plan = model->plan;
  plan.context_tokens = 700;
  const ModelShapeStorage shape(plan, 700);
  const std::vector<TokenId> tokens = some_tokens(600, plan.vocabulary);
  const LoadOptions options{.max_rows = 600};
  const Logits expected = Loaded({}, *model, shape.shape(), options)->feed(tokens, {600});
  const Logits actual = Loaded(GetParam(), *model, shape.shape(), options)->feed(tokens, {211});
  EXPECT_LE(largest_difference(actual, expected), 1e-4);
}

// Executors compute K and V with differences in the last bits, which may round to neighbours in the
// cache's type: that is what a cache type's tolerance is for.
TEST_P(OracleTest, caches_of_every_type_agree_with_the_oracle_and_change_no_bit_by_cutting) {
  if (GetParam().kind == ExecutorCase::Kind::cpu_plain) GTEST_SKIP() << "keeps f32 only";
  const auto model = make_tiny_model({.config = wide_config()});
  const ModelShapeStorage shape(model->plan, 64);
  const std::vector<TokenId> tokens = some_tokens(40, model->plan.vocabulary);
  const Logits exact = Loaded({}, *model, shape.shape())->feed(tokens, {40});
  constexpr std::pair<DType, double> kTolerances[] = {
      {DType::f16, 1e-3}, {DType::bf16, 1e-3}, {DType::i8, 1e-3}, {DType::i4, 1e-2}};
  for (const auto& [dtype, tolerance] : kTolerances) {
    const auto feed = [&, cache = dtype](const ExecutorCase& executor, uint32_t block_tokens,
                                         const std::vector<uint32_t>& chunks) {
      LoadOptions options{.block_tokens = block_tokens};
      options.kv_dtype = cache;
      return Loaded(executor, *model, shape.shape(), options)->feed(tokens, chunks);
    };
    const Logits whole = feed(GetParam(), 16, {40});
    EXPECT_LE(largest_difference(whole, feed({}, 16, {40})), tolerance) << dtype_name(dtype);
    EXPECT_NE(whole, exact) << dtype_name(dtype);
    EXPECT_EQ(feed(GetParam(), 1, {7, 1}), whole) << dtype_name(dtype);
    EXPECT_EQ(feed(GetParam(), 64, {1}), whole) << dtype_name(dtype);
  }
}

// A real, trained model from outside the repository.
class TrainedModelTest : public testing::TestWithParam<ExecutorCase> {};
INSTANTIATE_TEST_SUITE_P(Executors, TrainedModelTest, testing::ValuesIn(executor_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(TrainedModelTest, a_trained_model_expects_its_own_greedy_text) {
  const char* given = std::getenv("TENON_SHARED_DATA");
  const std::string data = given != nullptr ? given : source_folder() + "/../shared/data";
  const std::string folder = data + "/models/stories260k";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no shared data";
  const auto model = open_model(folder);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelShapeStorage shape((*model)->plan, 256);
  Loaded executor(GetParam(), **model, shape.shape());
  const size_t sequence = executor->begin();
  TokenId token = 1;
  double surprise = 0;
  for (int i = 0; i < 200; ++i) {
    const Row row = executor->step({{sequence, {token}}})[0];
    const auto best = std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float value : row) sum += std::exp(double{value} - *best);
    surprise += std::log(sum);
    token = static_cast<TokenId>(best - row.begin());
  }
  // Trained models are sure of themselves: below a nat a token, where chance has 6.2.
  EXPECT_LT(surprise / 200, 1.0);
}

}  // namespace
}  // namespace tenon::test
