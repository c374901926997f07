#include "core/exec/cuda/ranks/rank_gather.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"

namespace tenon::cuda {
namespace {

uint64_t element_bytes(Input type) {
  return type == Input::f32 ? sizeof(float) : sizeof(uint16_t);
}

RankColumns columns_of_all(const ColumnStarts& starts) {
  RankColumns columns = {};
  columns.ranks = static_cast<uint32_t>(starts.size()) - 1;
  std::ranges::copy(starts, columns.starts);
  return columns;
}

// The first of what ranks said went wrong; empty: nothing did.
std::string first_problem(const Collective& ranks, const std::vector<std::string>& said) {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (said[rank].starts_with('+')) continue;
    return name_of_rank(rank, ranks.places()[rank]) + ": " + said[rank].substr(1);
  }
  return {};
}

}  // namespace

RankGather::~RankGather() {
  let_go();
}

void RankGather::let_go() {
  for (void* at : std::exchange(reached_, {})) driver_.let_go(at);
}

// Rows begin where four elements of bf16, and of f32, are aligned.
int RankGather::stride(const ColumnStarts& starts) {
  uint32_t widest = 0;
  for (size_t rank = 0; rank + 1 < starts.size(); ++rank) {
    widest = std::max(widest, starts[rank + 1] - starts[rank]);
  }
  return static_cast<int>((widest + 7) / 8 * 8);
}

uint64_t RankGather::bytes_for(uint32_t ranks, uint64_t own_bytes) {
  return (ranks + 1) * own_bytes + peer_box_bytes(ranks, kPeerBytes) +
         kPeerBlocks * sizeof(uint32_t);
}

Status RankGather::allocate(uint32_t ranks, uint64_t own_bytes, DeviceMemory& memory) {
  own_bytes_ = own_bytes;
  const char* const what = "activations that ranks gather";
  TENON_ASSIGN_OR_RETURN(own_, memory.bytes(own_bytes, what));
  TENON_ASSIGN_OR_RETURN(all_, memory.bytes(ranks * own_bytes, what));
  const uint64_t box_bytes = peer_box_bytes(ranks, kPeerBytes);
  TENON_ASSIGN_OR_RETURN(void* const box, memory.bytes(box_bytes, "a rank's box"));
  TENON_ASSIGN_OR_RETURN(boxes_.rounds, memory.array<uint32_t>(kPeerBlocks, "a rank's box"));
  boxes_.slot_bytes = kPeerBytes;
  boxes_.of[0] = static_cast<std::byte*>(box);  // until it is known which rank this is
  const uint64_t flag_bytes = box_bytes - uint64_t{2} * ranks * kPeerBytes;
  const std::vector<std::byte> zeros(flag_bytes);
  TENON_RETURN_IF_ERROR(
      driver_.send(boxes_.of[0] + (box_bytes - flag_bytes), zeros.data(), flag_bytes));
  TENON_RETURN_IF_ERROR(driver_.send(boxes_.rounds, zeros.data(), kPeerBlocks * sizeof(uint32_t)));
  return driver_.wait();
}

Status RankGather::meet(DeviceRank& rank) {
  TENON_ASSIGN_OR_RETURN(nccl_, rank.meet(driver_));
  TENON_ASSIGN_OR_RETURN(const std::string problem, reach_peers(rank.ranks()));
  has_peers_ = problem.empty();
  const std::string peers = has_peers_ ? ", small ones through each other's memory"
                                       : "; not through each other's memory, since " + problem;
  log(LogLevel::info, "executor cuda",
      "rank " + std::to_string(rank.ranks().rank()) + " has " + driver_.device_name() + " (" +
          driver_.device_id() + ") and gathers by " + rank.carrier() + peers);
  return {};
}

Result<std::string> RankGather::reach_peers(Collective& ranks) {
  std::byte* const own = boxes_.of[0];
  boxes_.rank = ranks.rank();
  const auto elsewhere = std::ranges::find_if(
      ranks.places(), [&](const RankPlace& place) { return place.host != ranks.places()[0].host; });
  if (elsewhere != ranks.places().end()) return std::string("they are on several hosts");
  const Result<std::string> handle = driver_.share(own);
  TENON_ASSIGN_OR_RETURN(
      const std::vector<std::string> handles,
      gather_texts(ranks, handle.ok() ? "+" + *handle : "-" + message_of(handle.status())));
  if (std::string problem = first_problem(ranks, handles); !problem.empty()) return problem;
  std::string own_problem;
  for (uint32_t rank = 0; rank < ranks.size() && own_problem.empty(); ++rank) {
    boxes_.of[rank] = own;
    if (rank == ranks.rank()) continue;
    const Result<void*> at = driver_.reach(handles[rank].substr(1));
    if (at.ok()) {
      reached_.push_back(*at);
      boxes_.of[rank] = static_cast<std::byte*>(*at);
    } else {
      own_problem = message_of(at.status());
    }
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<std::string> reached,
                         gather_texts(ranks, own_problem.empty() ? "+" : "-" + own_problem));
  std::string problem = first_problem(ranks, reached);
  if (!problem.empty()) let_go();
  return problem;
}

uint32_t RankGather::fit(uint64_t row_bytes) const {
  return static_cast<uint32_t>(std::min<uint64_t>(own_bytes_ / row_bytes, UINT32_MAX));
}

Status RankGather::gather(uint64_t bytes) {
  if (nccl_ == nullptr) return internal("a rank computes a step before it has met the others");
  if (bytes > own_bytes_) return internal("a gather is larger than the room for it");
  return nccl_->all_gather(own_, all_, bytes, driver_.stream());
}

Status RankGather::columns(const ColumnStarts& starts, Input type, uint32_t rows, void* to,
                           int to_stride, bool add, float factor) {
  PlaceColumnsCall call = {};
  call.gathered = all_;
  call.to = to;
  call.type = type;
  call.rows = rows;
  call.stride = stride(starts);
  call.to_stride = to_stride;
  call.add = add;
  call.factor = factor;
  call.columns = columns_of_all(starts);
  const uint64_t bytes = rows * static_cast<uint64_t>(call.stride) * element_bytes(type);
  const char* const what = "the columns of all ranks";
  if (has_peers_ && bytes <= kPeerBytes) {
    const int error = launch_peer_gather(driver_.stream(), {own_, call, boxes_});
    return error == 0 ? Status() : driver_.launched(error, what);
  }
  TENON_RETURN_IF_ERROR(gather(bytes));
  const int error = launch_place_columns(driver_.stream(), call);
  return error == 0 ? Status() : driver_.launched(error, what);
}

Status RankGather::token_rows(const ColumnStarts& vocabulary, const int32_t* tokens, uint32_t rows,
                              int width, float* to) {
  TENON_RETURN_IF_ERROR(gather(rows * static_cast<uint64_t>(width) * sizeof(float)));
  PlaceTokensCall call = {};
  call.gathered = static_cast<const float*>(all_);
  call.tokens = tokens;
  call.to = to;
  call.rows = rows;
  call.width = width;
  call.tokens_of = columns_of_all(vocabulary);
  const int error = launch_place_tokens(driver_.stream(), call);
  return error == 0 ? Status() : driver_.launched(error, "the embedded rows of all ranks");
}

}  // namespace tenon::cuda
