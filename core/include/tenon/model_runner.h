// model_runner/2: a second model, next to the one that a pipeline generates with. The configuration
// names it ([drafter] model); it runs on the same device, speaks the same vocabulary, and its K/V
// is a group of the same memory, granted, shared and rolled back together with the target's. A
// drafter with the fact draft.needs = model finds it by HostServices::extension(kModelRunner).
//
//   const auto* table = static_cast<ModelRunner* const*>(host.extension(host.context,
//   kModelRunner));
//
// A drafter holds no K/V of its own and does no bookkeeping: it names histories, and the tokens
// that are not computed yet are computed then.
//
// Threads: every method is [step]. `forward` and `draw` are for use inside Drafter::draft only, and
// for the sequences of its requests: only they have memory then.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

inline constexpr std::string_view kModelRunner = "model_runner/2";

struct RunnerRow {
  SeqId seq = kNoSeq;
  // Every known token, then the drafts so far: at most the slots that were granted, less one.
  std::span<const TokenId> history;
  // For models that continue from the target's hidden states: f32 [rows, hidden], one row for each
  // of the last `rows` tokens of the history, all that are not computed yet; data null = none.
  TensorView hidden;
  uint32_t head = 0;  // of models with several output heads
};

struct RunnerDraw {
  TokenId token = kNoToken;  // kNoToken: the row has no finite logit
  float* probs = nullptr;    // [vocabulary] or null: takes the distribution it was drawn from
};

class ModelRunner {
 public:
  virtual uint32_t vocabulary() const noexcept = 0;
  // Histories may not be longer.
  virtual uint32_t context_tokens() const noexcept = 0;
  // Leading tokens of a history whose K/V is here already; later ones need their hidden states.
  virtual uint32_t computed(SeqId seq, std::span<const TokenId> history) noexcept = 0;
  // Computes the logits after the last token of each row: logits[i] becomes [vocabulary], f32,
  // valid until the next call. At most one row for each sequence and head. If a history differs
  // from that of an earlier call, all tokens from the difference on are computed again.
  // `hidden` is empty, or hidden[i] becomes the state after the same token, f32 [hidden].
  virtual Status forward(std::span<const RunnerRow> rows, std::span<const float*> logits,
                         std::span<const float*> hidden) noexcept = 0;
  // Draws the next token of each row from `logits` as the target's would be drawn: by the
  // pipeline's sampler, with the sequence's parameters and the key of that position.
  virtual Status draw(std::span<const RunnerRow> rows, std::span<const float* const> logits,
                      std::span<RunnerDraw> draws) noexcept = 0;

 protected:
  ~ModelRunner() = default;
};

}  // namespace tenon
