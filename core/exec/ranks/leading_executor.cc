#include "core/exec/ranks/leading_executor.h"

#include <string>
#include <utility>
#include <vector>

#include "core/exec/ranks/executor_around.h"
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
