// Drives an executor the way the step loop does, with block tables of its own: for tests that want
// the logits of some tokens and care about how they are fed.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "core/exec/executor.h"

namespace tenon::test {

using Row = std::vector<float>;   // logits of one token
using Logits = std::vector<Row>;  // of one sequence, in order

// How an executor is loaded.
struct LoadOptions {
  uint32_t block_tokens = 16;
  uint32_t blocks = 64;
  uint32_t max_rows = 256;
  uint32_t max_sequences = 40;
  DType kv_dtype = DType::f32;
  AttentionKernels attention = {};
  NamedState state = {};
  LinearResolver linear = nullptr;
  std::vector<const Adapter*> adapters = {};
  uint64_t graph_bytes = 0;
};

class StepDriver {
 public:
  // Loads `executor`. Both outlive the driver; `model` may be changed in `shape` only.
  StepDriver(Executor& executor, const Model& model, const ModelShape& shape,
             const LoadOptions& options);

  const Status& load_status() const { return load_status_; }

  // A new sequence, named by its index; `adapter` as in BatchSequence.
  size_t begin(uint64_t adapter = 0);
  // The first `tokens` positions of `parent` are shared, not copied. Recurrent states are after
  // every row of a short step, and after the last one of others.
  size_t fork(size_t parent, uint32_t tokens);
  // Forgets the positions after the first `tokens`.
  void roll_back(size_t sequence, uint32_t tokens) { sequences_[sequence].tokens = tokens; }
  std::vector<BlockId>& table(size_t sequence) { return sequences_[sequence].table; }
  BlockId take_block() { return next_block_ = (next_block_ + 7) % static_cast<int>(blocks_); }

  struct Feed {
    size_t sequence;
    std::vector<TokenId> tokens;
  };
  // One step. The logits of all its tokens in order, of every feed's last one, or of none.
  enum class Want : uint8_t { all, last, none };
  Result<Logits> try_step(const std::vector<Feed>& feeds, Want want = Want::all);
  Logits step(const std::vector<Feed>& feeds, Want want = Want::all);
  // One step of rows that form a tree after a sequence's tokens: row i follows row parents[i] of
  // them, or the cache (-1). Logits of all rows. The rows stay stored, one slot each.
  struct Tree {
    size_t sequence;
    std::vector<TokenId> tokens;
    std::vector<int32_t> parents;
  };
  Logits step(const Tree& tree);
  // The slots that tree rows `path` were stored at, moved to the first ones after `base` tokens:
  // the sequence goes on after them.
  void keep_path(size_t sequence, uint32_t base, const std::vector<uint32_t>& path);
  // The hidden states of these rows in the last step, after these layers: [layers][rows].
  void want_hidden(std::vector<uint32_t> rows, std::vector<LayerId> layers) {
    hidden_rows_ = std::move(rows);
    hidden_layers_ = std::move(layers);
  }
  const std::vector<Logits>& hidden() const { return hidden_; }
  // What enters where the next steps' tokens are kNoToken: [rows, hidden].
  void give_inputs(std::vector<float> rows) { inputs_ = std::move(rows); }

  // A new sequence fed in chunks of these sizes, the last one repeated. One row of logits a token.
  Logits feed(const std::vector<TokenId>& tokens, const std::vector<uint32_t>& chunks,
              uint64_t adapter = 0);

 private:
  struct Sequence {
    uint32_t tokens = 0;
    uint64_t adapter = 0;
    std::vector<BlockId> table;
    std::map<uint32_t, BlockId> states = {{0, kNoBlock}};  // by the tokens before them
  };
  // A batch under construction.
  struct Arrays {
    std::vector<TokenId> tokens;
    std::vector<uint32_t> positions, slots, kv_tokens, wanted;
    std::vector<int32_t> parents;
    std::vector<BatchSequence> sequences;
    std::vector<KvTableView> tables, state_tables;
    std::vector<BatchGroup> groups;
    std::deque<std::vector<BlockId>> slots_of;  // what state_tables show
    std::deque<std::vector<uint32_t>> ends_of;
  };
  void grow(Sequence& sequence, uint32_t tokens);
  void add(Arrays& arrays, const Feed& feed, Want want);
  void add_states(Arrays& arrays, Sequence& sequence, uint32_t rows);
  Result<Logits> run(Arrays& arrays);

  Executor& executor_;
  uint32_t block_tokens_;
  uint32_t blocks_;
  uint32_t hidden_size_;
  bool sees_whole_;                      // a diffusion model's rows see all rows of their sequence
  std::vector<KvGroupGeometry> groups_;  // those of tokens are alike and share tables
  std::vector<bool> recurrent_;          // [groups_]
  std::vector<uint32_t> hidden_rows_;
  std::vector<LayerId> hidden_layers_;
  std::vector<Logits> hidden_;
  std::vector<float> inputs_;
  BlockId next_block_ = 3;
  BlockId next_slot_ = 5;
  uint64_t step_id_ = 0;
  std::vector<Sequence> sequences_;
  Status load_status_;
};

// Tokens that repeat nothing obvious.
std::vector<TokenId> some_tokens(uint32_t count, uint32_t vocabulary, uint32_t seed = 1);
// The largest difference, as a fraction of the range of `expected`.
double largest_difference(const Logits& actual, const Logits& expected);

}  // namespace tenon::test
