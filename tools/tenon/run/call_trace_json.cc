#include "tools/tenon/run/call_trace_json.h"

#include <cstdio>
#include <set>

#include "tools/tenon/process/json_text.h"

namespace tenon {
namespace {

std::string call_microseconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof(text), "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

// "plan of scheduler 'fair'" → "scheduler".
std::string category_of(std::string_view call) {
  constexpr std::string_view kOf = " of ";
  const size_t of = call.find(kOf);
  if (of == call.npos) return "plugin";
  call.remove_prefix(of + kOf.size());
  return std::string(call.substr(0, call.find(' ')));
}

std::string json_string(std::string_view text) {
  std::string made = json_text(nlohmann::json(std::string(text)), -1);
  made.pop_back();  // its line end
  return made;
}

std::string call_event(const TracedCall& call) {
  const std::string_view name = call_text(call.name);
  return "{\"ph\":\"X\",\"pid\":1,\"tid\":" + std::to_string(call.thread) +
         ",\"ts\":" + call_microseconds(call.begin_ns) +
         ",\"dur\":" + call_microseconds(call.end_ns - call.begin_ns) +
         ",\"name\":" + json_string(name) + ",\"cat\":" + json_string(category_of(name)) + "}";
}

}  // namespace

std::string call_trace_json(const CallTrace& trace) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  std::set<uint32_t> threads;
  for (const TracedCall& call : trace.calls) threads.insert(call.thread);
  bool first = true;
  const auto add = [&](const std::string& text) {
    out += (first ? "" : ",\n") + text;
    first = false;
  };
  for (const uint32_t thread : threads) {
    add("{\"ph\":\"M\",\"pid\":1,\"tid\":" + std::to_string(thread) +
        ",\"name\":\"thread_name\",\"args\":{\"name\":\"thread " + std::to_string(thread) + "\"}}");
  }
  for (const TracedCall& call : trace.calls) add(call_event(call));
  return out + "\n],\"lost_calls\":" + std::to_string(trace.lost) + "}\n";
}

}  // namespace tenon
