// An engine on a thread of its own, the step thread of its pipeline.
#pragma once

#include <tenon/extensions/kv_events.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "core/base/calls/running_calls.h"
#include "core/engine/engine.h"
#include "core/llm/step_jobs.h"
#include "core/pipeline/pipeline.h"

namespace tenon::llm {

struct HostOptions {
  uint32_t requests = 1024;                             // running and waiting, at most
  bool digests = false;                                 // records have one of their logits
  std::function<void(const StepRecord&)> on_step = {};  // [step]
  StepObserver* observer = nullptr;                     // borrowed; null = none
  // What came into the prefix cache and went in a step, where the manager tells of it (kKvEvents).
  // Borrowed for the call. Empty: it is not asked. [step]
  std::function<void(std::span<const KvEvent>)> on_kv_events = {};
  std::function<void(const std::string& problem)> on_end = {};  // the engine is broken [step]
};

// After the last step.
struct HostFigures {
  EngineTotals totals;
  uint32_t running = 0;
  uint32_t waiting = 0;
  double kv_used = 0.0;  // share of the KV cache, 0 to 1
};

class EngineHost {
 public:
  // The pipeline outlives the host, and belongs to its thread while it lives.
  EngineHost(Pipeline& pipeline, HostOptions options);
  ~EngineHost();
  EngineHost(const EngineHost&) = delete;
  EngineHost& operator=(const EngineHost&) = delete;

  // Room for so many requests, given back when the last copy is gone; null where there is none.
  // [any thread]
  std::shared_ptr<void> reserve(uint32_t requests);
  uint32_t live_requests() const { return live_->load(); }  // [any thread]
  Result<RequestId> submit(Request request) { return engine_.submit(std::move(request)); }
  // Why `submit` would refuse it. [any thread]
  std::vector<RequestFault> faults_of(const Request& request) const {
    return engine_.faults_of(request);
  }
  // The host whose step thread calls; null on other threads.
  static const EngineHost* on_this_thread();
  void cancel(RequestId id) { engine_.cancel(id); }
  HostFigures figures() const;  // [any thread]
  const EngineParts& parts() const { return engine_.parts(); }
  uint32_t sequence_limit_tokens() const { return engine_.sequence_limit_tokens(); }
  // What the step thread is to do between its steps. It may outlive the host. [any thread]
  const std::shared_ptr<StepJobs>& jobs() const { return jobs_; }

 private:
  void run();
  const KvEvents* watched_cache(const Pipeline& pipeline) const;
  void note_step(const StepRecord& step);
  bool is_sound(const KvEvent& event) const;
  void pass_kv_events();
  void publish();

  const HostOptions options_;
  std::shared_ptr<std::atomic<uint32_t>> live_ = std::make_shared<std::atomic<uint32_t>>(0);
  uint64_t kv_tokens_ = 0;
  StepRecord last_step_;  // [step]
  const KvEvents* kv_events_ = nullptr;
  CallName take_call_ = 0;
  std::vector<KvEvent> event_room_;
  mutable std::mutex mutex_;
  HostFigures figures_;
  Engine engine_;
  const std::shared_ptr<StepJobs> jobs_ = std::make_shared<StepJobs>();
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace tenon::llm
