// A step on its way from rank 0 to the others: its batch, and the moves that come before it.
#pragma once

#include <tenon/batch.h>
#include <tenon/kv_cache.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/parallel/message.h"

namespace tenon {

void write_step(MessageWriter& to, const BatchView& batch);
void write_moves(MessageWriter& to, std::span<const KvMove> moves);
std::vector<KvMove> read_moves(MessageReader& from);

// A batch with the arrays that it points to.
class ReceivedStep {
 public:
  // Takes what `write_step` wrote.
  explicit ReceivedStep(MessageReader& from);
  ReceivedStep(const ReceivedStep&) = delete;
  ReceivedStep& operator=(const ReceivedStep&) = delete;
  const BatchView& batch() const { return batch_; }

 private:
  struct Group {
    std::vector<uint32_t> slots, kv_tokens;
    std::vector<KvTableView> tables;
  };
  void read_group(MessageReader& from);

  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_, sees_to_, logits_rows_, hidden_rows_;
  std::vector<int32_t> tree_parents_;
  std::vector<BatchSequence> sequences_;
  std::vector<LayerId> hidden_layers_;
  std::vector<float> inputs_;
  std::deque<Group> groups_;
  std::deque<std::vector<BlockId>> blocks_;  // of all tables
  std::deque<std::vector<uint32_t>> ends_;
  std::vector<BatchGroup> group_views_;
  BatchView batch_;
};

}  // namespace tenon
