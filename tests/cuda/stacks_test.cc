// Matrices that read one input stand one below the other on the device, and a step multiplies them
// at once.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/cuda/weights/weights.h"
#include "tests/cuda/rig/on_device.h"
#include "tests/support/linear/quant_weight.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::make_tiny_model;
using tenon::test::tiny_config;

#ifndef TENON_CUDA_TESTS_ON_A_GPU
// Launches of a step of one row that sees one range, by their kernels' names.
std::map<std::string, uint64_t> launches(const Model& model, const LoadOptions& options = {}) {
  const ModelShapeStorage shape(model.plan, 64);
  OnDevice device(model, shape.shape(), options);
  device.driver->machine().record_launches();
  device.steps.feed(some_tokens(1, model.plan.vocabulary, 3), {1});
  std::map<std::string, uint64_t> counts;
  for (const LaunchRecord& record : device.driver->machine().records()) ++counts[record.name];
  return counts;
}

uint64_t sum(const std::map<std::string, uint64_t>& counts) {
  uint64_t all = 0;
  for (const auto& [name, count] : counts) all += count;
  return all;
}

TEST(CudaStacks, make_nine_launches_of_a_layer_whose_rows_see_one_range) {
  const auto model = make_tiny_model({.config = tiny_config()});
  const uint64_t layers = model->plan.layers.size();
  const std::map<std::string, uint64_t> expected = {
      {"embed", 1},     {"norm", 2 * layers + 1}, {"multiply_f32", 4 * layers + 1},
      {"take_rows", 1}, {"place_heads", layers},  {"attend_plain", layers},
      {"gate", layers}};
  EXPECT_EQ(launches(*model), expected);
  EXPECT_EQ(sum(expected), 9 * layers + 4);
}
#endif

// A bias of zeros for one of them keeps matrices apart, and changes nothing else.
void keep_apart(Model& model) {
  for (LayerWeights& layer : model.layers) {
    ASSERT_TRUE(layer.q_bias.empty() && layer.gate_bias.empty());
    layer.q_bias.assign(layer.q.n_out, 0.0f);
    layer.gate_bias.assign(layer.gate.n_out, 0.0f);
  }
}

// Apart a layer has so many launches more.
void expect_alike(Model& model, const LoadOptions& options, [[maybe_unused]] size_t more) {
  const ModelShapeStorage shape(model.plan, 64);
  const auto tokens = some_tokens(21, model.plan.vocabulary, 3);
  const auto run = [&] {
    OnDevice device(model, shape.shape(), options);
    return device.steps.feed(tokens, {18, 1, 2});
  };
#ifndef TENON_CUDA_TESTS_ON_A_GPU
  const auto before = launches(model, options);
#endif
  const Logits together = run();
  keep_apart(model);
  EXPECT_EQ(run(), together);
#ifndef TENON_CUDA_TESTS_ON_A_GPU
  EXPECT_EQ(sum(launches(model, options)), sum(before) + more * model.plan.layers.size());
#endif
}

TEST(CudaStacks, give_the_bits_of_matrices_that_stand_apart) {
  LoadOptions options;
  options.max_rows = 40;
  expect_alike(*make_tiny_model({.config = tiny_config()}), options, 3);
  options.kv_dtype = DType::bf16;
  expect_alike(*make_tiny_model({.config = tiny_config(), .dtype = DType::bf16}), options, 3);
  for (const char* name : {"gguf/llama_tied_q8_0.gguf", "published/awq_4bit"}) {
    SCOPED_TRACE(name);
    const auto model = open_golden(name);
    ASSERT_NE(model, nullptr);
    expect_alike(*model, options, 4);  // of few rows, the activation too
  }
}

