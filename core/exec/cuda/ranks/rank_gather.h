// What the devices of several ranks make is brought together: each computes its columns of a
// product, or of what is to be multiplied next, and all get all of them, where one device alone
// would have written them. All of it stands on the queue and may be captured.
//
// NCCL carries what is gathered. Few bytes of ranks whose devices reach each other's memory go by a
// kernel that writes them there and waits for theirs, one launch in place of two.
//
// How many bytes a gather has, and which way it goes, follows from numbers that all ranks have
// alike: rows, and who has which columns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/kernels/launch_ranks.h"
#include "core/exec/cuda/ranks/device_rank.h"
#include "core/parallel/column_cut.h"

namespace tenon::cuda {

// Most bytes of a rank that go by the kernel; larger gathers use links better by NCCL. Never
// measured.
inline constexpr uint64_t kPeerBytes = 256 << 10;

class RankGather {
 public:
  explicit RankGather(Driver& driver) : driver_(driver) {}
  RankGather(const RankGather&) = delete;
  RankGather& operator=(const RankGather&) = delete;
  ~RankGather();

  // Elements from row to row of what a rank gives of these columns.
  static int stride(const ColumnStarts& starts);

  // Room for what a rank gives at once, and for what all give.
  static uint64_t bytes_for(uint32_t ranks, uint64_t own_bytes);
  Status allocate(uint32_t ranks, uint64_t own_bytes, DeviceMemory& memory);
  // Before the first gather, at all ranks. Errors: what keeps this rank from gathering.
  Status meet(DeviceRank& rank);
  void abandon() {
    if (nccl_ != nullptr) nccl_->abandon();
  }

  // Where a rank writes what it gives to the next gather: [rows, stride].
  void* own() const { return own_; }
  // How many rows of so many bytes fit.
  uint32_t fit(uint64_t row_bytes) const;

  // to [rows, the columns of all ranks], or with `add` to += factor · them, in f32. Rows of `to`
  // are to_stride elements apart; `rows` of the columns' stride fit.
  Status columns(const ColumnStarts& starts, Input type, uint32_t rows, void* to, int to_stride,
                 bool add = false, float factor = 1.0f);
  // Rows of f32 that begin at own(), where the rank has the token: to [rows, width].
  Status token_rows(const ColumnStarts& vocabulary, const int32_t* tokens, uint32_t rows, int width,
                    float* to);

 private:
  Status gather(uint64_t bytes);
  // Empty: devices reach each other's boxes; else why they do not. All ranks get the same.
  Result<std::string> reach_peers(Collective& ranks);
  void let_go();

  Driver& driver_;
  std::unique_ptr<NcclRanks> nccl_;
  uint64_t own_bytes_ = 0;
  void *own_ = nullptr, *all_ = nullptr;
  bool has_peers_ = false;
  PeerBoxes boxes_ = {};
  std::vector<void*> reached_;
};

}  // namespace tenon::cuda
