// A library's imports from the system, outside the boundary: clocks, random devices, files,
// threads, memory, what a process has once. A watch turns the library's own imports to functions
// that note the call and make it.
//
// Not seen are system calls without a function of the C library's, calls by other libraries that
// this one needs, and functions that were linked into it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

enum class WatchedCall : uint8_t { clock, randomness, file, thread, memory, process };

struct SeenCall {
  WatchedCall kind;
  std::string_view function;  // "fopen"
};

class ImportWatch {
 public:
  // Of the library that has `inside`, the address of one of its functions. One at a time.
  explicit ImportWatch(const void* inside);
  ImportWatch(const ImportWatch&) = delete;
  ImportWatch& operator=(const ImportWatch&) = delete;
  ~ImportWatch();

  // From here on nothing was called yet.
  void begin();
  // A call of the kind since `begin`, in no particular order.
  std::optional<SeenCall> seen(WatchedCall kind) const;
};

}  // namespace tenon