class Stacked {
 public:
  // Of two weights; bytes of the device's memory are as counted.
  Stacked(const Weight& first, const Weight& second) {
    const Weight* const both[] = {&first, &second};
    WeightUpload counted(nullptr, Input::bf16);
    EXPECT_TRUE(counted.stacked(both).ok());
    WeightUpload upload(&memory_, Input::bf16);
    auto made = upload.stacked(both);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) matrices = *std::move(made);
    EXPECT_EQ(counted.bytes(), memory_.held_bytes());
  }
  bool together() const { return matrices.all.n_out > 0; }
  template <typename T>
  std::vector<T> fetched(const T* from, int count) {
    std::vector<T> values(static_cast<size_t>(count));
    EXPECT_TRUE(driver_.fetch(values.data(), from, values.size() * sizeof(T)).ok());
    EXPECT_TRUE(driver_.wait().ok());
    return values;
  }
  StackedMatrices matrices;

 private:
  TestDriver driver_{1 << 20};
  DeviceMemory memory_{driver_};
};

TEST(CudaStacks, have_parts_that_are_what_they_are_alone) {
  for (const char* format : {"q8_0", "q4_0", "u4_64", "u8_32", "f8_32"}) {
    SCOPED_TRACE(format);
    QuantWeight first(format, 5, 128, 3), second(format, 300, 128, 4);
    Stacked both(weight_of(first), weight_of(second));
    ASSERT_TRUE(both.together());
    EXPECT_EQ(both.matrices.all.n_out, 305);
    EXPECT_EQ(both.matrices.parts[0].data, both.matrices.all.data);
    for (const auto& [part, weight] : {std::pair(0, &first), std::pair(1, &second)}) {
      const DeviceMatrix& own = both.matrices.parts[static_cast<size_t>(part)];
      TestDriver driver(1 << 20);
      DeviceMemory memory(driver);
      WeightUpload upload(&memory, Input::bf16);
      const auto alone = upload.matrix(weight_of(*weight));
      ASSERT_TRUE(alone.ok());
      ASSERT_EQ(own.n_out, alone->n_out);
      const auto* codes = static_cast<const uint8_t*>(alone->data);
      const int bytes = own.n_out * own.stride;
      std::vector<uint8_t> expected(static_cast<size_t>(bytes));
      ASSERT_TRUE(driver.fetch(expected.data(), codes, expected.size()).ok());
      ASSERT_EQ(own.groups, alone->groups);
      const int scale_bytes = quant_scale_bytes(own.floats);
      std::vector<uint8_t> scales(static_cast<size_t>(own.n_out * own.groups * scale_bytes));
      ASSERT_TRUE(driver.fetch(scales.data(), alone->scales, scales.size()).ok());
      ASSERT_TRUE(driver.wait().ok());
      EXPECT_EQ(both.fetched(static_cast<const uint8_t*>(own.data), bytes), expected);
      EXPECT_EQ(own.rows, 305);
      for (int group = 0; group < own.groups; ++group) {
        const int count = own.n_out * scale_bytes;
        const auto first_of = scales.begin() + group * count;
        const auto* const from = static_cast<const uint8_t*>(own.scales);
        EXPECT_EQ(both.fetched(from + group * own.rows * scale_bytes, count),
                  std::vector<uint8_t>(first_of, first_of + count));
      }
    }
  }
}

TEST(CudaStacks, are_not_made_of_what_does_not_go_together) {
  QuantWeight q8("q8_0", 5, 128, 3), q4("q4_0", 5, 128, 3), wide("q8_0", 5, 256, 3),
      floats("f8_32", 5, 128, 3), widened("q6_k", 5, 256, 3), other("q4_1", 4, 256, 3);
  EXPECT_FALSE(Stacked(weight_of(q8), weight_of(q4)).together());
  EXPECT_FALSE(Stacked(weight_of(q8), weight_of(floats)).together());
  EXPECT_FALSE(Stacked(weight_of(q8), weight_of(wide)).together());
  EXPECT_FALSE(Stacked(weight_of(q8), Weight()).together());
  EXPECT_FALSE(Stacked(weight_of(wide), weight_of(widened)).together());
  Stacked both(weight_of(widened), weight_of(other));
  EXPECT_TRUE(both.together());
  EXPECT_EQ(both.matrices.parts[1].data,
            static_cast<const uint16_t*>(both.matrices.all.data) + 5 * 256);
}

}  // namespace
}  // namespace tenon::cuda::test
