// How much weight the rows of a step gave to the entries of their tables, for KV managers that
// evict by it (kKvScores): sums over query heads and layers, in whole numbers (AttentionScores).
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

class EntryScores {
 public:
  // For steps of these groups, which keep tokens and have no window; `shape` outlives this.
  void load(const ModelShape& shape, std::span<const GroupId> groups);
  // Sets every sum of the step to zero. Nothing is wanted of layers outside of the groups.
  void begin(const BatchView& batch);
  // Where a layer's rows add what they give: [rows], or empty where nobody wants that.
  std::span<uint64_t* const> rows(LayerId layer) const;

  // Behind the step. What stays of a sequence's rows is known later, so the known rows have a line
  // of sums together, and each draft has its own.
  static constexpr uint32_t kKnownRows = 0;
  static constexpr uint32_t line_of(uint32_t draft) { return 1 + draft; }
  std::span<const GroupId> groups() const { return ids_; }
  // [kv_tokens] of the batch's sequence `index`.
  std::span<const uint64_t> line(GroupId group, uint32_t index, uint32_t line) const;
  // An error where entries got more than rows can give.
  Status check() const;

 private:
  struct Group {
    uint32_t heads = 0;               // query heads of all of its layers
    std::vector<uint64_t> sums;       // lines of all sequences
    std::vector<uint64_t*> rows;      // [rows] into them
    std::vector<size_t> first;        // [sequences] where the lines of each begin
    std::vector<uint32_t> kv_tokens;  // [sequences] the length of its lines
  };
  Group* group_of(GroupId id);
  const Group* group_of(GroupId id) const;
  Status check_line(const Group& group, std::span<const uint64_t> sums, uint32_t rows) const;

  const ModelShape* shape_ = nullptr;
  std::vector<GroupId> ids_;
  std::vector<Group> groups_;  // [ids_]
  std::vector<BatchSequence> sequences_;
};

}  // namespace tenon
