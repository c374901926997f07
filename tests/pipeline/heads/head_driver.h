// Drives a head on an executor as the draft runner does, and holds it against goldens.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/head_host.h"
#include "core/model/tensors/tensor_values.h"
#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"

namespace tenon::test {

inline constexpr uint32_t kBlock = 16;

// Computes one sequence in one block of K/V, a few rows at a time.
class HeadDriver {
 public:
  HeadDriver(const ExecutorCase& executor, const OpenedHead& head)
      : HeadDriver(make_executor(executor), make_kernels(executor), head) {
    EXPECT_TRUE(loaded_.ok()) << loaded_.message();
  }
  // `kernels`: null where the executor has its own.
  HeadDriver(std::unique_ptr<Executor> executor, std::unique_ptr<KernelSet> kernels,
             const OpenedHead& head)
      : head_(head),
        shape_(head.model->plan, kBlock),
        kernels_(std::move(kernels)),
        executor_(std::move(executor)) {
    auto* host = dynamic_cast<HeadHost*>(executor_.get());
    EXPECT_NE(host, nullptr);
    host->take_head(*head.head);
    for (GroupId group = 0; group < shape_.shape().group_count; ++group) {
      groups_.push_back(
          {DType::f32, kBlock, 4, kv_bytes_per_token(shape_.shape(), group, DType::f32), 0});
    }
    ExecutorSetup setup;
    setup.model = head.model.get();
    setup.shape = &shape_.shape();
    setup.geometry = {kBlock, 1, shape_.shape().group_count, groups_.data()};
    setup.max_rows = kBlock;
    setup.max_sequences = 1;
    if (kernels_ != nullptr) {
      setup.attention = {kernels_->attention()};
      setup.linear = [this](const WeightView&) -> ChosenLinear {
        return {kernels_->linear(), kernels_->gate_finish()};
      };
    }
    loaded_ = executor_->load(setup);
  }
  const Status& loaded() const { return loaded_; }

  void begin() { computed_ = 0; }
  // Rows after those computed; `states` [rows, width]. The logits after the last one, and in
  // `state` what goes on from it.
  Row step(const std::vector<TokenId>& tokens, const float* states, uint64_t width) {
    const Rows rows = run(tokens, states, width, {static_cast<uint32_t>(tokens.size()) - 1});
    computed_ += static_cast<uint32_t>(tokens.size());
    state = rows.states.front();
    return rows.logits.front();
  }
  // Rows that are only kept: the target's states.
  void keep(const std::vector<TokenId>& tokens, const float* states, uint64_t width) {
    run(tokens, states, width, {});
    computed_ += static_cast<uint32_t>(tokens.size());
  }
  // Rows that are not kept, of which those `wanted` are given out. `states` may be null.
  struct Rows {
    std::vector<Row> logits, states;
  };
  Rows run(const std::vector<TokenId>& tokens, const float* states, uint64_t width,
           const std::vector<uint32_t>& wanted, bool see_all = false) {
    const auto rows = static_cast<uint32_t>(tokens.size());
    std::vector<uint32_t> positions;
    for (uint32_t row = 0; row < rows; ++row) positions.push_back(computed_ + row);
    const std::vector<uint32_t> sees_to(see_all ? rows : 0, rows - 1);
    const uint32_t end = computed_ + rows;
    const BlockId block = 2;
    KvTableView table;
    table.blocks = {&block, 1};
    const std::vector<BatchGroup> groups(shape_.shape().group_count,
                                         {positions, {&end, 1}, {&table, 1}});
    const BatchSequence sequence{0, 0, rows, 0, 0};
    const LayerId layer = head_.head->state_layer(shape_.shape().layer_count);
    BatchView batch;
    batch.step_id = ++step_id_;
    batch.rows = batch.padded_rows = rows;
    batch.padded_sequences = 1;
    batch.tokens = tokens;
    batch.positions = positions;
    batch.sees_to = sees_to;
    batch.sequences = {&sequence, 1};
    batch.groups = groups;
    batch.logits_rows = batch.hidden_rows = wanted;
    batch.hidden_layers = {&layer, 1};
    if (states != nullptr) {
      batch.inputs.data = states;
      batch.inputs.rank = 2;
      batch.inputs.shape[0] = rows;
      batch.inputs.shape[1] = batch.inputs.stride[0] = width;
    }
    const Status launched = executor_->launch(batch);
    EXPECT_TRUE(launched.ok()) << launched.message();
    const auto output = executor_->collect(step_id_);
    EXPECT_TRUE(output.ok());
    Rows out;
    for (size_t i = 0; output.ok() && i < wanted.size(); ++i) {
      const float *logits = output->logits + i * output->vocabulary,
                  *hidden = output->hidden[0] + i * shape_.shape().hidden;
      out.logits.emplace_back(logits, logits + output->vocabulary);
      out.states.emplace_back(hidden, hidden + shape_.shape().hidden);
    }
    return out;
  }
  Executor& executor() { return *executor_; }
  const ModelShape& shape() const { return shape_.shape(); }
  KvGeometry geometry() const { return {kBlock, 1, shape_.shape().group_count, groups_.data()}; }

