// Low-rank adapters: against logits that PEFT computed (tests/golden/adapters), and many in one
// batch against each by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/exec/adapter_host.h"
#include "core/files/npy.h"
#include "core/model/adapters/adapter.h"
#include "tests/support/folders.h"
#include "tests/support/linear/plain_linear.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/random_adapter.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {
namespace {

const std::string kGoldens = source_folder() + "/tests/golden/";

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens + "adapters")) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string case_name(const testing::TestParamInfo<std::tuple<ExecutorCase, std::string>>& test) {
  return std::get<0>(test.param).name() + "_" + std::get<1>(test.param);
}

class AdapterGoldenTest : public testing::TestWithParam<std::tuple<ExecutorCase, std::string>> {};
INSTANTIATE_TEST_SUITE_P(Goldens, AdapterGoldenTest,
                         testing::Combine(testing::ValuesIn(executor_cases()),
                                          testing::ValuesIn(golden_names())),
                         case_name);

// bf16 halves are multiplied with rounded activations where bf16 dot products are used.
TEST_P(AdapterGoldenTest, logits_agree_with_peft) {
  const auto& [executor_case, name] = GetParam();
  const std::string folder = kGoldens + "adapters/" + name;
  std::string base;
  ASSERT_TRUE(std::ifstream(folder + "/base.txt") >> base);
  const auto model = open_model(golden_models() + base);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto adapter = open_adapter(name, folder, **model);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  const auto tokens = read_npy_i32(folder + "/tokens.npy");
  const auto values = read_npy_f32(folder + "/logits.npy");
  ASSERT_TRUE(tokens.ok() && values.ok());
  Logits expected;
  const auto vocabulary = static_cast<ptrdiff_t>(values->shape[1]);
  for (auto at = values->values.begin(); at != values->values.end(); at += vocabulary) {
    expected.emplace_back(at, at + vocabulary);
  }
  const ModelShapeStorage shape((*model)->plan, (*model)->plan.context_tokens);
  Loaded executor(executor_case, **model, shape.shape(), {.adapters = {adapter->get()}});
  const Logits actual = executor->feed(tokens->values, {9, 1, 5}, 1);
  const bool rounds =
      executor_case.rounds_activations() && (*adapter)->matrices[0].a.format == "bf16";
  EXPECT_LE(largest_difference(actual, expected), rounds ? 2e-2 : 1e-4);
  EXPECT_GT(largest_difference(executor->feed(tokens->values, {24}), expected), 1e-3);
}

// Four adapters: of all matrices; of one layer's gate; of attention, with a rank of its own; in
// bf16.
class SeveralAdaptersTest : public testing::TestWithParam<ExecutorCase> {
 protected:
  SeveralAdaptersTest() {
    FlatConfig config = tiny_config();
    config.hidden = 192;
    config.intermediate = 416;
    config.heads = 6;
    config.kv_heads = 2;
    config.head_dim = 64;
    config.vocabulary = 515;
    use(config);
  }

  void use(const FlatConfig& config) {
    adapters_.clear();
    model_ = make_tiny_model({.config = config});
    shape_ = std::make_unique<ModelShapeStorage>(model_->plan, 64);
    const Model& model = *model_;
    const auto is_gate = [&model](uint32_t layer, const Weight& weight) {
      return layer == 1 && &weight == &model.layers[1].gate;
    };
    const auto attends = [&model](uint32_t layer, const Weight& weight) {
      const LayerWeights& own = model.layers[layer];
      return &weight == &own.q || &weight == &own.v || &weight == &own.output;
    };
    add({.seed = 1, .rank = 16});
    add({.seed = 2, .rank = 16, .changes = is_gate});
    add({.seed = 3, .rank = 5, .changes = attends});
    add({.seed = 4, .rank = 16, .dtype = DType::bf16});
  }
  void add(const RandomAdapter& options) {
    adapters_.push_back(make_random_adapter(*model_, options));
  }

  LoadOptions options(uint32_t adapters = 4) const {
    LoadOptions made;
    for (uint32_t i = 0; i < adapters; ++i) made.adapters.push_back(adapters_[i].get());
    return made;
  }
  std::unique_ptr<Loaded> load(const LoadOptions& options) const {
    return std::make_unique<Loaded>(GetParam(), *model_, shape_->shape(), options);
  }
  std::vector<TokenId> text(uint64_t adapter) const {
    return some_tokens(20, model_->plan.vocabulary, static_cast<uint32_t>(adapter) + 1);
  }

