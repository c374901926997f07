// The newest steps of an engine, kept for those who watch it.
//
// The step thread puts steps in and never waits; where nobody watches it gathers nothing. Who reads
// too slowly loses the oldest steps, and is told how many.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/engine/records/step_observer.h"

namespace tenon::server {

struct StepFeedLimits {
  size_t steps = 512;
  size_t bytes = size_t{8} << 20;  // of all steps that are kept; the newest always is
  size_t readers = 32;
};

class StepFeed final : public StepObserver {
 public:
  class Reader;
  using KeptStep = std::shared_ptr<const ObservedStep>;

  explicit StepFeed(StepFeedLimits limits = {});

  bool wants_steps() noexcept override;      // [step]
  void on_step(ObservedStep step) override;  // [step]

  // Reads steps from now on; with `behind`, also those kept whose id is greater. `wake` is called
  // when there is something to take again, on any thread, and must not come back here. Null: there
  // are as many readers as may be. [any thread]
  std::unique_ptr<Reader> open(std::optional<uint64_t> behind, std::function<void()> wake);
  // Readers end. [any thread]
  void close();
  size_t readers() const;  // [any thread]

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

// May outlive its feed.
class StepFeed::Reader {
 public:
  explicit Reader(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  struct Taken {
    std::vector<KeptStep> steps;  // in order
    uint64_t dropped = 0;         // lost before them
    bool closed = false;          // there will be no more
  };
  // At most `most` steps; none: `wake` comes when there are some.
  Taken take(size_t most);

 private:
  friend class StepFeed;
  const std::shared_ptr<State> state_;
  std::function<void()> wake_;
  uint64_t next_ = 0;
  bool asleep_ = false;
};

}  // namespace tenon::server
