// The second model of a pipeline, as drafters see it (model_runner/2, model_runner_tree/1 and
// model_runner_block/1), and as the engine keeps it.
//
// Its K/V lies in groups of their own behind the target's (KvOwner::draft), in blocks that the same
// manager hands out: a grant, a prefix hit, a fork, a swap and a rollback concern both models. But
// the draft may be behind the target: nobody runs it where nothing is drafted. So for each block
// this keeps how many of its leading slots hold the draft's K/V; what is missing below a history's
// end is computed when that history is asked for, in the same pass.
//
// Threads: one thread calls, the step thread.
#pragma once

#include <tenon/batch.h>
#include <tenon/extensions/model_runner_block.h>
#include <tenon/extensions/model_runner_tree.h>
#include <tenon/kv_cache.h>
#include <tenon/model.h>
#include <tenon/model_runner.h>
#include <tenon/sampler.h>

#include <span>
#include <unordered_map>
#include <vector>

#include "core/engine/requests/sequence_table.h"
#include "core/engine/step/step.h"
#include "core/exec/executor.h"

namespace tenon {

struct Head;

// Moves that a manager is asked for in one call.
inline constexpr size_t kMovesAtOnce = 256;

// All borrowed; they outlive the runner. The executor is loaded with the draft's groups alone.
struct DraftRunnerParts {
  Executor* executor = nullptr;       // of a head without layers, the target's
  const ModelShape* shape = nullptr;  // the draft's own
  KvGeometry geometry;                // of its groups
  GroupId first_group = 0;            // their place among all groups of the manager
  uint32_t max_rows = 0;              // of one pass
  uint32_t max_sequences = 0;
  // Not null: the model is a head (core/model/heads). Its row i is of token i + 1.
  const Head* head = nullptr;
  // Blocks of each group behind those of the manager, where rows of a block of drafts stand that
  // were granted no slots; used for one pass.
  uint32_t spare_blocks = 0;
};

class DraftRunner final : public ModelRunner, public ModelTreeRunner, public ModelBlockRunner {
 public:
  explicit DraftRunner(const DraftRunnerParts& parts);

  // The engine that uses it from here on. One at a time.
  void attach(KVCacheManager& manager, SequenceTable& table, Sampler& sampler);
  void detach();

  // Whether a move concerns the draft's groups.
  bool owns(const KvMove& move) const { return move.group >= parts_.first_group; }
  // Carries out those that do, in order; at most kMovesAtOnce.
  Status apply(std::span<const KvMove> moves);
  // What a step computes of a sequence begins at Share::base: from there on nothing that a block
  // holds is the sequence's. To be told of every step, behind its moves.
  Status begin_step(std::span<const Share> shares);
  // Of a head: rows of drafts have read its own states in place of the target's, and are forgotten.
  Status end_drafts();
  // A path of a tree was kept: what lies behind its first `tokens` tokens stands elsewhere now.
  Status forget_behind(SeqId seq, uint32_t tokens);

  uint32_t vocabulary() const noexcept override { return parts_.shape->vocabulary; }
  uint32_t context_tokens() const noexcept override;
  uint32_t computed(SeqId seq, std::span<const TokenId> history) noexcept override;
  Status forward(std::span<const RunnerRow> rows, std::span<const float*> logits,
                 std::span<const float*> hidden) noexcept override;
  Status draw(std::span<const RunnerRow> rows, std::span<const float* const> logits,
              std::span<RunnerDraw> draws) noexcept override;
  // Its rows are never kept: no block counts as filled by them.
  Status forward_tree(std::span<const RunnerTree> trees, std::span<const float*> logits,
                      std::span<const float*> hidden) noexcept override;

  uint32_t block_tokens() const noexcept override;
  Status forward_blocks(std::span<const RunnerBlock> blocks, std::span<const float*> logits,
                        std::span<const float*> hidden) noexcept override;
  bool follows() const noexcept override;
  bool has_confidence() const noexcept override;
  Status follow(std::span<const TokenId> before, std::span<const float*> logits,
                std::span<const float* const> hidden,
                std::span<float> confidence) noexcept override;

  // Token positions computed so far, those that were missing included.
  uint64_t rows_computed() const { return rows_computed_; }

