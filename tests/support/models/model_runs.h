// The same prompt through models of the test folders, alone and by several executors together.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"

namespace tenon::test {

inline constexpr uint32_t kContext = 64;

// A prompt, one row, a few more.
inline Logits logits_of(StepDriver& driver, const Model& model) {
  const std::vector<TokenId> tokens = some_tokens(40, model.plan.vocabulary);
  if (model.plan.mask_token) return driver.feed(tokens, {40});
  return driver.feed(tokens, {35, 1, 4});
}

inline Logits run_alone(const std::string& path, const ExecutorCase& executor_case) {
  const auto model = open_model(path);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return {};
  const ModelShapeStorage shape((*model)->plan, kContext);
  Loaded executor(executor_case, **model, shape.shape());
  return logits_of(*executor.operator->(), **model);
}

// The plugins on the best instruction set of this machine.
inline ExecutorCase best_case(uint32_t threads) {
  ExecutorCase best = cpu_cases().back();
  best.threads = threads;
  return best;
}

inline std::vector<std::string> entries_of(const std::string& folder, const std::string& ending) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool is_model = ending.empty() ? entry.is_directory() : name.ends_with(ending);
    if (is_model && open_model(entry.path()).ok()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace tenon::test
