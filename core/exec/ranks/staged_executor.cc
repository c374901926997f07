#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/exec/ranks/executor_around.h"
#include "core/exec/ranks/stages.h"

namespace tenon {
namespace {

// Before the rows: whether the stages so far went well. What comes after a failure means nothing.
struct Passed {
  static constexpr size_t kMostText = 400;
  uint64_t expert_bytes = 0;
  uint32_t failed_at = UINT32_MAX;  // the rank; UINT32_MAX: none
  char text[kMostText] = {};
};

// Outputs come back in the order in which steps were launched, whichever pipeline they are of.
class Turns {
 public:
  uint64_t next() { return launched_++; }  // with the lock of launches
  void wait_for(uint64_t turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == turn; });
  }
  void done() {
    const std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_all();
  }
  static Turns& of_program() {
    static Turns turns;
    return turns;
  }

 private:
  std::atomic<uint64_t> launched_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t done_ = 0;
};

class StagedExecutor final : public ExecutorAround {
 public:
  StagedExecutor(std::unique_ptr<Executor> inner, Collective& ranks, const ModelCut& cut,
                 uint32_t hidden)
      : ExecutorAround(std::move(inner)),
        host_(dynamic_cast<RankHost&>(this->inner())),
        ranks_(ranks),
        last_(static_cast<uint32_t>(cut.stages.size()) - 2),
        hidden_(hidden) {}
  ~StagedExecutor() override {
    // Nobody waits for what was launched and not collected; the next one must not get it.
    if (waits_) static_cast<void>(collect(step_id_));
  }

  // Those of a stage are of its own layers alone.
  bool scores_entries() const override { return false; }

  // Takes part whatever happens, so that nobody waits for a stage that failed.
  Status launch(const BatchView& batch) override {
    const uint32_t rank = ranks_.rank();
    const auto rows =
        std::as_writable_bytes(std::span(host_.stage_rows(), uint64_t{batch.rows} * hidden_));
    Passed passed;
    if (rank > 0) {
      TENON_RETURN_IF_ERROR(ranks_.take(rank - 1, bytes_of_one(passed)));
      TENON_RETURN_IF_ERROR(ranks_.take(rank - 1, rows));
    }
    if (passed.failed_at == UINT32_MAX) note(passed, run(batch, passed.expert_bytes));
    if (rank < last_) {
      TENON_RETURN_IF_ERROR(ranks_.give(rank + 1, bytes_of_one(passed)));
      TENON_RETURN_IF_ERROR(ranks_.give(rank + 1, rows));
    } else {
      TENON_RETURN_IF_ERROR(give_output(passed));
    }
    if (rank > 0) return passed.failed_at == rank ? failed(passed.text) : Status();
    step_id_ = batch.step_id;
    logits_rows_ = static_cast<uint32_t>(batch.logits_rows.size());
    hidden_rows_ = static_cast<uint32_t>(batch.hidden_rows.size());
    hidden_layers_ = batch.hidden_layers.size();
    turn_ = Turns::of_program().next();
    waits_ = true;
    return {};
  }

  Result<StepOutput> collect(uint64_t step_id) override {
    if (!waits_ || step_id != step_id_) {
      return internal("step " + std::to_string(step_id) + " was not the last one launched");
    }
    waits_ = false;
    Turns::of_program().wait_for(turn_);
    Status taken = take_output();
    Turns::of_program().done();
    if (!taken.ok()) return taken;
    return output_;
  }

 private:
  template <typename T>
  static std::span<std::byte> bytes_of_one(T& value) {
    return std::as_writable_bytes(std::span(&value, 1));
  }

  Status run(const BatchView& batch, uint64_t& expert_bytes) {
    TENON_RETURN_IF_ERROR(inner().launch(batch));
    TENON_ASSIGN_OR_RETURN(output_, inner().collect(batch.step_id));
    expert_bytes += output_.expert_bytes;
    return {};
  }

