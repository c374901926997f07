// What a text may cost on its way through the stages of a tokenizer.
//
// Tokenizer files are untrusted. Their stages can multiply a text ("e" becomes "ee", thirty times
// over), and their expressions can search it in quadratic or exponential time. Both are bounded by
// the size of the text that was given, so far out that no tokenizer in use comes near.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/result.h"

namespace tenon::tok {

// The most stages that a normalizer, a pre-tokenizer or a decoder may have.
inline constexpr size_t kMostStages = 64;

// What a text of n bytes may cost: a stage may make the lesser of the two sizes of it, and its
// expressions may take `steps_per_byte` · n + `more_steps` steps.
struct CostLimits {
  struct Size {
    size_t per_byte;
    size_t more;
  };
  Size small;
  Size large;
  size_t steps_per_byte;
  size_t more_steps;
};
// U+FDFA grows most: of its 3 bytes NFKC makes 33, and of these the byte-level alphabet 63.
inline constexpr CostLimits kTextLimits{
    {32, size_t{64} << 10}, {8, size_t{256} << 20}, 256, 100'000'000};
// Of one token of a vocabulary.
inline constexpr CostLimits kTokenLimits{{8, size_t{1} << 10}, {8, size_t{1} << 10}, 256, 100'000};

// One serves a text on its whole way. Not thread safe.
class Allowance {
 public:
  explicit Allowance(size_t text_bytes, const CostLimits& limits = kTextLimits);

  // Before and after a stage makes `bytes` of a part of the text. Error: failed.
  Status check_bytes(size_t bytes) const;
  Status take_bytes(size_t bytes);
  // A part of the text has left the last stage and stays as `bytes`.
  void keep(size_t bytes) { kept_ += bytes; }

  // False when the steps of expressions are used up.
  bool take_steps(uint64_t steps) {
    if (steps > steps_left_) return false;
    steps_left_ -= steps;
    return true;
  }

 private:
  size_t text_bytes_;
  size_t most_bytes_;  // that one stage makes of the whole text
  size_t kept_ = 0;
  uint64_t bytes_left_;  // for all stages together
  uint64_t steps_left_;
};

// Error: unsupported, for a list of more than kMostStages.
Status check_stage_count(size_t count, std::string_view where);

}  // namespace tenon::tok
