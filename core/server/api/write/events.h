// What an engine said about a request, kept so that it can be written down on another thread.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/engine/requests/request.h"

namespace tenon::api {

struct AnswerToken {
  TokenId id = kNoToken;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top = {};  // most likely first
  uint32_t rank = 0;                   // 1 = no token was more likely; 0 = not known
};

struct AnswerEvent {
  enum class Kind : uint8_t { prompt, delta, end };
  Kind kind = Kind::delta;
  uint32_t prompt = 0;       // which of the call's prompts
  uint32_t sample = 0;       // of it
  std::string text;          // delta
  std::vector<TokenId> ids;  // delta: the tokens that came with the text
  // delta, prompt: the same with their probabilities, where somebody asked for them
  std::vector<AnswerToken> tokens;
  // end
  FinishReason reason = FinishReason::length;
  std::string message;  // reason error: what went wrong
  Blame blame = Blame::server;
  std::string stop;         // the stop string that matched
  bool is_aborted = false;  // reason cancelled: as its sender wished
  bool is_lost = false;     // reason error: the engine is gone, and another try may find one
  uint32_t generated_tokens = 0;
  // delta, end
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;  // of the prompt

  // What it takes in a queue, about.
  size_t bytes() const {
    size_t sum = sizeof(AnswerEvent) + text.size() + message.size() + ids.size() * sizeof(TokenId);
    for (const AnswerToken& token : tokens) {
      sum += sizeof(AnswerToken) + token.top.size() * sizeof(TokenLogprob);
    }
    return sum;
  }
};

// The bytes of one token.
using TokenText = std::function<std::string(TokenId)>;

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;  // of all samples
  uint64_t cached_tokens = 0;
  uint64_t reasoning_tokens = 0;  // of the generated ones
};

// Counts as deltas and ends come in: a prompt once, whatever its samples.
class UsageCount {
 public:
  void add(const AnswerEvent& event);
  Usage usage() const;

 private:
  struct Prompt {
    uint32_t tokens = 0;
    uint32_t cached = 0;
    std::vector<uint64_t> generated = {};  // of each sample
  };
  std::vector<Prompt> prompts_;
  uint64_t generated_ = 0;  // in all
};

}  // namespace tenon::api
