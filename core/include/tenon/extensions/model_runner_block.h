// model_runner_block/1: several tokens drafted by the second model (<tenon/model_runner.h>) in one
// pass, each of which knows its place but not the others.
//
// Token j of a block does not depend on how many were asked for. What a block leaves in the cache
// is not kept.
//
// Threads: as ModelRunner.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// `ModelBlockRunner* const*`: of a head that drafts blocks (P-EAGLE, DFlash, DSpark).
inline constexpr std::string_view kModelRunnerBlock = "model_runner_block/1";

// What one sequence asks for.
struct RunnerBlock {
  SeqId seq = kNoSeq;
  std::span<const TokenId> history;  // as RunnerRow::history, without drafts
  TensorView hidden;                 // as RunnerRow::hidden; with no rows if all are computed
  uint32_t tokens = 0;  // wanted: at most block_tokens(), and at most the slots that were granted
};

// [step]
class ModelBlockRunner {
 public:
  // The most tokens that a block proposes.
  virtual uint32_t block_tokens() const noexcept = 0;
  // Computes the blocks, at most one for each sequence. The tokens of all blocks, in their order:
  // logits[i] becomes [vocabulary], f32, and hidden[i] the state that they were made of, f32
  // [hidden], both valid until the next call of this or of ModelRunner::forward. Errors:
  // invalid_argument for hidden states that are missing, and more tokens than there is room for.
  virtual Status forward_blocks(std::span<const RunnerBlock> blocks, std::span<const float*> logits,
                                std::span<const float*> hidden) noexcept = 0;
  // Whether a token depends on the one before it after all, by what `follow` adds to its logits.
  virtual bool follows() const noexcept = 0;
  // Where follows() or has_confidence(): tokens of the last blocks, each after the token before[i].
  // logits[i], as forward_blocks gave it, becomes that with what follows from before[i], valid
  // until the next call; confidence[i] the chance that the token is kept if the ones before it are,
  // as the head sees it, 1 where it says nothing.
  virtual Status follow(std::span<const TokenId> before, std::span<const float*> logits,
                        std::span<const float* const> hidden,
                        std::span<float> confidence) noexcept = 0;
  // Whether the head says how likely its tokens are to be kept.
  virtual bool has_confidence() const noexcept = 0;

 protected:
  ~ModelBlockRunner() = default;
};

}  // namespace tenon
