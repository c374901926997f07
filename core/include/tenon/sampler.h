// Sampler: turns a row of logits into a token, or judges draft tokens.
//
// All randomness comes from a key (seed, sample, position, purpose): the same row with the same key
// gives the same token in any batch, on any thread, after any preemption. <tenon/sdk/random.h> has
// the generator that our samplers use.
//
// A sampler may assume that logits are finite or -inf, or NaN after a fault upstream: NaN counts as
// -inf, and a row without any finite logit fails (only) its own request.
//
// Threads: `begin` and `end` are [step]; the others are [any] and may run at the same time for rows
// of different sequences.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// The stages that a row passes between the model's logits and the draw, one word each. Bias,
// watermark and bans always come first; then the stages of `SamplingParams::order`.
enum class SamplingStage : uint8_t {
  penalties = 0,    // repetition, presence, frequency
  dry = 1,          // against repeated sequences
  temperature = 2,  // dynamic or not
  top_n_sigma = 3,
  top_k = 4,
  typical_p = 5,
  top_p = 6,
  min_p = 7,
  xtc = 8,
};
inline constexpr uint32_t kSamplingStages = 9;
constexpr std::string_view sampling_stage_name(SamplingStage stage) noexcept {
  constexpr std::string_view kNames[kSamplingStages] = {"penalties",   "dry",   "temperature",
                                                        "top_n_sigma", "top_k", "typical_p",
                                                        "top_p",       "min_p", "xtc"};
  return static_cast<uint32_t>(stage) < kSamplingStages ? kNames[static_cast<uint32_t>(stage)]
                                                        : "?";
}

// A sampling parameter of a third party. The sampler names the keys that it takes, with their
// vendor prefix, in the fact sampler.params; requests with other keys are refused before `begin`.
struct VendorParam {
  std::string_view key;  // "acme.heat"
  bool is_text = false;  // else `number`
  double number = 0.0;
  std::string_view text;
};

struct LogitBias {
  TokenId token = kNoToken;
  float bias = 0.0f;  // added to the raw logit
};

// What a request asked for. Defaults leave the distribution as it is. Spans are borrowed while
// `begin` runs: a sampler copies what it needs. The engine refuses values out of range and token
// ids outside the vocabulary before `begin`.
struct SamplingParams {
  float temperature = 1.0f;  // 0 = greedy: the most likely token, lowest id among equals
  uint32_t top_k = 0;        // keep the k most likely; 0 = all
  float top_p = 1.0f;        // keep the smallest set whose probability reaches p
  float min_p = 0.0f;        // keep what has this share of the most likely's probability; 0 = all
  float typical_p = 1.0f;    // keep the most typical until their probability exceeds p; 1 = all
  float top_n_sigma = 0.0f;  // keep logits within n standard deviations of the highest; 0 = all
  float xtc_probability = 0.0f;  // how often the most likely tokens are left out
  float xtc_threshold = 0.1f;    // … all that reach this but the least likely one
  // The entropy moves the temperature by up to `range` to either side; 0 = it stays.
  float dynamic_temperature_range = 0.0f;
  float dynamic_temperature_exponent = 1.0f;

  float repetition_penalty = 1.0f;   // divides (or, below 0, multiplies) logits of seen tokens
  float presence_penalty = 0.0f;     // subtracted for each token that was generated before
  float frequency_penalty = 0.0f;    // subtracted as often as it was generated
  uint32_t penalty_last_tokens = 0;  // known tokens that penalties look back on; 0 = all
  float dry_multiplier = 0.0f;       // 0 = off
  float dry_base = 1.75f;
  uint32_t dry_allowed_length = 2;             // longest repetition without a penalty
  uint32_t dry_last_tokens = 0;                // known tokens looked back on; 0 = all
  std::span<const TokenId> dry_breakers = {};  // a repetition does not reach beyond one of these

  uint32_t mirostat = 0;  // 1 or 2: in place of every stage that cuts; 0 = off
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;

  float watermark_delta = 0.0f;  // added to green tokens' logits; 0 = off
  float watermark_gamma = 0.25f;
  uint64_t watermark_key = 0;
  uint32_t watermark_context = 1;  // tokens before that choose the green ones