  void note(Passed& passed, const Status& ran) const {
    if (ran.ok()) return;
    passed.failed_at = ranks_.rank();
    const std::string text = message_of(ran);
    std::memcpy(passed.text, text.data(), std::min(text.size(), Passed::kMostText - 1));
  }

  // Of the last stage: what it made, to rank 0.
  struct OutputHead {
    Passed passed;
    uint64_t vocabulary = 0;
    uint32_t logits_rows = 0, hidden_rows = 0, hidden_layers = 0;
  };
  Status give_output(const Passed& passed) {
    OutputHead head{.passed = passed};
    const bool good = passed.failed_at == UINT32_MAX;
    if (good) {
      head.vocabulary = output_.vocabulary;
      head.logits_rows = output_.logits_rows;
      head.hidden_rows = output_.hidden_rows;
      head.hidden_layers = static_cast<uint32_t>(output_.hidden.size());
    }
    TENON_RETURN_IF_ERROR(ranks_.give(0, bytes_of_one(head)));
    if (!good) return {};
    const uint64_t logits = head.logits_rows * head.vocabulary;
    TENON_RETURN_IF_ERROR(ranks_.give(0, std::as_bytes(std::span(output_.logits, logits))));
    for (const float* states : output_.hidden) {
      TENON_RETURN_IF_ERROR(
          ranks_.give(0, std::as_bytes(std::span(states, uint64_t{head.hidden_rows} * hidden_))));
    }
    return {};
  }

  Status take_output() {
    OutputHead head;
    TENON_RETURN_IF_ERROR(ranks_.take(last_, bytes_of_one(head)));
    if (head.passed.failed_at != UINT32_MAX) {
      head.passed.text[Passed::kMostText - 1] = '\0';
      const uint32_t rank = head.passed.failed_at;
      if (rank == 0) return failed(head.passed.text);
      return failed(name_of_rank(rank, ranks_.places()[rank]) +
                    " could not compute its layers: " + head.passed.text);
    }
    if (head.logits_rows != logits_rows_ || head.hidden_rows != hidden_rows_ ||
        head.hidden_layers != hidden_layers_) {
      return internal("the last stage gives the output of another step");
    }
    logits_.resize(head.logits_rows * head.vocabulary);
    TENON_RETURN_IF_ERROR(ranks_.take(last_, std::as_writable_bytes(std::span(logits_))));
    states_.resize(uint64_t{head.hidden_layers} * head.hidden_rows * hidden_);
    arrays_.clear();
    for (uint32_t layer = 0; layer < head.hidden_layers; ++layer) {
      const uint64_t count = uint64_t{head.hidden_rows} * hidden_;
      arrays_.push_back(states_.data() + layer * count);
      TENON_RETURN_IF_ERROR(
          ranks_.take(last_, std::as_writable_bytes(std::span(arrays_.back(), count))));
    }
    output_ = {};
    output_.step_id = step_id_;
    output_.logits = logits_.data();
    output_.logits_rows = head.logits_rows;
    output_.vocabulary = head.vocabulary;
    output_.hidden = arrays_;
    output_.hidden_rows = head.hidden_rows;
    output_.expert_bytes = head.passed.expert_bytes;
    return {};
  }

  RankHost& host_;
  Collective& ranks_;
  const uint32_t last_;  // the rank of the last stage
  const uint64_t hidden_;
  StepOutput output_;
  // At rank 0, of the step that was launched.
  bool waits_ = false;
  uint64_t step_id_ = 0, turn_ = 0;
  uint32_t logits_rows_ = 0, hidden_rows_ = 0;
  size_t hidden_layers_ = 0;
  std::vector<float> logits_;  // [logits_rows, vocabulary]
  std::vector<float> states_;  // [hidden_layers, hidden_rows, hidden]
  std::vector<float*> arrays_;
};

}  // namespace

std::unique_ptr<Executor> make_staged_executor(std::unique_ptr<Executor> inner, Collective& ranks,
                                               const ModelCut& cut, uint32_t hidden) {
  return std::make_unique<StagedExecutor>(std::move(inner), ranks, cut, hidden);
}

}  // namespace tenon
