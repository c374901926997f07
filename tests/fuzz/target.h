// A fuzz target: what is done with any bytes. One program has all of them where a corpus is
// replayed (replay_main.cc), and each is one of its own where libFuzzer looks for more.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef TENON_FUZZ_REPLAY

namespace tenon::fuzz {

using Target = int (*)(const uint8_t* data, size_t size);

// Makes a target known by its name.
struct Known {
  Known(const char* name, Target target);
};

}  // namespace tenon::fuzz

#define TENON_FUZZ_TARGET(name, data, size)                              \
  static int fuzz_##name(data, size);                                    \
  static const tenon::fuzz::Known fuzz_known_##name{#name, fuzz_##name}; \
  static int fuzz_##name(data, size)

#else

#define TENON_FUZZ_TARGET(name, data, size) extern "C" int LLVMFuzzerTestOneInput(data, size)

#endif
