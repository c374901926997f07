// What a caller asks of the engine, and what it gets back.
#pragma once

#include <tenon/sampler.h>
#include <tenon/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/vendor_setting.h"
#include "core/engine/records/metrics.h"

namespace tenon {

namespace grammar {
class Grammar;
}
class KvExport;
class KvImport;

enum class FinishReason : uint8_t {
  length,     // max_tokens, or the context is full
  stop,       // a stop string or a stop token
  eos,        // the model's end of text
  pooled,     // an embedding was wanted, and is made
  cancelled,  // the caller's wish
  error,      // `message` says why
  uncached,   // less of the prompt was found than Request::cache_hit_threshold asks for
};
std::string_view finish_reason_name(FinishReason reason);

// Whose fault an error is: what the request asks for cannot be done, or something failed here.
enum class Blame : uint8_t { server = 0, request = 1 };

struct GeneratedToken {
  TokenId token = kNoToken;
  float logprob = 0.0f;               // only where logprobs were asked for
  uint32_t rank = 0;                  // likewise; 1 = no token was more likely
  std::span<const TokenLogprob> top;  // SamplingParams::logprobs entries, most likely first
};

// New output of one sample. Text may lag behind tokens: a character can need several tokens, and
// what could be the beginning of a stop string is held back. Borrowed for the call.
struct RequestDelta {
  RequestId request = 0;
  uint32_t sample = 0;
  std::string_view text;
  std::span<const GeneratedToken> tokens;
  const RequestRecord* record = nullptr;  // of the sample, as far as it is; borrowed for the call
};

// Log probabilities of prompt tokens, in order, where Request::prompt_logprobs asks for them. The
// first token has none, since nothing stands before it.
struct PromptDelta {
  RequestId request = 0;
  uint32_t position = 0;  // of the first of `tokens`
  std::span<const GeneratedToken> tokens;
};

// What a request with Request::pooling gets, before its end. Borrowed for the call.
struct Embedding {
  RequestId request = 0;
  std::span<const float> values;  // [hidden]
};

struct RequestEnd {
  RequestId request = 0;
  uint32_t sample = 0;
  FinishReason reason = FinishReason::length;
  std::string_view message;  // error: what went wrong
  std::string_view stop;     // the stop string that matched, if one did
  const RequestRecord* record = nullptr;
  Blame blame = Blame::server;  // error
};

// Where output goes. Called on the step thread; must return soon and not call back into `step`.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void on_delta(const RequestDelta& delta) = 0;
  virtual void on_prompt(const PromptDelta&) {}    // before the first delta
  virtual void on_embedding(const Embedding&) {}   // instead of deltas
  virtual void on_end(const RequestEnd& end) = 0;  // once a sample, after its last delta
};

// What the spans of SamplingParams name, kept by the request.
struct SamplingLists {
  std::vector<LogitBias> logit_bias;
  std::vector<TokenId> allowed_tokens;  // empty = all
  std::vector<std::vector<TokenId>> bad_words;
  std::vector<TokenId> dry_breakers;
  std::vector<SamplingStage> order;   // empty = the sampler's own
  std::vector<VendorSetting> params;  // of third parties, each key once

  bool has_bans() const { return !allowed_tokens.empty() || !bad_words.empty(); }
};

// When a beam search ends, as Hugging Face transformers has it (`early_stopping`).
enum class BeamStop : uint8_t {
  estimate = 0,  // false: when no running beam beats the worst kept answer at its present length
  full = 1,      // true: as soon as there are as many answers as beams
  never = 2,     // "never": when no running beam could beat it at any length
};

// Which of a prompt's hidden states, behind the final norm, make an embedding: that of the last
// token, the mean of all, or that of the first (where models have a CLS token).
enum class Pooling : uint8_t { none = 0, last = 1, mean = 2, first = 3 };

// Which masks of a diffusion model's answer become tokens in a step: those whose tokens the model
// gives the highest probability, or any.
enum class Remasking : uint8_t { low_confidence = 0, random = 1 };

