// One KV group's part of a batch as bytes that stand for themselves: no pointer leads out of them,
// so they mean the same wherever they are copied. What a plan for a device looks like.
#pragma once

#include <tenon/batch.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::test {

struct FlatBatchLimits {
  uint32_t rows = 0;
  uint32_t sequences = 0;
  uint32_t table_entries = 0;  // of one sequence
};

// The most that `write_flat_batch` writes.
uint64_t flat_batch_bytes(const FlatBatchLimits& limits);
// Writes `group` of the batch, of which `chosen` are the sequences to plan; returns the bytes.
// Zero: it is larger than the limits.
uint64_t write_flat_batch(const BatchView& batch, GroupId group, std::span<const uint32_t> chosen,
                          const FlatBatchLimits& limits, void* to);

// A view of such bytes, which stay where they are. Other groups are empty in it.
class FlatBatch {
 public:
  // False when they are no batch at all.
  bool read(const void* from, GroupId group);
  const BatchView& batch() const { return batch_; }
  std::span<const uint32_t> chosen() const { return chosen_; }

 private:
  BatchView batch_;
  std::vector<BatchGroup> groups_;
  std::vector<KvTableView> tables_;
  std::span<const uint32_t> chosen_;
};

}  // namespace tenon::test
