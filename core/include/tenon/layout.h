// A hash over the size, alignment and every member's place of every struct that crosses the
// boundary, computed in each module's own compilation. It differs when compiler flags change a
// layout that the text of the headers does not show. The list is generated from the headers.
#pragma once

#include <tenon/layout_generated.h>

#include <cstdint>

namespace tenon {

constexpr uint64_t layout_hash() noexcept {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a, 64 bits
  for (const uint64_t value : detail::kLayout) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ ((value >> (8 * byte)) & 0xff)) * 1099511628211ull;
    }
  }
  return hash;
}

}  // namespace tenon