struct Request {
  std::vector<TokenId> prompt;
  // Not none: an embedding is wanted instead of an answer. Nothing is sampled, and what belongs to
  // answers is refused.
  Pooling pooling = Pooling::none;
  bool normalise = false;   // the embedding, to length 1
  std::string adapter;      // a low-rank adapter by its name; empty or "none" = the base model
  SamplingParams sampling;  // its spans are taken from `lists`
  SamplingLists lists;
  uint32_t samples = 1;  // continuations to deliver; share the prompt's K/V
  // Continuations to compute, of which the `samples` with the highest mean log probability are
  // delivered, best first, when all have ended. 0 = as many as `samples`, delivered as they come.
  uint32_t best_of = 0;
  // Beam search with so many beams: the `samples` best answers are delivered, best first, at the
  // end. Sampling parameters that change the distribution have no place in it. 0 = none.
  uint32_t beams = 0;
  float length_penalty = 1.0f;  // answers rank by Σ logprob / length^penalty
  BeamStop beam_stop = BeamStop::estimate;
  uint32_t max_tokens = 0;  // a sample; 0 = as many as fit
  // Of diffusion models alone: the answer has exactly `max_tokens` (0: 128, or what fits), which
  // are made in blocks of `block_length` (0: all at once) and in as many `steps` in all (0: one a
  // token).
  uint32_t block_length = 0;
  uint32_t steps = 0;
  std::optional<Remasking> remasking = {};  // low_confidence
  uint32_t min_tokens = 0;                  // before them neither end of text nor a stop counts
  bool ignore_eos = false;                  // end of text is a token like any other
  std::vector<std::string> stop;            // output ends before the first of these
  std::vector<TokenId> stop_tokens;         // output ends with the first of these; it gives no text
  bool include_stop = false;                // … but the text of a stop belongs to the output
  bool prompt_logprobs = false;             // the prompt is scored too, with as many alternatives
  int32_t priority = 0;                     // lower runs first, where the scheduler looks at it
  uint32_t tenant = 0;
  int64_t deadline_ns = 0;  // wanted done so long after its arrival, likewise; 0 = whenever
  uint64_t cache_salt = 0;  // requests of different salts share no K/V
  // The share of the prompt's tokens, 0 to 1, that the KV cache must have when the request arrives,
  // found or being computed by others; with less it ends as `uncached`, and nothing is computed.
  float cache_hit_threshold = 0.0f;
  // Another worker goes on from this prompt, whose K/V it gets; or has computed its K/V, or does so
  // (core/transfer). Null: neither.
  std::shared_ptr<KvExport> kv_export;
  std::shared_ptr<KvImport> kv_import;
  int64_t arrival_ns = -1;  // on the engine's clock; negative = when it is submitted
  // The answer follows it, from its first token on; it may end where the grammar is satisfied.
  // Null: any text. Whoever submits has compiled it (core/grammar/grammar.h).
  std::shared_ptr<const grammar::Grammar> grammar;
  std::shared_ptr<RequestSink> sink;
};

// A sink that keeps everything, for callers that wait for the end.
class ResultSink final : public RequestSink {
 public:
  struct Token {
    TokenId token;
    float logprob;
    uint32_t rank;
    std::vector<TokenLogprob> top;
  };
  struct Sample {
    std::string text;
    std::vector<Token> tokens;
    bool ended = false;
    FinishReason reason = FinishReason::length;
    std::string message;
    std::string stop;
    RequestRecord record;
    Blame blame = Blame::server;

    std::vector<TokenId> ids() const;
  };

  void on_delta(const RequestDelta& delta) override;
  void on_prompt(const PromptDelta& delta) override;
  void on_embedding(const Embedding& embedding) override;
  void on_end(const RequestEnd& end) override;
  // In the order of sample numbers; grows as samples begin to speak.
  const std::vector<Sample>& samples() const { return samples_; }
  // [hidden], where one was asked for.
  const std::vector<float>& embedding() const { return embedding_; }
  // Of the prompt's tokens from the second on, where they were asked for.
  const std::vector<Token>& prompt() const { return prompt_; }

 private:
  Sample& at(uint32_t sample);
  std::vector<Sample> samples_;
  std::vector<Token> prompt_;
  std::vector<float> embedding_;
};

// Turns one sample's tokens into text as they come.
class TextDecoder {
 public:
  virtual ~TextDecoder() = default;
  // Appends what `token` completes; incomplete characters stay inside.
  virtual void push(TokenId token, std::string& text) = 0;
  // Appends what is still inside.
  virtual void finish(std::string& text) = 0;
};

}  // namespace tenon
