// Lays the sequences of a step side by side, as kernels see them.
#pragma once

#include <tenon/batch.h>
#include <tenon/kv_cache.h>
#include <tenon/scheduler.h>

#include <span>
#include <vector>

#include "core/engine/engine_parts.h"
#include "core/engine/requests/sequence.h"

namespace tenon {

class BatchBuilder {
 public:
  // With `copies_tables` they outlive changes of their sequences, as a step needs that is still in
  // flight when the next one is planned. Without `asks_tables` they are empty.
  BatchBuilder(const EngineParts& parts, bool copies_tables, bool asks_tables = true);

  // Reads each share (base, tokens, drafts, parents) and writes where its rows stand. The view is
  // valid until the next call; its tables until the manager changes these sequences, or as long.
  // A token that is not drawn yet is kNoToken.
  Result<BatchView> build(uint64_t step_id, std::span<Share> shares, KVCacheManager& manager);
  // Puts in what has been drawn since; the view of the latest `build` shows it.
  void fill_in_tokens(std::span<const Share> shares);

 private:
  struct Group {
    std::vector<uint32_t> slots, kv_tokens;
    std::vector<KvTableView> tables;
    std::vector<BlockId> blocks;  // where tables are copied
    std::vector<uint32_t> ends;
  };

  void clear();
  void add_rows(Share& share);
  void add_positions(uint32_t position);
  void add_tree(const Share& share);
  void want(Share& share, RowUse use);
  Status add_tables(const Share& share, KVCacheManager& manager);
  void copy_tables(Group& group);

  const ModelShape& shape_;
  const KvEviction* const eviction_;
  // What drafters see, and the final norm's output last, which embeddings are made of.
  std::vector<LayerId> hidden_layers_;
  const size_t seen_layers_;
  bool pools_ = false;     // a sequence of the step
  const bool sees_whole_;  // rows see all of their sequence's
  const bool copies_tables_, asks_tables_;
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_;    // [rows, position_axes]
  std::vector<int32_t> tree_parents_;  // [rows], where any share has a tree
  std::vector<uint32_t> sees_to_;      // [rows], where they do
  std::vector<uint32_t> logits_rows_;
  std::vector<uint32_t> hidden_rows_;
  std::vector<BatchSequence> sequences_;
  std::vector<Group> groups_;
  std::vector<BatchGroup> group_views_;
};

}  // namespace tenon