  std::span<const LogitBias> logit_bias = {};
  std::span<const TokenId> allowed_tokens = {};              // empty = all
  std::span<const std::span<const TokenId>> bad_words = {};  // never generated, each as a whole
  // Stages not named are left out; empty = the sampler's own order.
  std::span<const SamplingStage> order = {};
  std::span<const VendorParam> vendor = {};  // each key once

  uint64_t seed = 0;
  uint32_t logprobs = 0;  // most likely tokens to report at each position
};

enum class RandomPurpose : uint32_t {
  sample = 0,
  accept = 1,   // of a draft, under verification by rejection
  recover = 2,  // the token in place of a rejected draft
  draft = 3,    // a drafter's own draw
  exclude = 4,  // whether XTC takes effect
};
struct RandomKey {
  uint64_t seed = 0;
  uint32_t sample = 0;    // which of the request's samples
  uint32_t position = 0;  // of the token to be drawn
};

struct SampleRow {
  SeqId seq = kNoSeq;
  const float* logits = nullptr;  // [vocabulary], f32
  uint32_t vocabulary = 0;
  // Every known token before the one to draw. All are ids of the vocabulary: an input that is no
  // token stands here as the model's placeholder.
  std::span<const TokenId> history;
  uint32_t prompt_tokens = 0;  // how many of them are the prompt
  RandomKey key;
  const uint64_t* allowed = nullptr;  // [ceil(vocabulary/64)] bits, low bit first; null = all
  // Not kNoToken: nothing is drawn, the result is this token (as for tokens of the prompt).
  TokenId score = kNoToken;
};

struct TokenLogprob {
  TokenId token = kNoToken;
  float logprob = 0.0f;
};

// `top` is the caller's room: as many tokens, most likely first, are reported as it holds. Log
// probabilities are those of the model (softmax of the raw logits), before anything is applied.
struct SampleResult {
  TokenId token = kNoToken;  // kNoToken: this row failed
  float logprob = 0.0f;      // of `token`; 0 unless logprobs, `top` or a score was asked for
  uint32_t rank = 0;         // 1 = no token is more likely; 0 if `logprob` is not given
  std::span<TokenLogprob> top;
  uint32_t top_count = 0;
};

// Drafts of one sequence: rows[0] has the logits after the known tokens, rows[d + 1] those after
// draft d, so there is one more row than drafts. Of a chain, a row's history includes the drafts
// before it; of a tree (`parents`), every history is what is known, and the sampler adds the drafts
// on the way to the row.
struct VerifyRows {
  std::span<const SampleRow> rows;  // [drafts + 1]
  std::span<const TokenId> drafts;
  // [drafts]: the draft, an earlier one, that each follows; -1 = what is known. Empty: each follows
  // the one before it. Siblings are different tokens. Only where sampler.trees is agreed.
  std::span<const int32_t> parents;
  // [drafts, vocabulary]: what each draft was drawn from, of siblings without earlier ones; null if
  // the drafter has none. With it, drafts are verified by rejection (sampler.verify, .trees).
  const float* draft_probs = nullptr;
};

// The accepted drafts from the first on, then one token of the target's own: tokens[0 … accepted].
struct VerifyResult {
  std::span<SampleResult> tokens;  // room for drafts + 1
  // Room for as many as there are drafts: path[i] is the draft that became tokens[i]. May be empty
  // if drafts are a chain, whose accepted ones are the leading ones.
  std::span<uint32_t> path;
  uint32_t count = 0;  // accepted + 1; 0 = the rows failed
};

class Sampler {
 public:
  virtual Status begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept = 0;
  virtual Status end(SeqId seq) noexcept = 0;
  // results[i] belongs to rows[i].
  virtual Status sample(std::span<const SampleRow> rows,
                        std::span<SampleResult> results) noexcept = 0;
  virtual Status verify(std::span<const VerifyRows> rows,
                        std::span<VerifyResult> results) noexcept = 0;
  // What a row would be drawn from, after every bias, ban and stage: sums to 1, or is all zero
  // when nothing is left to draw. `probs` is [vocabulary]. For drafters, which draw from their own
  // logits with the target's sequence, history and key, so that both go through the same filters;
  // never changes what the sequence will draw.
  virtual Status distribution(const SampleRow& row, std::span<float> probs) noexcept = 0;

 protected:
  ~Sampler() = default;
};

}  // namespace tenon
