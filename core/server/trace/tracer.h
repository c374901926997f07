// Which requests are traced, and the way of their spans to a collector.
//
// Nobody waits for it: spans go into a bounded queue, and a thread of its own sends them in
// batches. Where the collector cannot keep up or is away, the newest are dropped, and counted.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/server/trace/span.h"
#include "core/server/trace/trace_context.h"

namespace tenon::trace {

struct TracerOptions {
  std::string service = "tenon";
  std::string version = {};
  double share = 1.0;  // of requests that bring no trace of their own, 0 to 1
  size_t queue_spans = 8192;
  size_t batch_spans = 512;
  std::chrono::milliseconds every{1000};  // a batch that is not full waits at most so long
  uint32_t tries = 3;                     // of a batch
  std::chrono::milliseconds pause{1000};  // before the second; each later one is twice as long
};

enum class Delivery : uint8_t {
  taken,
  refused,  // it will never be taken
  later,    // it may be taken when it is sent again
};
// Brings one body to the collector. [the tracer's thread]
using Deliver = std::function<Delivery(const std::string& json)>;

class Tracer {
 public:
  Tracer(TracerOptions options, Deliver deliver);
  // Sends what is left, each batch once, until the collector is found to be away.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // The context of a new span for a request with these header fields (empty: without); its span_id
  // is the new span's, `parent_id` the one that it belongs to. Nothing where the request is not
  // traced: whoever sent it decides, where it belongs to a trace. [any thread]
  struct Begun {
    TraceContext context;
    std::string parent_id;
  };
  std::optional<Begun> begin(std::string_view traceparent, std::string_view tracestate);
  void add(std::vector<Span> spans);  // [any thread]

  uint64_t sent() const { return sent_; }
  uint64_t dropped() const { return dropped_; }

 private:
  void run();
  Delivery send(const std::vector<Span>& batch);
  bool pause(std::chrono::milliseconds time);

  const TracerOptions options_;
  const Deliver deliver_;
  std::atomic<uint64_t> sent_{0}, dropped_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Span> queue_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace tenon::trace
