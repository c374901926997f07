// The kernels that put together what ranks gathered, as functions that put them on a stream
// (launches.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

inline constexpr uint32_t kMostRanks = 16;

// Who has which columns of a row: rank r those of [starts[r], starts[r + 1]).
struct RankColumns {
  uint32_t ranks;
  uint32_t starts[kMostRanks + 1];
};

// to [rows, to_stride] = the columns of all ranks side by side, or to += factor · them (f32 alone).
struct PlaceColumnsCall {
  const void* gathered;  // [ranks, rows, stride] of `type`
  void* to;
  Input type;
  uint32_t rows;
  int stride;
  int to_stride;
  bool add;
  float factor;
  RankColumns columns;
};
int launch_place_columns(void* stream, const PlaceColumnsCall& call);

// The same in one launch, for ranks whose devices reach each other's memory: each writes what it
// has into the boxes of all others and waits for theirs. All ranks launch it alike, in the same
// order.
//
// A box is memory of its rank: [2 turns][ranks] slots of slot_bytes, which gathers use in turns,
// and flags that are 0 at first. A rank writes to a slot again two gathers later, when the flags of
// the gather between have told it that the slot was read.
inline constexpr uint32_t kPeerBlocks = 8;
inline constexpr uint32_t kPeerThreads = 128;
constexpr uint64_t peer_box_bytes(uint32_t ranks, uint64_t slot_bytes) {
  return uint64_t{2} * ranks * (slot_bytes + kPeerBlocks * sizeof(uint32_t));
}
struct PeerBoxes {
  std::byte* of[kMostRanks];  // as this device reaches them
  uint64_t slot_bytes;        // a multiple of 16
  uint32_t* rounds;           // [kPeerBlocks] of this device: gathers so far
  uint32_t rank;
};
struct PeerGatherCall {
  const void* own;         // [rows, stride] of `type`, which fit into a slot
  PlaceColumnsCall place;  // of which `gathered` is not read
  PeerBoxes boxes;
};
int launch_peer_gather(void* stream, const PeerGatherCall& call);

// to [rows, width]: of each token the row of the rank that has it.
struct PlaceTokensCall {
  const float* gathered;  // [ranks, rows, width]
  const int32_t* tokens;  // [rows]
  float* to;
  uint32_t rows;
  int width;
  RankColumns tokens_of;  // starts of the vocabulary
};
int launch_place_tokens(void* stream, const PlaceTokensCall& call);

}  // namespace tenon::cuda
