#include "core/base/calls/call_trace.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>

namespace tenon {
namespace {

constexpr size_t kMostTracedCalls = size_t{1} << 20;  // of a thread

struct TraceBuffer {
  std::vector<TracedCall> calls;
  uint32_t thread = 0;
  uint64_t lost = 0;
};
// Buffers outlive their threads.
struct TraceBuffers {
  std::mutex mutex;
  std::vector<std::unique_ptr<TraceBuffer>> all;
  int64_t began_ns = 0;
};
TraceBuffers& trace_buffers() {
  static TraceBuffers* instance = new TraceBuffers;
  return *instance;
}

TraceBuffer* own_trace_buffer() {
  thread_local TraceBuffer* own = nullptr;
  if (own != nullptr) return own;
  const std::lock_guard lock(trace_buffers().mutex);
  auto made = std::make_unique<TraceBuffer>();
  made->thread = static_cast<uint32_t>(trace_buffers().all.size());
  trace_buffers().all.push_back(std::move(made));
  return own = trace_buffers().all.back().get();
}

}  // namespace

namespace detail {

constinit std::atomic<bool> tracing_calls = false;

int64_t trace_now() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void trace_call(CallName name, int64_t begin_ns) noexcept {
  const int64_t end_ns = trace_now();
  try {
    TraceBuffer& buffer = *own_trace_buffer();
    if (buffer.calls.size() == kMostTracedCalls) {
      ++buffer.lost;
    } else {
      buffer.calls.push_back({name, buffer.thread, begin_ns, end_ns});
    }
  } catch (const std::bad_alloc&) {  // a trace is no reason to fail
  }
}

}  // namespace detail

void start_call_trace() {
  TraceBuffers& buffers = trace_buffers();
  const std::lock_guard lock(buffers.mutex);
  for (const auto& buffer : buffers.all) {
    buffer->calls.clear();
    buffer->lost = 0;
  }
  buffers.began_ns = detail::trace_now();
  detail::tracing_calls.store(true, std::memory_order_relaxed);
}

CallTrace take_call_trace() {
  detail::tracing_calls.store(false, std::memory_order_relaxed);
  TraceBuffers& buffers = trace_buffers();
  const std::lock_guard lock(buffers.mutex);
  CallTrace trace;
  for (const auto& buffer : buffers.all) {
    trace.lost += buffer->lost;
    for (TracedCall call : buffer->calls) {
      call.begin_ns -= buffers.began_ns;
      call.end_ns -= buffers.began_ns;
      trace.calls.push_back(call);
    }
    buffer->calls = {};
  }
  return trace;
}

}  // namespace tenon
