// An executor that answers at once: every logit is zero. For measuring everything else.
#pragma once

#include <vector>

#include "core/exec/executor.h"

namespace tenon {

class InstantExecutor : public Executor {
 public:
  explicit InstantExecutor(uint32_t vocabulary) : vocabulary_(vocabulary) {}

  std::string_view name() const override { return "instant"; }
  std::span<const Fact> provides() const override { return {}; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return false; }
  uint32_t workers() const override { return 1; }
  Status load(const ExecutorSetup&) override { return {}; }
  Status apply(std::span<const KvMove>) override { return {}; }
  Status launch(const BatchView& batch) override {
    step_ = batch.step_id;
    rows_ = static_cast<uint32_t>(batch.logits_rows.size());
    logits_.resize(size_t{rows_} * vocabulary_);
    return {};
  }
  Result<StepOutput> collect(uint64_t) override {
    StepOutput out;
    out.step_id = step_;
    out.logits = logits_.data();
    out.logits_rows = rows_;
    out.vocabulary = vocabulary_;
    return out;
  }
  std::string numerics() const override { return "instant"; }
  uint64_t weight_bytes() const override { return 0; }
  uint64_t kv_bytes() const override { return 0; }

 private:
  uint32_t vocabulary_;
  uint64_t step_ = 0;
  uint32_t rows_ = 0;
  std::vector<float> logits_;
};

}  // namespace tenon
