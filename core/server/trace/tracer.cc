#include "core/server/trace/tracer.h"

#include <algorithm>
#include <iterator>

#include "core/base/threads/start_thread.h"

namespace tenon::trace {
namespace {

// A trace is traced as a whole: its id decides, so that every service decides alike.
bool is_in_share(const std::string& trace_id, double share) {
  constexpr size_t kDigits = 13;  // 52 bits, as many as a double has
  const uint64_t low = std::stoull(trace_id.substr(trace_id.size() - kDigits), nullptr, 16);
  return static_cast<double>(low) < share * static_cast<double>(uint64_t{1} << (4 * kDigits));
}

}  // namespace

Tracer::Tracer(TracerOptions options, Deliver deliver)
    : options_(std::move(options)),
      deliver_(std::move(deliver)),
      thread_(start_thread([this] { run(); })) {}

Tracer::~Tracer() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<Tracer::Begun> Tracer::begin(std::string_view traceparent,
                                           std::string_view tracestate) {
  Begun begun;
  if (auto given = parse_trace_context(traceparent, tracestate)) {
    if (!given->sampled) return std::nullopt;
    begun.parent_id = given->span_id;
    begun.context = *std::move(given);
  } else {
    begun.context.trace_id = fresh_trace_id();
    begun.context.sampled = true;
    if (!is_in_share(begun.context.trace_id, options_.share)) return std::nullopt;
  }
  begun.context.span_id = fresh_span_id();
  return begun;
}

void Tracer::add(std::vector<Span> spans) {
  bool is_full = false;
  {
    const std::lock_guard lock(mutex_);
    const size_t room = options_.queue_spans - std::min(options_.queue_spans, queue_.size());
    const size_t kept = std::min(room, spans.size());
    dropped_ += spans.size() - kept;
    std::move(spans.begin(), spans.begin() + static_cast<ptrdiff_t>(kept),
              std::back_inserter(queue_));
    is_full = queue_.size() >= options_.batch_spans;
  }
  if (is_full) changed_.notify_all();
}

void Tracer::run() {
  std::unique_lock lock(mutex_);
  while (!closed_ || !queue_.empty()) {
    changed_.wait_for(lock, options_.every,
                      [this] { return closed_ || queue_.size() >= options_.batch_spans; });
    if (queue_.empty()) continue;
    const auto end =
        queue_.begin() + static_cast<ptrdiff_t>(std::min(queue_.size(), options_.batch_spans));
    const std::vector<Span> batch(std::make_move_iterator(queue_.begin()),
                                  std::make_move_iterator(end));
    queue_.erase(queue_.begin(), end);
    lock.unlock();
    const Delivery delivery = send(batch);
    lock.lock();
    if (!closed_ || delivery != Delivery::later) continue;
    dropped_ += queue_.size();
    queue_.clear();
  }
}

// False where the tracer ends meanwhile.
bool Tracer::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return closed_; });
}

Delivery Tracer::send(const std::vector<Span>& batch) {
  const std::string body = otlp_json(batch, options_.service, options_.version);
  std::chrono::milliseconds wait = options_.pause;
  for (uint32_t attempt = 1;; ++attempt, wait *= 2) {
    const Delivery delivery = deliver_(body);
    const bool again = delivery == Delivery::later && attempt < options_.tries;
    if (again && pause(wait)) continue;
    (delivery == Delivery::taken ? sent_ : dropped_) += batch.size();
    return delivery;
  }
}

}  // namespace tenon::trace
