#include "core/server/trace/trace_context.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <random>

namespace tenon::trace {
namespace {

constexpr size_t kTraceDigits = 32, kSpanDigits = 16, kFlagDigits = 2;
constexpr size_t kWhole = 2 + 1 + kTraceDigits + 1 + kSpanDigits + 1 + kFlagDigits;
constexpr size_t kMostState = 512;  // the standard asks for no more to be passed on

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != text.npos;
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

std::string random_digits(size_t digits) {
  static std::mutex mutex;
  static std::random_device source;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  const std::lock_guard lock(mutex);
  do {
    text.clear();
    while (text.size() < digits) {
      uint32_t bits = source();
      for (int i = 0; i < 8; ++i, bits >>= 4) text += kDigits[bits & 15];
    }
  } while (!is_id(text));
  return text;
}

}  // namespace

std::optional<TraceContext> parse_trace_context(std::string_view traceparent,
                                                std::string_view tracestate) {
  if (traceparent.size() < kWhole) return std::nullopt;
  const std::string_view version = traceparent.substr(0, 2);
  if (!is_hex(version) || version == "ff") return std::nullopt;
  // Later versions may add fields, this one has none after its flags.
  const bool longer = traceparent.size() > kWhole;
  if (longer && (version == "00" || traceparent[kWhole] != '-')) return std::nullopt;
  const size_t span = 2 + 1 + kTraceDigits + 1, flags = span + kSpanDigits + 1;
  if (traceparent[2] != '-' || traceparent[span - 1] != '-' || traceparent[flags - 1] != '-') {
    return std::nullopt;
  }
  TraceContext context;
  context.trace_id = traceparent.substr(3, kTraceDigits);
  context.span_id = traceparent.substr(span, kSpanDigits);
  const std::string_view bits = traceparent.substr(flags, kFlagDigits);
  if (!is_id(context.trace_id) || !is_id(context.span_id) || !is_hex(bits)) return std::nullopt;
  const char low = bits[1];
  context.sampled = ((low >= 'a' ? low - 'a' + 10 : low - '0') & 1) != 0;
  if (tracestate.size() <= kMostState && is_printable(tracestate)) context.state = tracestate;
  return context;
}

std::string fresh_trace_id() {
  return random_digits(kTraceDigits);
}

std::string fresh_span_id() {
  return random_digits(kSpanDigits);
}

}  // namespace tenon::trace