  // Each sequence's logits of its 20 tokens: some are prompts while others have single rows.
  std::vector<Logits> together(StepDriver& driver, const std::vector<uint64_t>& adapters) const {
    std::vector<size_t> sequences;
    std::vector<size_t> done(adapters.size());
    std::vector<Logits> all(adapters.size());
    for (const uint64_t adapter : adapters) sequences.push_back(driver.begin(adapter));
    for (size_t step = 0; std::ranges::any_of(done, [](size_t n) { return n < 20; }); ++step) {
      std::vector<StepDriver::Feed> feeds;
      std::vector<std::pair<size_t, size_t>> fed;  // who, how many
      for (size_t i = 0; i < adapters.size(); ++i) {
        const size_t rows = std::min<size_t>(20 - done[i], (step + i) % 3 == 0 ? 7 : 1);
        if (rows == 0) continue;
        const std::vector<TokenId> tokens = text(adapters[i]);
        const auto first = tokens.begin() + static_cast<ptrdiff_t>(done[i]);
        feeds.push_back({sequences[i], {first, first + static_cast<ptrdiff_t>(rows)}});
        fed.emplace_back(i, rows);
      }
      const Logits rows = driver.step(feeds);
      size_t at = 0;
      for (const auto& [i, count] : fed) {
        for (size_t row = 0; row < count; ++row) all[i].push_back(rows[at++]);
        done[i] += count;
      }
    }
    return all;
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelShapeStorage> shape_;
  std::vector<std::unique_ptr<Adapter>> adapters_;
};
INSTANTIATE_TEST_SUITE_P(Executors, SeveralAdaptersTest, testing::ValuesIn(executor_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(SeveralAdaptersTest, each_row_has_the_bits_that_it_has_alone) {
  const std::vector<uint64_t> adapters = {0, 1, 2, 3, 4, 0, 1};
  const auto executor = load(options());
  const std::vector<Logits> batched = together(*executor->operator->(), adapters);
  const auto fresh = load(options());
  for (size_t i = 0; i < adapters.size(); ++i) {
    EXPECT_EQ(batched[i], (*fresh)->feed(text(adapters[i]), {20}, adapters[i])) << adapters[i];
    EXPECT_EQ(batched[i], (*fresh)->feed(text(adapters[i]), {1}, adapters[i])) << adapters[i];
  }
}

TEST_P(SeveralAdaptersTest, other_adapters_that_are_loaded_change_no_bit) {
  const auto executor = load(options());
  for (uint64_t adapter = 1; adapter <= 4; ++adapter) {
    LoadOptions alone;
    alone.adapters = {adapters_[adapter - 1].get()};
    const auto one = load(alone);
    EXPECT_EQ((*executor)->feed(text(adapter), {7, 1}, adapter),
              (*one)->feed(text(adapter), {7, 1}, 1))
        << adapter;
  }
}

TEST_P(SeveralAdaptersTest, the_base_model_keeps_its_bits) {
  const auto plain = load({});
  const Logits expected = (*plain)->feed(text(0), {20});
  const auto executor = load(options());
  EXPECT_EQ((*executor)->feed(text(0), {6, 1}), expected);
  EXPECT_EQ(together(*executor->operator->(), {1, 0, 2, 3, 4})[1], expected);
}

AdapterHost& host_of(Loaded& loaded) {
  return dynamic_cast<AdapterHost&>(loaded.executor());
}

TEST_P(SeveralAdaptersTest, those_that_come_later_have_the_bits_of_those_from_the_start) {
  const std::vector<uint64_t> adapters = {0, 1, 2, 3, 4, 0, 1};
  const auto whole = load(options());
  const std::vector<Logits> expected = together(*whole->operator->(), adapters);
  const Logits base = (*load({}))->feed(text(0), {20});
  for (const uint32_t first : {0u, 1u}) {
    const auto executor = load(options(first));
    AdapterHost& host = host_of(*executor);
    host.add_places(4 - first);
    EXPECT_EQ((*executor)->feed(text(0), {6, 1}), base);
    EXPECT_EQ((*executor)->feed(text(0), {6, 1}, 4), base) << "nothing is at the place";
    for (uint32_t place = 4; place-- > first;) {
      const auto put = host.put_adapter(place, *adapters_[place]);
      ASSERT_TRUE(put.ok()) << put.status().message();
    }
    EXPECT_EQ(together(*executor->operator->(), adapters), expected);
  }
}

TEST_P(SeveralAdaptersTest, a_place_may_have_others_one_after_the_other) {
  const auto whole = load(options());
  const auto executor = load(options(1));
  AdapterHost& host = host_of(*executor);
  host.add_places(1);
  for (const uint64_t adapter : {3, 2, 4, 1, 3}) {
    ASSERT_TRUE(host.put_adapter(1, *adapters_[adapter - 1]).ok());
    EXPECT_EQ((*executor)->feed(text(adapter), {7, 1}, 2),
              (*whole)->feed(text(adapter), {7, 1}, adapter))
        << adapter;
    EXPECT_EQ((*executor)->feed(text(1), {7, 1}, 1), (*whole)->feed(text(1), {7, 1}, 1));
    host.drop_adapter(1);
    EXPECT_EQ((*executor)->feed(text(adapter), {7, 1}, 2), (*whole)->feed(text(adapter), {7, 1}));
  }
}

TEST_P(SeveralAdaptersTest, logits_agree_with_the_oracle) {
  FlatConfig biased = tiny_config();
  biased.qkv_bias = biased.output_bias = biased.mlp_bias = biased.qk_norm = true;
  for (const bool second : {false, true}) {
    if (second) use(biased);
    const auto executor = load(options());
    Loaded oracle({}, *model_, shape_->shape(), options());
    const std::vector<Logits> actual = together(*executor->operator->(), {4, 1, 2, 0, 3});
    const std::vector<Logits> expected = together(*oracle.operator->(), {4, 1, 2, 0, 3});
    for (size_t i = 0; i < actual.size(); ++i) {
      const bool rounds = GetParam().rounds_activations() && i == 0;
      EXPECT_LE(largest_difference(actual[i], expected[i]), rounds ? 2e-2 : 1e-4) << i;
    }
  }
}

// The least that a kernel may do: no sum and no gate is finished by it.
class StoringLinear final : public ForwardingLinear {
 public:
  using ForwardingLinear::ForwardingLinear;
  EpilogueMask epilogues() const noexcept override { return epilogue_bit(Epilogue::store); }
};

TEST(AdaptersTest, one_that_no_kernel_takes_leaves_all_as_it_was) {
  const auto model = make_tiny_model({.config = tiny_config()});
  const ModelShapeStorage shape(model->plan, 64);
  const auto fits = make_random_adapter(*model, {.rank = 3});
  // Its matrices are larger than those that steps have room for.
  const auto fails = make_random_adapter(*model, {.rank = 40, .dtype = DType::bf16});
  const std::vector<TokenId> tokens = some_tokens(20, model->plan.vocabulary);
  const ExecutorCase plain{ExecutorCase::Kind::cpu_plain, kCpuPortable, 2};
  const auto kernels = make_kernels(plain);
  const auto executor = make_executor(plain);
  LoadOptions options{.attention = {kernels->attention()}};
  options.linear = [&](const WeightView& weight) -> Result<ChosenLinear> {
    if (weight.format == "bf16") return unsupported("nobody takes bf16");
    return ChosenLinear(kernels->linear());
  };
  StepDriver driver(*executor, *model, shape.shape(), options);
  ASSERT_TRUE(driver.load_status().ok()) << driver.load_status().message();
  const uint64_t bytes = executor->weight_bytes();
  auto& host = dynamic_cast<AdapterHost&>(*executor);
  host.add_places(2);
  const auto put = host.put_adapter(0, *fails);
  ASSERT_FALSE(put.ok());
  EXPECT_THAT(std::string(put.status().message()), testing::HasSubstr("nobody takes bf16"));
  EXPECT_EQ(executor->weight_bytes(), bytes);
  ASSERT_TRUE(host.put_adapter(1, *fits).ok());
  EXPECT_GT(executor->weight_bytes(), bytes);
  const Logits base = driver.feed(tokens, {20});
  EXPECT_EQ(driver.feed(tokens, {20}, 1), base);
  options.adapters = {fits.get()};
  const auto other = make_executor(plain);
  StepDriver expected(*other, *model, shape.shape(), options);
  EXPECT_EQ(driver.feed(tokens, {7, 1}, 2), expected.feed(tokens, {7, 1}, 1));
  host.drop_adapter(1);
  EXPECT_EQ(executor->weight_bytes(), bytes);
}

TEST(AdaptersTest, kernels_that_only_store_are_enough) {
  const auto model = make_tiny_model({.config = tiny_config()});
  const ModelShapeStorage shape(model->plan, 64);
  const auto adapter = make_random_adapter(*model, {.rank = 3});
  const std::vector<TokenId> tokens = some_tokens(20, model->plan.vocabulary);
  LoadOptions options{.adapters = {adapter.get()}};
  const Logits expected = Loaded({}, *model, shape.shape(), options)->feed(tokens, {20}, 1);

  const ExecutorCase plain{ExecutorCase::Kind::cpu_plain, kCpuPortable, 2};
  const auto kernels = make_kernels(plain);
  StoringLinear storing(*kernels->linear());
  const auto executor = make_executor(plain);
  options.attention = {kernels->attention()};
  options.linear = [&](const WeightView&) -> ChosenLinear { return &storing; };
  StepDriver driver(*executor, *model, shape.shape(), options);
  ASSERT_TRUE(driver.load_status().ok()) << driver.load_status().message();
  const Logits cut = driver.feed(tokens, {11, 1, 3}, 1);
  EXPECT_LE(largest_difference(cut, expected), 1e-4);
  EXPECT_EQ(driver.feed(tokens, {1}, 1), cut);
}

}  // namespace
}  // namespace tenon::test