 private:
  uint32_t groups() const { return parts_.shape->group_count; }
  uint32_t& filled(GroupId group, const KvPlace& place);
  Status find_tables(SeqId seq, std::span<KvTableView> tables);
  uint32_t reach(std::span<const KvTableView> tables, uint32_t end) const;
  void fill(std::span<const KvTableView> tables, uint32_t end);
  void cut(std::span<const KvTableView> tables, uint32_t end);
  Status check(const RunnerRow& row) const;
  Status forward_rows(std::span<const RunnerRow> rows, std::span<const float*> logits,
                      std::span<const float*> hidden);
  Status forget_other_branch(const RunnerRow& row);
  uint32_t first_held(std::span<const KvTableView> tables) const;
  Status skim(const RunnerRow& row);
  Status add(const RunnerRow& row, uint32_t index);
  Status check(const RunnerTree& tree);
  Status run_trees(std::span<const RunnerTree> trees, std::span<const float*> logits,
                   std::span<const float*> hidden);
  Status add(const RunnerTree& tree, uint32_t& index);
  Status add_input(const RunnerRow& row, uint32_t position);
  Status push_rows(const RunnerRow& row, uint32_t first, uint32_t count);
  void close_sequence(SeqId seq, uint32_t rows, uint32_t kv_tokens);
  Status check(const RunnerBlock& block) const;
  Status run_blocks(std::span<const RunnerBlock> blocks, std::span<const float*> logits,
                    std::span<const float*> hidden);
  Status run_medusa(std::span<const RunnerBlock> blocks, std::span<const float*> logits,
                    std::span<const float*> hidden);
  Status add_context(const RunnerBlock& block);
  Status add_block(const RunnerBlock& block, uint32_t& index);
  Status add_masked(const RunnerBlock& block, uint32_t& index);
  void lend_spare(uint32_t end);
  float confidence_of(const float* hidden, std::span<const float> embedded) const;
  void begin_pass();
  BatchView batch();
  Status run_pass(bool last);
  void keep(const float* rows, uint64_t width, bool last, std::vector<float>& aside,
            std::vector<const float*>& found) const;
  void keep_renamed(const float* rows);
  bool claim_next(std::span<const KvTableView> tables, std::span<const TokenId> history);
  Status draw_rows(std::span<const RunnerRow> rows, std::span<const float* const> logits,
                   std::span<RunnerDraw> draws);
  void hold_to_grammar(Sequence& sequence, SampleRow& row);

  DraftRunnerParts parts_;
  KVCacheManager* manager_ = nullptr;
  SequenceTable* table_ = nullptr;
  Sampler* sampler_ = nullptr;
  // Leading slots of each block that hold the draft's K/V. [groups][blocks], and of the swap pool.
  std::vector<std::vector<uint32_t>> filled_, filled_swap_;
  // Of a head: the token after a block's last one, which the block's last row has read; kNoToken:
  // none has. [groups][blocks], and of the swap pool.
  std::vector<std::vector<TokenId>> next_, next_swap_;
  uint64_t pass_id_ = 0;
  uint64_t rows_computed_ = 0;

  // What each sequence of the step was asked for last, from `base` on: another branch of drafts
  // leaves other K/V in the same places.
  struct Asked {
    SeqId seq = kNoSeq;
    uint32_t base = 0;
    std::vector<TokenId> tokens;
  };
  std::vector<Asked> asked_;
  size_t asked_count_ = 0;

  // The pass at hand.
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_;
  std::vector<uint32_t> slots_;        // [rows] of trees; else a row's slot is its position
  std::vector<int32_t> tree_parents_;  // [rows] of trees
  std::vector<uint32_t> logits_rows_;
  std::vector<uint32_t> wanted_by_;  // [logits_rows] index of the asking row
  std::vector<float> inputs_;        // [rows, input_width_] where histories come with hidden states
  uint64_t input_width_ = 0;
  std::vector<BatchSequence> sequences_;
  std::vector<uint32_t> kv_tokens_;               // [sequences]
  std::vector<std::vector<KvTableView>> tables_;  // [groups][sequences]
  std::vector<BatchGroup> group_views_;           // [groups]
  std::vector<KvTableView> looked_at_;            // [groups] of one sequence
  std::vector<uint32_t> sees_to_;                 // [rows] of blocks that see all of themselves
  // [max_sequences · groups] tables that go on in spare blocks.
  std::vector<std::vector<BlockId>> lent_;
  std::vector<float> followed_;  // [rows, vocabulary] of `follow`
  LayerId state_layer_ = 0;      // after the final norm, or before it
  bool wants_hidden_ = false;
  std::vector<const float*> found_, found_hidden_;  // [asking rows]
  // [asking rows, …] where one pass was not enough.
  std::vector<float> logits_, hidden_;
  std::vector<KvMove> moves_;
  std::vector<uint64_t> mask_;  // [ceil(vocabulary/64)] of the row that is drawn from
};

}  // namespace tenon
