// One request to a session, from its submission to what came of it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/engine/requests/request.h"
#include "core/llm/engine_host.h"

namespace tenon::llm {

// Both come on the step thread, one at a time, and may be empty.
struct CallListener {
  std::function<bool(const RequestDelta& delta)> on_delta;  // false: the call is cancelled
  std::function<void()> on_end;                             // after it `wait` does not wait
};

enum class Want : uint8_t { answer = 0, embedding = 1, score = 2 };

struct CallKind {
  Want want = Want::answer;
  uint32_t samples = 1;          // answers that there will be
  bool logprobs = false;         // of their tokens
  bool prompt_logprobs = false;  // of the prompt's
};

// Whatever is not said otherwise may be called from any thread.
class Call final : public RequestSink {
 public:
  // `slot` is given back at the end, before on_end;
  // `on_gone` comes last, once no listener is called any more. [step]
  Call(const CallKind& kind, CallListener listener, std::shared_ptr<void> slot,
       std::function<void(Call&)> on_gone);

  // Ends it at the next step; one that has ended stays as it is.
  void cancel();
  // Until the end. Errors: the request failed (invalid_argument, or failed), or the engine did;
  // called on the step thread, which would wait for itself.
  Status wait();
  bool ended() const;
  // Whether it was, and has not ended otherwise. Only after `wait`.
  bool cancelled() const;
  const CallKind& kind() const { return kind_; }
  // When this returns, no listener is called or ever will be; but for the one that runs right now
  // on this very thread.
  void mute();

  // What came of it. Only after `wait`.
  const ResultSink& result() const { return result_; }

  // By the session, once it is submitted: the host, which outlives the end, knows it as `id`.
  void attach(EngineHost& host, RequestId id);
  // The engine will say no more. [step]
  void fail(const std::string& problem);

  void on_delta(const RequestDelta& delta) override;       // [step]
  void on_prompt(const PromptDelta& delta) override;       // [step]
  void on_embedding(const Embedding& embedding) override;  // [step]
  void on_end(const RequestEnd& end) override;             // [step]

 private:
  void finish(const std::string& problem);

  const CallKind kind_;
  ResultSink result_;           // [step] until ended_
  uint32_t samples_ended_ = 0;  // [step]
  std::shared_ptr<void> slot_;  // [step]
  const std::function<void(Call&)> on_gone_;

  std::recursive_mutex listening_;  // held while the listener is called, which may mute
  const CallListener listener_;
  bool muted_ = false;

  mutable std::mutex mutex_;
  std::condition_variable end_;
  EngineHost* host_ = nullptr;
  RequestId id_ = 0;
  bool cancelled_ = false;
  bool ended_ = false;
  std::string problem_;  // of the engine
};

}  // namespace tenon::llm
