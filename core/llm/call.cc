#include "core/llm/call.h"

#include <utility>

namespace tenon::llm {

Call::Call(const CallKind& kind, CallListener listener, std::shared_ptr<void> slot,
           std::function<void(Call&)> on_gone)
    : kind_(kind),
      slot_(std::move(slot)),
      on_gone_(std::move(on_gone)),
      listener_(std::move(listener)) {}

void Call::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (host_ != nullptr) host_->cancel(id_);
}

Status Call::wait() {
  std::unique_lock lock(mutex_);
  if (!ended_ && host_ != nullptr && EngineHost::on_this_thread() == host_) {
    return failed("a callback waits for a call of its own pipeline, which goes on when it returns");
  }
  end_.wait(lock, [this] { return ended_; });
  if (!problem_.empty()) return failed(problem_);
  for (const ResultSink::Sample& sample : result_.samples()) {
    if (sample.reason != FinishReason::error) continue;
    return sample.blame == Blame::request ? invalid_argument(sample.message)
                                          : failed(sample.message);
  }
  return {};
}

bool Call::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool Call::cancelled() const {
  return !result_.samples().empty() && result_.samples().front().reason == FinishReason::cancelled;
}

void Call::mute() {
  const std::lock_guard lock(listening_);
  // Kept, since it may be what is running.
  muted_ = true;
}

void Call::attach(EngineHost& host, RequestId id) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  host_ = &host;
  id_ = id;
  if (cancelled_) host.cancel(id);
}

void Call::on_delta(const RequestDelta& delta) {
  result_.on_delta(delta);
  const std::lock_guard lock(listening_);
  if (muted_ || !listener_.on_delta) return;
  if (!listener_.on_delta(delta)) cancel();
}

void Call::on_prompt(const PromptDelta& delta) {
  result_.on_prompt(delta);
}

void Call::on_embedding(const Embedding& embedding) {
  result_.on_embedding(embedding);
}

void Call::on_end(const RequestEnd& end) {
  result_.on_end(end);
  if (++samples_ended_ == kind_.samples) finish("");
}

void Call::fail(const std::string& problem) {
  finish(problem);
}

void Call::finish(const std::string& problem) {
  slot_.reset();
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    host_ = nullptr;
    problem_ = problem;
  }
  end_.notify_all();
  {
    const std::lock_guard lock(listening_);
    if (!muted_ && listener_.on_end) listener_.on_end();
  }
  on_gone_(*this);
}

}  // namespace tenon::llm
