// What an executor gives for a step, as values that can be compared.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/device/sequences.h"

namespace tenon::test {

struct StepValues {
  std::vector<float> logits;               // [logits_rows, vocabulary]
  std::vector<std::vector<float>> hidden;  // [layers][rows, hidden]
  std::string error;
};

inline StepValues values_of(const Result<StepOutput>& output, uint32_t hidden) {
  if (!output.ok()) return {{}, {}, std::string(output.status().message())};
  StepValues values;
  values.logits.assign(output->logits, output->logits + output->logits_rows * output->vocabulary);
  for (const float* rows : output->hidden) {
    values.hidden.emplace_back(rows, rows + uint64_t{output->hidden_rows} * hidden);
  }
  return values;
}

// Carries the moves out, launches and collects.
inline StepValues run_step(Executor& executor, const std::vector<KvMove>& moves,
                           const BatchView& batch, uint32_t hidden) {
  Status status = executor.apply(moves);
  if (status.ok()) status = executor.launch(batch);
  if (!status.ok()) return {{}, {}, std::string(status.message())};
  return values_of(executor.collect(batch.step_id), hidden);
}

inline bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline void expect_same(const StepValues& actual, const StepValues& expected,
                        const std::string& where) {
  ASSERT_EQ(expected.error, "") << where;
  ASSERT_EQ(actual.error, "") << where;
  ASSERT_TRUE(same_floats(actual.logits, expected.logits)) << where << ": logits differ";
  ASSERT_EQ(actual.hidden.size(), expected.hidden.size());
  for (size_t layer = 0; layer < expected.hidden.size(); ++layer) {
    ASSERT_TRUE(same_floats(actual.hidden[layer], expected.hidden[layer]))
        << where << ": hidden states " << layer << " differ";
  }
  for (const float value : expected.logits) ASSERT_EQ(value, value) << where << ": not a number";
}

}  // namespace tenon::test
