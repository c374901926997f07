#include "core/llm/engine_host.h"

#include <algorithm>
#include <chrono>

#include "core/base/log.h"
#include "core/base/machine/floating_point_state.h"
#include "core/base/machine/signal_stack.h"
#include "core/base/quote.h"
#include "core/base/threads/start_thread.h"

namespace tenon::llm {
namespace {

uint64_t kv_tokens_of(const EngineParts& parts) {
  if (parts.geometry.group_count == 0) return 0;
  const KvGroupGeometry& group = parts.geometry.groups[parts.shape->ledger_group];
  return uint64_t{group.blocks} * group.block_tokens;
}

EngineOptions with_hooks(EngineOptions options, const HostOptions& host,
                         std::function<void(const StepRecord&)> on_step) {
  options.inbox_requests = host.requests + 1;
  options.observer = host.observer;
  options.logits_digest = host.digests;
  options.on_step = std::move(on_step);
  return options;
}

thread_local const EngineHost* host_of_thread = nullptr;

constexpr size_t kEventRoom = 256;  // events taken at a time

}  // namespace

EngineHost::EngineHost(Pipeline& pipeline, HostOptions options)
    : options_(std::move(options)),
      kv_tokens_(kv_tokens_of(pipeline.parts())),
      kv_events_(watched_cache(pipeline)),
      take_call_(name_call("take of kv_events", "kv_cache")),
      event_room_(kv_events_ == nullptr ? 0 : kEventRoom),
      engine_(pipeline.parts(), with_hooks(pipeline.engine_options(), options_,
                                           [this](const StepRecord& step) { note_step(step); })),
      thread_(start_thread([this] { run(); })) {}

EngineHost::~EngineHost() {
  stopped_ = true;
  thread_.join();
  jobs_->close();
}

std::shared_ptr<void> EngineHost::reserve(uint32_t requests) {
  const uint32_t before = live_->fetch_add(requests);
  if (uint64_t{before} + requests > options_.requests) {
    live_->fetch_sub(requests);
    return nullptr;
  }
  return {live_.get(), [live = live_, requests](void*) { live->fetch_sub(requests); }};
}

HostFigures EngineHost::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

// Null where nobody wants its events, or it has none.
const KvEvents* EngineHost::watched_cache(const Pipeline& pipeline) const {
  if (!options_.on_kv_events) return nullptr;
  const auto* events = pipeline.kv_cache.extension<KvEvents>(kKvEvents);
  return events != nullptr && events->watch(events->self).ok() ? events : nullptr;
}

bool EngineHost::is_sound(const KvEvent& event) const {
  const KvGeometry& geometry = engine_.parts().geometry;
  if (event.group >= geometry.group_count) return false;
  return event.kind != KvEventKind::stored ||
         event.tokens.size() == geometry.groups[event.group].block_tokens;
}

void EngineHost::pass_kv_events() {
  KvEventsOut out{.events = event_room_};
  do {
    out.count = 0;
    {
      const KeepFloatingPointState keep;
      const RunningCall call(take_call_);
      if (!kv_events_->take(kv_events_->self, out).ok()) return;
    }
    const auto told = std::span(event_room_).first(std::min<size_t>(out.count, kEventRoom));
    if (!std::ranges::all_of(told, [this](const KvEvent& event) { return is_sound(event); })) {
      log(LogLevel::error, "engine",
          "kv_cache " + in_quotes(engine_.parts().kv_cache_name) +
              " broke its contract: it told of a block that is not full, or of no group – it is "
              "not asked for events any more");
      kv_events_ = nullptr;
      return;
    }
    if (!told.empty()) options_.on_kv_events(told);
  } while (out.count >= kEventRoom);
}

void EngineHost::note_step(const StepRecord& step) {
  last_step_ = step;
  if (kv_events_ != nullptr) pass_kv_events();
  if (options_.on_step) options_.on_step(step);
}

void EngineHost::publish() {
  const bool idle = engine_.idle();
  const std::lock_guard lock(mutex_);
  figures_.totals = engine_.totals();
  figures_.running = idle ? 0 : last_step_.running;
  figures_.waiting = idle ? 0 : last_step_.waiting;
  figures_.kv_used = idle || kv_tokens_ == 0 ? 0.0
                                             : static_cast<double>(last_step_.kv_used_tokens) /
                                                   static_cast<double>(kv_tokens_);
}

const EngineHost* EngineHost::on_this_thread() {
  return host_of_thread;
}

void EngineHost::run() {
  host_of_thread = this;
  const SignalStack stack;
  // How soon a stop is seen; work is seen at once.
  constexpr std::chrono::milliseconds kNap{50};
  while (!stopped_) {
    jobs_->run();
    if (!engine_.wait_for_work(kNap)) continue;
    const Status status = engine_.step();
    publish();
    if (status.ok()) continue;
    const std::string problem = message_of(status);
    log(LogLevel::error, "engine", problem);
    jobs_->close();
    if (options_.on_end) options_.on_end(problem);
    return;
  }
}

}  // namespace tenon::llm
