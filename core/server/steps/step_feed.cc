#include "core/server/steps/step_feed.h"

#include <algorithm>
#include <utility>

namespace tenon::server {
namespace {

size_t bytes_of(const ObservedStep& step) {
  return sizeof(step) + step.sequences.size() * sizeof(ObservedSequence) +
         step.blocks.size() * sizeof(BlockId);
}

}  // namespace

struct StepFeed::State {
  explicit State(StepFeedLimits feed_limits) : limits(feed_limits) {}

  const StepFeedLimits limits;
  std::atomic<size_t> reader_count{0};
  std::mutex mutex;
  std::deque<KeptStep> steps;
  uint64_t first = 0;  // number of the oldest; they are counted from the feed's begin
  size_t bytes = 0;
  bool closed = false;
  std::vector<Reader*> readers;

  void drop_oldest() {
    bytes -= bytes_of(*steps.front());
    steps.pop_front();
    ++first;
  }
  void wake_all() {
    for (Reader* reader : readers) {
      if (std::exchange(reader->asleep_, false)) reader->wake_();
    }
  }
};

StepFeed::StepFeed(StepFeedLimits limits) : state_(std::make_shared<State>(limits)) {}

bool StepFeed::wants_steps() noexcept {
  return state_->reader_count.load(std::memory_order_relaxed) > 0;
}

void StepFeed::on_step(ObservedStep step) {
  auto kept = std::make_shared<const ObservedStep>(std::move(step));
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.bytes += bytes_of(*kept);
  state.steps.push_back(std::move(kept));
  while (state.steps.size() > state.limits.steps ||
         (state.bytes > state.limits.bytes && state.steps.size() > 1)) {
    state.drop_oldest();
  }
  state.wake_all();
}

std::unique_ptr<StepFeed::Reader> StepFeed::open(std::optional<uint64_t> behind,
                                                 std::function<void()> wake) {
  State& state = *state_;
  auto reader = std::make_unique<Reader>(state_);
  reader->wake_ = std::move(wake);
  const std::lock_guard lock(state.mutex);
  if (state.readers.size() == state.limits.readers) return nullptr;
  const auto from =
      !behind ? state.steps.end()
              : std::find_if(state.steps.begin(), state.steps.end(),
                             [&](const KeptStep& step) { return step->record.step_id > *behind; });
  reader->next_ = state.first + static_cast<uint64_t>(from - state.steps.begin());
  state.readers.push_back(reader.get());
  state.reader_count = state.readers.size();
  return reader;
}

void StepFeed::close() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->wake_all();
}

size_t StepFeed::readers() const {
  return state_->reader_count;
}

StepFeed::Reader::~Reader() {
  const std::lock_guard lock(state_->mutex);
  std::erase(state_->readers, this);
  state_->reader_count = state_->readers.size();
}

StepFeed::Reader::Taken StepFeed::Reader::take(size_t most) {
  Taken taken;
  const std::lock_guard lock(state_->mutex);
  if (next_ < state_->first) {
    taken.dropped = state_->first - next_;
    next_ = state_->first;
  }
  const uint64_t end = state_->first + state_->steps.size();
  for (; next_ < end && taken.steps.size() < most; ++next_) {
    taken.steps.push_back(state_->steps[next_ - state_->first]);
  }
  taken.closed = state_->closed && next_ == end;
  asleep_ = taken.steps.empty();
  return taken;
}

}  // namespace tenon::server
