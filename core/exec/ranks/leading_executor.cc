#include "core/exec/ranks/leading_executor.h"

#include <string>
#include <utility>
#include <vector>

#include "core/exec/ranks/executor_around.h"
#include "core/exec/ranks/model_cut.h"
#include "core/exec/ranks/step_message.h"

namespace tenon {
namespace {

// Steps of several pipelines in one program must not mix: ranks meet in the order of messages.
std::mutex& one_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

class LeadingExecutor final : public ExecutorAround {
 public:
  LeadingExecutor(std::unique_ptr<Executor> inner, Collective& ranks, uint64_t pipeline)
      : ExecutorAround(std::move(inner)), ranks_(ranks), pipeline_(pipeline) {}
  ~LeadingExecutor() override {
    const std::lock_guard lock(one_at_a_time());
    // Who does not hear it hears that the program ends.
    static_cast<void>(ranks_.send(begin(RankMessage::close).bytes()));
  }

  Status apply(std::span<const KvMove> moves) override {
    if (moves.empty()) return {};
    const std::lock_guard lock(one_at_a_time());
    MessageWriter message = begin(RankMessage::moves);
    write_moves(message, moves);
    TENON_RETURN_IF_ERROR(ranks_.send(message.bytes()));
    return inner().apply(moves);
  }

  // Rank 0 alone samples.
  std::optional<uint64_t> device_bytes() const override { return inner().device_bytes(); }
  bool draws_rows() const override { return inner().draws_rows(); }
  void draw(std::span<const RowDraw> draws) override { inner().draw(draws); }
  void stage(const BatchView& batch) override { inner().stage(batch); }

  Status launch(const BatchView& batch) override {
    const std::lock_guard lock(one_at_a_time());
    MessageWriter message = begin(RankMessage::step);
    write_step(message, batch);
    TENON_RETURN_IF_ERROR(ranks_.send(message.bytes()));
    return inner().launch(batch);
  }

 private:
  MessageWriter begin(RankMessage kind) const {
    MessageWriter message;
    message.number(kind);
    message.number(pipeline_);
    return message;
  }

  Collective& ranks_;
  uint64_t pipeline_;
};

}  // namespace

std::unique_ptr<Executor> make_leading_executor(std::unique_ptr<Executor> inner, Collective& ranks,
                                                uint64_t pipeline) {
  return std::make_unique<LeadingExecutor>(std::move(inner), ranks, pipeline);
}

StepFollower::StepFollower(Executor& executor) : executor_(executor) {
  const auto* host = dynamic_cast<const RankHost*>(&executor);
  runs_behind_ = host != nullptr && host->runs_behind();
}

Status StepFollower::follow(RankMessage kind, MessageReader& message) {
  const Status damaged = internal("a message of rank 0 is damaged");
  if (kind == RankMessage::moves) {
    const std::vector<KvMove> moves = read_moves(message);
    return message.is_whole() ? executor_.apply(moves) : copy(damaged);
  }
  const ReceivedStep step(message);
  if (!message.is_whole()) return copy(damaged);
  TENON_RETURN_IF_ERROR(executor_.launch(step.batch()));
  if (!runs_behind_) return {};
  const std::optional<uint64_t> before = std::exchange(in_flight_, step.batch().step_id);
  return before ? executor_.collect(*before).take_status() : Status();
}

}  // namespace tenon
