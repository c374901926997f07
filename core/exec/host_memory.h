// Zeroed memory straight from the system: page-aligned, given back as a whole, and backed only
// where it is touched. What executors keep weights, KV and activations in. A canary stands after
// it, and pages that nobody may touch around it: kernels that write further than their room reaches
// are found out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/machine/canary.h"
#include "core/base/machine/guarded_pages.h"
#include "core/base/result.h"
#include "core/base/saturating.h"

namespace tenon {

class HostMemory {
 public:
  enum class Backing : uint8_t {
    eager,  // will be used up: counted by the system at once
    lazy,   // most of it may never be touched
  };

  HostMemory() = default;
  // `what` leads the message: "the KV cache needs 4096 bytes …". Zero bytes are valid: data() is
  // null then. Errors: out_of_memory.
  static Result<HostMemory> allocate(uint64_t bytes, Backing backing, std::string_view what);

  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  std::byte* data() const { return pages_.data; }
  uint64_t bytes() const { return bytes_; }
  float* floats() const { return reinterpret_cast<float*>(data()); }
  // False once somebody wrote behind the last byte.
  bool intact() const { return data() == nullptr || canary_lives(data() + bytes_); }

 private:
  GuardedPages pages_;
  uint64_t bytes_ = 0;
};

struct MemoryPart {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};
// How much of the beginning of each of these allocations may be backed at once without taking more
// than `budget` together: memory in huge pages is backed a huge page at a time. Every allocation
// gets the same share; where that is less than a page, the first ones get a page each.
std::vector<MemoryPart> parts_to_back(std::span<const MemoryPart> allocations, uint64_t budget);

// Has the system back [data, data + bytes) now instead of at the first touch. Only a hint: a kernel
// that does not know it (Linux before 5.14) backs memory as ever.
void prefault(std::byte* data, uint64_t bytes);

// The next multiple of 64, a cache line.
constexpr uint64_t round_up_to_line(uint64_t bytes) {
  return saturating_add(bytes, 63) & ~63ull;
}

}  // namespace tenon
