// Any text as a workload. What is accepted has only numbers within their ranges.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/workload/workload.h"
#include "tests/fuzz/target.h"

namespace {

void check(const tenon::AnswerSettings& answer) {
  tenon::SamplingParams params;
  tenon::apply_values(answer.sampling, params);
  for (const tenon::SamplingKey& key : tenon::sampling_keys()) {
    if (!tenon::sampling_fault(key, params).empty()) std::abort();
  }
  if (answer.seed && *answer.seed > static_cast<uint64_t>(tenon::kMostSeed)) std::abort();
  if (answer.order && !tenon::parse_sampling_order(*answer.order).ok()) std::abort();
}

}  // namespace

TENON_FUZZ_TARGET(workload, const uint8_t* data, size_t size) {
  if (size > 65536) return 0;
  const auto workload =
      tenon::parse_workload({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  if (!workload.ok()) {
    if (workload.status().message().empty()) std::abort();
    return 0;
  }
  const int64_t most = tenon::parameter("max_tokens").number.most;
  for (const tenon::WorkloadRequest& request : workload->requests) {
    if (request.max_tokens == 0 || request.max_tokens > most || request.arrival_ns < 0) {
      std::abort();
    }
    check(request.answer);
  }
  return 0;
}