  Row state;

 private:
  const OpenedHead& head_;
  ModelShapeStorage shape_;
  std::unique_ptr<KernelSet> kernels_;
  std::unique_ptr<Executor> executor_;
  Status loaded_;
  std::vector<KvGroupGeometry> groups_;
  uint32_t computed_ = 0;
  uint64_t step_id_ = 0;
};

struct Golden {
  std::vector<TokenId> tokens;  // [9]
  std::vector<float> hidden;    // [8, width]
  std::vector<float> logits;    // [3, 8, draft vocabulary]
  uint64_t width = 0, vocabulary = 0, rows = 0, steps = 0;
};

inline Golden read_golden(const std::string& folder) {
  Golden golden;
  auto file = open_safetensors(folder + "/golden.safetensors");
  EXPECT_TRUE(file.ok()) << file.status().message();
  const TensorView& tokens = *(*file)->find("tokens");
  for (uint64_t i = 0; i < tokens.shape[0]; ++i) {
    golden.tokens.push_back(static_cast<TokenId>(static_cast<const int64_t*>(tokens.data)[i]));
  }
  const TensorView &hidden = *(*file)->find("hidden"), &logits = *(*file)->find("logits");
  for (uint64_t i = 0; i < element_count(hidden); ++i) golden.hidden.push_back(element(hidden, i));
  for (uint64_t i = 0; i < element_count(logits); ++i) golden.logits.push_back(element(logits, i));
  golden.steps = logits.shape[0];
  golden.rows = logits.shape[1];
  golden.vocabulary = logits.shape[2];
  golden.width = hidden.shape[1];
  return golden;
}

// The largest difference of a golden's logits: of every column's chain, whose first half of rows
// comes one by one and the rest at once.
inline float worst_of_chains(HeadDriver& driver, const Golden& golden) {
  float worst = 0;
  for (uint64_t column = 0; column < golden.rows; ++column) {
    driver.begin();
    // Half of the rows by themselves, then the rest at once.
    const uint64_t alone = (column + 1) / 2;
    Row logits;
    for (uint64_t row = 0; row <= column; row += row < alone ? 1 : column + 1 - alone) {
      const uint64_t last = row < alone ? row + 1 : column + 1;
      logits = driver.step({golden.tokens.begin() + static_cast<ptrdiff_t>(row + 1),
                            golden.tokens.begin() + static_cast<ptrdiff_t>(last + 1)},
                           &golden.hidden[row * golden.width], golden.width);
    }
    for (uint64_t step = 0; step < golden.steps; ++step) {
      if (step > 0) {
        if (column + 1 + step >= golden.tokens.size()) break;
        const Row state = driver.state;
        logits = driver.step({golden.tokens[column + 1 + step]}, state.data(), state.size());
      }
      EXPECT_EQ(logits.size(), golden.vocabulary);
      if (logits.size() != golden.vocabulary) return INFINITY;
      const float* expected = &golden.logits[(step * golden.rows + column) * golden.vocabulary];
      for (size_t i = 0; i < logits.size(); ++i) {
        worst = std::max(worst, std::abs(logits[i] - expected[i]));
      }
    }
  }
  return worst;
}
inline float worst_of_chains(const ExecutorCase& executor, const OpenedHead& head,
                             const Golden& golden) {
  HeadDriver driver(executor, head);
  return worst_of_chains(driver, golden);
}

}  // namespace tenon::test
