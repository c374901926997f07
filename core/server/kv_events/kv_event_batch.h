// What is published of a prefix cache in one message, and its bytes: those that subscribers of vLLM
// read (docs/serving.md).
//
//   [seconds, [event, …], rank]
//
// in MessagePack. An event is a map whose "type" is "BlockStored", "BlockRemoved" or
// "AllBlocksCleared", or, for subscribers from before June 2026, an array that begins with it.
#pragma once

#include <tenon/extensions/kv_events.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon::server {

// One event of a batch. Blocks that follow each other are stored in one.
struct KvBatchEvent {
  enum class Kind : uint8_t { stored, removed, cleared };
  Kind kind = Kind::stored;
  std::vector<uint64_t> blocks;  // by content
  // stored
  bool has_parent = false;
  uint64_t parent = 0;
  std::vector<TokenId> tokens;    // of all blocks
  uint64_t salt = 0;              // 0: everybody's
  uint64_t adapter = 0;           // 0: the base model
  std::string adapter_name = {};  // of one that a request loaded; else empty
};

struct KvBatch {
  double time_s = 0.0;  // since 1970
  std::vector<KvBatchEvent> events;
};

enum class KvEventForm : uint8_t { maps, arrays };
// "msgpack", "msgpack-arrays"
const char* encoding_name(KvEventForm form);

struct KvEventNaming {
  uint32_t block_tokens = 1;
  std::vector<std::string> adapters;  // by their numbers, from 1 on
  KvEventForm form = KvEventForm::maps;
};

// Those of `group`, put together. A block's name also holds `numerics`, since K/V of other numbers
// is other content; salts equal to `common_salt` count as none.
void add_events(std::span<const KvEvent> events, GroupId group, uint64_t numerics,
                uint64_t common_salt, std::vector<KvBatchEvent>& out);

std::string encode_batch(const KvBatch& batch, const KvEventNaming& naming);

}  // namespace tenon::server
