#include "core/exec/cuda/kernels/launch_config.h"
#include "core/exec/cuda/kernels/launch_ranks.h"
#include "core/exec/cuda/kernels/rank_kernels.cuh"

namespace tenon::cuda {
namespace {

LaunchConfig placing_config(const char* name, uint32_t rows, uint32_t width, void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.grid.x = rows;
  config.grid.y = (width + kPlacedColumns - 1) / kPlacedColumns;
  config.block.x = kRowThreads;
  return config;
}

// Whether no rank's columns begin or end within a quad.
bool cut_in_quads(const RankColumns& columns) {
  for (uint32_t rank = 0; rank <= columns.ranks; ++rank) {
    if (columns.starts[rank] % 4 != 0) return false;
  }
  return true;
}

template <typename T>
int place_columns(void* stream, const PlaceColumnsCall& c) {
  const T* gathered = static_cast<const T*>(c.gathered);
  T* to = static_cast<T*>(c.to);
  const bool whole =
      in_quads(gathered, c.stride) && in_quads(to, c.to_stride) && cut_in_quads(c.columns);
  return launch(placing_config("place_columns", c.rows, c.columns.starts[c.columns.ranks], stream),
                place_columns_kernel<T>, gathered, to, c.columns, c.stride, c.to_stride, c.add,
                c.factor, whole);
}

template <typename T>
int peer_gather(void* stream, const PeerGatherCall& call) {
  const PlaceColumnsCall& c = call.place;
  const PeerBoxes& boxes = call.boxes;
  PeerView<T> view;
  view.ranks = c.columns.ranks;
  view.rank = boxes.rank;
  view.slot = static_cast<int64_t>(boxes.slot_bytes / sizeof(T));
  view.rounds = Global<uint32_t>(boxes.rounds);
  const uint64_t flags_at = uint64_t{2} * view.ranks * boxes.slot_bytes;
  for (uint32_t rank = 0; rank < view.ranks; ++rank) {
    view.data[rank] = Global<T>(reinterpret_cast<T*>(boxes.of[rank]));
    view.flags[rank] = Global<uint32_t>(reinterpret_cast<uint32_t*>(boxes.of[rank] + flags_at));
  }
  const T* own = static_cast<const T*>(call.own);
  T* to = static_cast<T*>(c.to);
  const bool whole =
      in_quads(own, c.stride) && in_quads(to, c.to_stride) && cut_in_quads(c.columns);
  LaunchConfig config = overlapping_config("peer_gather", stream);
  config.grid.x = kPeerBlocks;
  config.block.x = kPeerThreads;
  config.meets = true;
  return launch(config, peer_gather_kernel<T>, own, to, view, c.columns, c.rows, c.stride,
                c.to_stride, c.add, c.factor, whole);
}

}  // namespace

int launch_peer_gather(void* stream, const PeerGatherCall& call) {
  return call.place.type == Input::f32 ? peer_gather<float>(stream, call)
                                       : peer_gather<BFloat16>(stream, call);
}

int launch_place_columns(void* stream, const PlaceColumnsCall& call) {
  return call.type == Input::f32 ? place_columns<float>(stream, call)
                                 : place_columns<BFloat16>(stream, call);
}

int launch_place_tokens(void* stream, const PlaceTokensCall& c) {
  const bool whole = in_quads(c.gathered, c.width) && in_quads(c.to, c.width);
  return launch(placing_config("place_tokens", c.rows, static_cast<uint32_t>(c.width), stream),
                place_tokens_kernel, c.gathered, c.tokens, c.to, c.tokens_of, c.width, whole);
}

}  // namespace tenon::cuda
