#include "core/server/kv_events/kv_event_batch.h"

#include <cstdio>

#include "core/server/api/read/json.h"

namespace tenon::server {
namespace {

using api::Json;
using Kind = KvBatchEvent::Kind;

// vLLM's word for the memory that the engine computes on, whatever that is.
constexpr const char* kMedium = "GPU";

// The finaliser of MurmurHash3: a name of its own for each content and numerics.
uint64_t name_of(uint64_t content, uint64_t numerics) {
  uint64_t x = content ^ numerics;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

bool goes_on(const KvBatchEvent& last, const KvBatchEvent& next) {
  if (last.kind != next.kind) return false;
  if (next.kind == Kind::removed) return true;
  return next.has_parent && next.parent == last.blocks.back() && next.salt == last.salt &&
         next.adapter == last.adapter;
}

Json hex(uint64_t salt) {
  char text[24];
  std::snprintf(text, sizeof(text), "salt-%016llx", static_cast<unsigned long long>(salt));
  return text;
}

// What else than tokens a block's content follows from, once for each block; null: nothing.
Json extra_keys(const KvBatchEvent& event, const Json& adapter) {
  Json keys = Json::array();
  if (!adapter.is_null()) keys.push_back(adapter);
  if (event.salt != 0) keys.push_back(hex(event.salt));
  if (keys.empty()) return Json();
  return Json::array_t(event.blocks.size(), keys);
}

Json adapter_of(const KvBatchEvent& event, const KvEventNaming& naming) {
  if (!event.adapter_name.empty()) return event.adapter_name;
  if (event.adapter == 0 || event.adapter > naming.adapters.size()) return Json();
  return naming.adapters[event.adapter - 1];
}

// In the order in which an array has them; the name first.
std::vector<std::pair<const char*, Json>> members_of(const KvBatchEvent& event,
                                                     const KvEventNaming& naming) {
  switch (event.kind) {
    case Kind::cleared:
      return {{"type", "AllBlocksCleared"}};
    case Kind::removed:
      return {{"type", "BlockRemoved"}, {"block_hashes", event.blocks}, {"medium", kMedium}};
    case Kind::stored:
      break;
  }
  const Json adapter = adapter_of(event, naming);
  std::vector<std::pair<const char*, Json>> members = {
      {"type", "BlockStored"},
      {"block_hashes", event.blocks},
      {"parent_block_hash", event.has_parent ? Json(event.parent) : Json()},
      {"token_ids", event.tokens},
      {"block_size", naming.block_tokens},
      {"lora_id", event.adapter == 0 ? Json() : Json(event.adapter)},
      {"medium", kMedium},
      {"lora_name", adapter}};
  if (Json keys = extra_keys(event, adapter); !keys.is_null()) {
    members.emplace_back("extra_keys", std::move(keys));
  }
  return members;
}

Json event_json(const KvBatchEvent& event, const KvEventNaming& naming) {
  Json json = naming.form == KvEventForm::maps ? Json::object() : Json::array();
  for (auto& [name, value] : members_of(event, naming)) {
    if (naming.form == KvEventForm::maps) {
      json[name] = std::move(value);
    } else {
      json.push_back(std::move(value));
    }
  }
  return json;
}

}  // namespace

const char* encoding_name(KvEventForm form) {
  return form == KvEventForm::maps ? "msgpack" : "msgpack-arrays";
}

void add_events(std::span<const KvEvent> events, GroupId group, uint64_t numerics,
                uint64_t common_salt, std::vector<KvBatchEvent>& out) {
  for (const KvEvent& event : events) {
    if (event.group != group) continue;
    KvBatchEvent next;
    next.kind = event.kind == KvEventKind::stored ? Kind::stored : Kind::removed;
    next.blocks = {name_of(event.content, numerics)};
    if (next.kind == Kind::stored) {
      next.has_parent = event.has_parent;
      next.parent = event.has_parent ? name_of(event.parent, numerics) : 0;
      next.tokens.assign(event.tokens.begin(), event.tokens.end());
      next.salt = event.salt == common_salt ? 0 : event.salt;
      next.adapter = event.adapter;
    }
    if (out.empty() || !goes_on(out.back(), next)) {
      out.push_back(std::move(next));
      continue;
    }
    KvBatchEvent& last = out.back();
    last.blocks.push_back(next.blocks.front());
    last.tokens.insert(last.tokens.end(), next.tokens.begin(), next.tokens.end());
  }
}

std::string encode_batch(const KvBatch& batch, const KvEventNaming& naming) {
  Json events = Json::array();
  for (const KvBatchEvent& event : batch.events) events.push_back(event_json(event, naming));
  constexpr int kRank = 0;
  const Json message = Json::array({batch.time_s, std::move(events), kRank});
  std::string bytes;
  Json::to_msgpack(message, nlohmann::detail::output_adapter<char, std::string>(bytes));
  return bytes;
}

}  // namespace tenon::server
