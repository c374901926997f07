// Bounds as people write them: "ttft=500ms,gap=50ms,share=0.95".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

struct WrittenBounds {
  int64_t ttft_ns = 0;  // until the first token; 0 = no bound
  int64_t gap_ns = 0;   // the longest between two tokens of a request; likewise
  double share = 0.9;   // of requests that keep both
  // Of a search (goodput.h), for whoever takes them: "probes=8".
  std::optional<uint32_t> probes = {};
};

// `what` begins messages: "goodput", "the goal". Errors: invalid_argument (no bound, a key or a
// value that is none).
Result<WrittenBounds> parse_bounds(std::string_view text, std::string_view what,
                                   bool takes_probes = false);

}  // namespace tenon
