#include "core/llm/engine_host.h"

#include <chrono>

#include "core/base/log.h"
#include "core/base/machine/signal_stack.h"
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
  options.on_step = std::move(on_step);
  return options;
}

thread_local const EngineHost* host_of_thread = nullptr;

}  // namespace

EngineHost::EngineHost(Pipeline& pipeline, HostOptions options)
    : options_(std::move(options)),
      kv_tokens_(kv_tokens_of(pipeline.parts())),
      engine_(pipeline.parts(), with_hooks(pipeline.engine_options(), options_,
                                           [this](const StepRecord& step) { note_step(step); })),
      thread_(start_thread([this] { run(); })) {}

EngineHost::~EngineHost() {
  stopped_ = true;
  thread_.join();
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

void EngineHost::note_step(const StepRecord& step) {
  last_step_ = step;
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
    if (!engine_.wait_for_work(kNap)) continue;
    const Status status = engine_.step();
    publish();
    if (status.ok()) continue;
    const std::string problem = message_of(status);
    log(LogLevel::error, "engine", problem);
    if (options_.on_end) options_.on_end(problem);
    return;
  }
}

}  // namespace tenon::llm
