// An executor around another one: whatever it does not do itself, the other does.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/exec/executor.h"

namespace tenon {

class ExecutorAround : public Executor {
 public:
  explicit ExecutorAround(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  std::span<const Fact> provides() const override { return inner_->provides(); }
  std::span<const Fact> requirements() const override { return inner_->requirements(); }
  bool uses_kernels() const override { return inner_->uses_kernels(); }
  bool is_exact() const override { return inner_->is_exact(); }
  uint32_t workers() const override { return inner_->workers(); }
  int64_t held_up_ns() override { return inner_->held_up_ns(); }
  bool takes_adapters() const override { return inner_->takes_adapters(); }
  bool scores_entries() const override { return inner_->scores_entries(); }
  Status load(const ExecutorSetup&) override {
    return internal("an executor is loaded before another one is put around it");
  }
  Result<std::unique_ptr<Executor>> sibling() const override { return inner_->sibling(); }
  Status apply(std::span<const KvMove> moves) override { return inner_->apply(moves); }
  Result<StepOutput> collect(uint64_t step_id) override { return inner_->collect(step_id); }
  void share_out(uint32_t parts, const std::function<void(uint32_t part)>& function) override {
    inner_->share_out(parts, function);
  }
  std::string numerics() const override { return inner_->numerics(); }
  uint64_t weight_bytes() const override { return inner_->weight_bytes(); }
  uint64_t shared_weight_bytes() const override { return inner_->shared_weight_bytes(); }
  uint64_t kv_bytes() const override { return inner_->kv_bytes(); }

 protected:
  Executor& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Executor> inner_;
};

}  // namespace tenon
