// The requests of a workload in a few bytes each. What many have together is kept once, and each is
// made when somebody asks for it, so that a million of them fit into little memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/workload/request_table.h"
#include "core/workload/workload.h"

namespace tenon {

class RequestList {
 public:
  // `draw_seed`: the workload file's own, from which streams of drawn tokens follow; `as_words`:
  // drawn prompts are texts.
  explicit RequestList(uint64_t draw_seed = 0, bool as_words = false)
      : seed_(draw_seed), as_words_(as_words) {}

  size_t size() const { return arrivals_ns_.size(); }
  const std::vector<int64_t>& arrivals_ns() const { return arrivals_ns_; }
  // The same each time. `index` < size().
  WorkloadRequest at(size_t index) const;
  // The first request of each table: requests of one table differ in lengths, seeds and arrivals
  // alone. Of a published trace one stands for all.
  std::vector<size_t> first_of_tables() const;

  // What follows belongs to this table, until the next one.
  void begin_table(const RequestTable& table);
  // `own_tokens` are drawn for this request alone; 0 = none are.
  void add(uint32_t own_tokens, uint32_t answer_tokens, int64_t arrival_ns);
  // Of a published trace, whose prompts share blocks of the table's `block_tokens`.
  void add(std::span<const int64_t> blocks, uint32_t last_block_tokens, uint32_t answer_tokens,
           int64_t arrival_ns);

 private:
  struct Table {
    RequestTable said;
    std::vector<DrawnTokens> shared;  // that all prompts begin with
    size_t first = 0;
  };
  std::vector<DrawnTokens> shared_parts(const RequestTable& table) const;
  DrawnTokens block(int64_t id, uint32_t tokens) const;
  void add_blocks(size_t index, const RequestTable& table, std::vector<DrawnTokens>& out) const;

  uint64_t seed_;
  bool as_words_;
  std::vector<Table> tables_;
  std::vector<int64_t> arrivals_ns_;
  std::vector<uint32_t> own_tokens_, answer_tokens_;
  // Of a published trace: every request's blocks one after the other, and where they end.
  std::vector<int64_t> blocks_;
  std::vector<uint64_t> blocks_end_;
  std::vector<uint32_t> last_block_tokens_;
};

}  // namespace tenon
