#include "core/exec/ranks/leading_executor.h"

#include <string>
#include <utility>
#include <vector>

#include "core/exec/ranks/step_message.h"

namespace tenon {
namespace {

// Steps of several pipelines in one program must not mix: ranks meet in the order of messages.
std::mutex& one_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

class LeadingExecutor final : public Executor {
 public:
  LeadingExecutor(std::unique_ptr<Executor> inner, Collective& ranks, uint64_t pipeline)
      : inner_(std::move(inner)), ranks_(ranks), pipeline_(pipeline) {}
  ~LeadingExecutor() override {
    const std::lock_guard lock(one_at_a_time());
    // Who does not hear it hears that the program ends.
    static_cast<void>(ranks_.send(begin(RankMessage::close).bytes()));
  }

  std::string_view name() const override { return inner_->name(); }
  std::span<const Fact> provides() const override { return inner_->provides(); }
  std::span<const Fact> requirements() const override { return inner_->requirements(); }
  bool uses_kernels() const override { return inner_->uses_kernels(); }
  bool is_exact() const override { return inner_->is_exact(); }
  uint32_t workers() const override { return inner_->workers(); }
  bool takes_adapters() const override { return inner_->takes_adapters(); }
  bool scores_entries() const override { return inner_->scores_entries(); }
  Status load(const ExecutorSetup&) override {
    return internal("an executor of several ranks is loaded before it leads");
  }
  Result<std::unique_ptr<Executor>> sibling() const override { return inner_->sibling(); }

  Status apply(std::span<const KvMove> moves) override {
    if (moves.empty()) return {};
    const std::lock_guard lock(one_at_a_time());
    MessageWriter message = begin(RankMessage::moves);
    write_moves(message, moves);
    TENON_RETURN_IF_ERROR(ranks_.send(message.bytes()));
    return inner_->apply(moves);
  }

  Status launch(const BatchView& batch) override {
    const std::lock_guard lock(one_at_a_time());
    MessageWriter message = begin(RankMessage::step);
    write_step(message, batch);
    TENON_RETURN_IF_ERROR(ranks_.send(message.bytes()));
    return inner_->launch(batch);
  }
  Result<StepOutput> collect(uint64_t step_id) override { return inner_->collect(step_id); }
  void share_out(uint32_t parts, const std::function<void(uint32_t part)>& function) override {
    inner_->share_out(parts, function);
  }

  std::string numerics() const override { return inner_->numerics(); }
  uint64_t weight_bytes() const override { return inner_->weight_bytes(); }
  uint64_t shared_weight_bytes() const override { return inner_->shared_weight_bytes(); }
  uint64_t kv_bytes() const override { return inner_->kv_bytes(); }

 private:
  MessageWriter begin(RankMessage kind) const {
    MessageWriter message;
    message.number(kind);
    message.number(pipeline_);
    return message;
  }

  std::unique_ptr<Executor> inner_;
  Collective& ranks_;
  uint64_t pipeline_;
};

}  // namespace

std::unique_ptr<Executor> make_leading_executor(std::unique_ptr<Executor> inner, Collective& ranks,
                                                uint64_t pipeline) {
  return std::make_unique<LeadingExecutor>(std::move(inner), ranks, pipeline);
}

Status follow_message(RankMessage kind, MessageReader& message, Executor& executor) {
  const Status damaged = internal("a message of rank 0 is damaged");
  if (kind == RankMessage::moves) {
    const std::vector<KvMove> moves = read_moves(message);
    return message.is_whole() ? executor.apply(moves) : copy(damaged);
  }
  const ReceivedStep step(message);
  return message.is_whole() ? executor.launch(step.batch()) : copy(damaged);
}

}  // namespace tenon
