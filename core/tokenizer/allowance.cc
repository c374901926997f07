#include "core/tokenizer/allowance.h"

#include <algorithm>
#include <string>

namespace tenon::tok {
namespace {

// A stage reads and writes what the one before it made, so the sum bounds the time of all.
constexpr uint64_t kPasses = 16;

size_t most_bytes(size_t text_bytes, const CostLimits& limits) {
  const auto size = [&](const CostLimits::Size& limit) {
    return limit.per_byte * text_bytes + limit.more;
  };
  return std::min(size(limits.small), size(limits.large));
}

}  // namespace

Allowance::Allowance(size_t text_bytes, const CostLimits& limits)
    : text_bytes_(text_bytes),
      most_bytes_(most_bytes(text_bytes, limits)),
      bytes_left_(kPasses * most_bytes_),
      steps_left_(limits.steps_per_byte * text_bytes + limits.more_steps) {}

Status Allowance::check_bytes(size_t bytes) const {
  const bool fits_stage = kept_ <= most_bytes_ && bytes <= most_bytes_ - kept_;
  if (fits_stage && bytes <= bytes_left_) return Status();
  return failed("a text of " + std::to_string(text_bytes_) + " bytes grows beyond " +
                (fits_stage ? std::to_string(kPasses * most_bytes_) + " over all stages"
                            : std::to_string(most_bytes_)) +
                ", the most that is supported; the tokenizer is damaged or was made to use up "
                "memory: get its files again from where the model was published");
}

Status Allowance::take_bytes(size_t bytes) {
  TENON_RETURN_IF_ERROR(check_bytes(bytes));
  bytes_left_ -= bytes;
  return Status();
}

Status check_stage_count(size_t count, std::string_view where) {
  if (count <= kMostStages) return Status();
  return unsupported(std::string(where) + " has more than " + std::to_string(kMostStages) +
                     " stages, which is the most that is supported");
}

}  // namespace tenon::tok
