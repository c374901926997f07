// An extension of attention kernels (kAttentionChunks): windows that do not slide. Of a group that
// it names, the row at position p sees positions p - p % window_tokens … p, where `window_tokens`
// is the group's (KvGroup); of others what first_visible says.
//
// Managers need not know: what a chunk shows is a part of what a window as wide would show.
//
// Threads: `set` is [control], before each `bind` of a model that has such groups.
#pragma once

#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// `const AttentionChunks*`, of a kernel that can do so.
inline constexpr std::string_view kAttentionChunks = "attention_chunks/1";
// How it is told.
struct AttentionChunks {
  void* self = nullptr;  // first argument of `set`
  // The groups of the next `bind` whose windows are chunks; those of an earlier call are forgotten.
  void (*set)(void* self, std::span<const GroupId> groups) noexcept = nullptr;
};

// The first position that the row at `position` sees of its chunk of `tokens`, which is not 0.
constexpr uint32_t first_of_chunk(uint32_t position, uint32_t tokens) noexcept {
  return position - position % tokens;
}

}  // namespace tenon
