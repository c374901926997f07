// What one rendering may cost. Templates and conversations are untrusted: either can ask for work
// without end, and neither gets it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/result.h"

namespace tenon::chat {

struct RenderLimits {
  uint64_t steps = 20'000'000;              // one for a node of the template, or 64 bytes
  size_t text_bytes = size_t{64} << 20;     // of the output, and of any one text on the way
  size_t memory_bytes = size_t{512} << 20;  // of all values that are alive at once
  uint32_t nesting = 400;                   // of expressions, blocks and macro calls
};

// How deep a value may hold others.
inline constexpr uint32_t kDeepestValue = 200;

// Counts one rendering's cost. Operations on values do not fail one by one when a limit is reached:
// they stop making things, `is_exceeded` turns true, and the interpreter ends at its next step.
// Not thread safe; outlives every value that it counts.
class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits), steps_left_(limits.steps) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const RenderLimits& limits() const { return limits_; }
  bool is_exceeded() const { return fault_ != nullptr; }

  void spend(uint64_t steps) {
    if (steps <= steps_left_) {
      steps_left_ -= steps;
    } else {
      exceed("steps");
    }
  }
  // Whether a text may have this many bytes.
  bool allows_text(size_t bytes) {
    if (bytes > limits_.text_bytes) exceed("bytes of text");
    return !is_exceeded();
  }
  void hold(size_t bytes) {
    live_ += bytes;
    if (live_ > limits_.memory_bytes) exceed("bytes of memory");
  }
  void release(size_t bytes) { live_ -= bytes; }
  // Whether `count` values may be made at once.
  bool allows_values(uint64_t count);
  void exceed(const char* what) {
    if (fault_ == nullptr) fault_ = what;
  }
  // Error: failed, once a limit is reached.
  Status status() const;

 private:
  RenderLimits limits_;
  uint64_t steps_left_;
  size_t live_ = 0;
  const char* fault_ = nullptr;
};

// Memory that a value holds, until it dies. Values of a template's own have no budget.
class Held {
 public:
  Held() = default;
  Held(Budget* budget, size_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_ != nullptr) budget_->hold(bytes_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (budget_ != nullptr) budget_->release(bytes_);
  }

 private:
  Budget* budget_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tenon::chat
