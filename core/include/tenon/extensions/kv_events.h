// An extension of KV managers that keep what blocks hold for later sequences (kKvEvents): which
// content came into the cache and which went, so that whoever distributes requests over several
// servers can send one to where its beginning is.
//
// A block is named by its content: a number that follows from the key of its sequence and all
// tokens up to the block's end, the same in every process. Whether content that was stored is found
// later is still the manager's affair: a state may be missing, or a window's last blocks.
//
// Threads: `watch` is [control] or [step], `take` is [step].
#pragma once

#include <tenon/kv_cache.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// What happened to a content.
enum class KvEventKind : uint8_t {
  stored = 0,   // the group's first block with this content is full and can be found
  removed = 1,  // its last one is gone
};

// One content that came, or went.
struct KvEvent {
  KvEventKind kind = KvEventKind::stored;  // whether it came or went
  bool has_parent = false;                 // of `stored` alone: a block comes before it
  GroupId group = 0;                       // whose block it is
  uint64_t content = 0;                    // the block's name
  uint64_t parent = 0;                     // of `stored`: that of the block before it
  uint64_t salt = 0, adapter = 0;          // of `stored`: its sequence's CacheKey
  std::span<const TokenId> tokens;         // of `stored`: [block_tokens] of this block
};
// Room for events, filled in the order in which they happened.
struct KvEventsOut {
  std::span<KvEvent> events;  // the room
  uint32_t count = 0;         // how much of it was filled
};

// The extension's id; it leads to a `const KvEvents`.
inline constexpr std::string_view kKvEvents = "kv_events/1";
// What such a manager offers.
struct KvEvents {
  void* self = nullptr;  // the first argument of both
  // From now on events are kept until they are taken. Nothing is kept before.
  Status (*watch)(void* self) noexcept = nullptr;
  // Hands events over; call again while `count` fills the room. Their tokens are borrowed until the
  // next call of any method. Who watches takes after every step, or memory grows.
  Status (*take)(void* self, KvEventsOut& out) noexcept = nullptr;
};

}  // namespace tenon
