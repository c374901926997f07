// model_runner_tree/1: a tree of drafts, computed by the second model (<tenon/model_runner.h>).
//
// A pass computes all rows that it is given, in slots after the history. What an earlier pass left
// there is not seen, so a pass for a further level is given the rows on the way to it once more.
// A row has, bit for bit, the logits of its path computed as a chain.
//
// Threads: as ModelRunner.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// `ModelTreeRunner* const*`: for drafters whose drafts form a tree.
inline constexpr std::string_view kModelRunnerTree = "model_runner_tree/1";

// The tree of one sequence.
struct RunnerTree {
  SeqId seq = kNoSeq;
  // As RunnerRow::history, without drafts; ModelRunner::forward has computed all of it.
  std::span<const TokenId> history;
  std::span<const TokenId> tokens;   // [nodes], at most the slots that were granted
  std::span<const int32_t> parents;  // [nodes] the earlier node that each follows; -1 = the history
  std::span<const uint8_t> wanted;   // [nodes] whether its logits are
  // For models that continue from hidden states: f32 [nodes, hidden], what each continues from.
  TensorView hidden;
};

// The second model, asked for trees.
class ModelTreeRunner {
 public:
  // The wanted nodes of all trees, in their order: logits[i] becomes [vocabulary], f32, valid until
  // the next call of this or of ModelRunner::forward. `hidden` is empty, or hidden[i] becomes the
  // state after the same node, f32 [hidden]. Errors: invalid_argument for a history that is not
  // computed, a node that follows none before it, and more nodes than there is room for.
  virtual Status forward_tree(std::span<const RunnerTree> trees, std::span<const float*> logits,
                              std::span<const float*> hidden) noexcept = 0;

 protected:
  ~ModelTreeRunner() = default;
};

}  // namespace tenon
