// Requests of drafters as they cross, and the messages that precede each.
#pragma once

#include <tenon/drafter.h>

#include "core/isolation/wire.h"

namespace tenon {

enum class DraftTelling : uint32_t { begin = 0, end, accept, measured };

inline void write_draft_request(const DraftRequest& request, WireWriter& out) {
  out.put(request.seq);
  out.put(request.max_tokens);
  out.put(request.key);
  out.put_list(request.history);
}
inline DraftRequest read_draft_request(WireReader& in) {  // into the message
  DraftRequest request;
  request.seq = in.get<SeqId>();
  request.max_tokens = in.get<uint32_t>();
  request.key = in.get<RandomKey>();
  request.history = in.get_list<TokenId>();
  return request;
}

// How a list of drafts was asked for: with room for parents, or for probabilities.
struct DraftRooms {
  uint32_t vocabulary = 0;
  bool parents = false;
  bool probs = false;
};
struct DraftSaid {
  uint32_t count = 0;
  uint8_t is_tree = 0;
  uint8_t has_probs = 0;
};

}  // namespace tenon
