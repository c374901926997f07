// Sampler: turns a row of logits into a token, or judges draft tokens.
//
// All randomness comes from a key (seed, sample, position, purpose): the same row with the same key
// gives the same token in any batch, on any thread, after any preemption. <tenon/sdk/random.h> has
// the generator that our samplers use.
//
// A sampler may assume that logits are finite or -inf, or NaN after a fault upstream: NaN counts as
// -inf, and a row without any finite logit fails (only) its own request.
//
// Threads: `begin` and `end` are [step]; `sample` and `verify` are [any] and may run at the same
// time for disjoint rows.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

// What a request asked for. Defaults leave the distribution as it is.
struct SamplingParams {
  float temperature = 1.0f;  // 0 = greedy: the most likely token, lowest id among equals
  uint32_t top_k = 0;        // keep the k most likely; 0 = all
  float top_p = 1.0f;        // keep the smallest set whose probability reaches p
  uint64_t seed = 0;
  uint32_t logprobs = 0;  // most likely tokens to report at each position
};

enum class RandomPurpose : uint32_t { sample = 0, accept = 1, recover = 2 };
struct RandomKey {
  uint64_t seed = 0;
  uint32_t sample = 0;    // which of the request's samples
  uint32_t position = 0;  // of the token to be drawn
};

struct SampleRow {
  SeqId seq = kNoSeq;
  const float* logits = nullptr;  // [vocabulary], f32
  uint32_t vocabulary = 0;
  std::span<const TokenId> history;  // every known token before the one to draw
  uint32_t prompt_tokens = 0;        // how many of them are the prompt
  RandomKey key;
  const uint64_t* allowed = nullptr;  // [ceil(vocabulary/64)] bits, low bit first; null = all
};

struct TokenLogprob {
  TokenId token = kNoToken;
  float logprob = 0.0f;
};

// `top` is the caller's room for SamplingParams::logprobs entries, most likely first; log
// probabilities are those of the model (softmax of the raw logits), before any filter.
struct SampleResult {
  TokenId token = kNoToken;  // kNoToken: this row failed
  float logprob = 0.0f;      // of `token`; 0 where the request asked for no logprobs
  std::span<TokenLogprob> top;
  uint32_t top_count = 0;
};

// Drafts of one sequence: rows[i] has the logits after drafts[0 … i-1], so there is one more row
// than drafts. Histories include the drafts before them.
struct VerifyRows {
  std::span<const SampleRow> rows;  // [drafts + 1]
  std::span<const TokenId> drafts;
  const float* draft_probs = nullptr;  // [drafts, vocabulary] or null when the drafter has none
};

// accepted leading drafts, then one token of the target's own: tokens[0 … accepted].
struct VerifyResult {
  std::span<SampleResult> tokens;  // room for drafts + 1
  uint32_t count = 0;              // accepted + 1; 0 = the rows failed
};

class Sampler {
 public:
  virtual Status begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept = 0;
  virtual void end(SeqId seq) noexcept = 0;
  // results[i] belongs to rows[i].
  virtual Status sample(std::span<const SampleRow> rows,
                        std::span<SampleResult> results) noexcept = 0;
  virtual Status verify(std::span<const VerifyRows> rows,
                        std::span<VerifyResult> results) noexcept = 0;

 protected:
  ~Sampler() = default;
};

}  // namespace tenon
