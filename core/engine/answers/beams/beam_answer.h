// A beam: one of the sequences of a search, which fork and end as that decides (beam_groups.h).
#pragma once

#include <string>
#include <vector>

#include "core/engine/answers/beams/beam_search.h"
#include "core/engine/answers/token_answer.h"

namespace tenon {

// A beam's way so far, and what its latest row says comes next.
struct BeamPath {
  using Token = ResultSink::Token;
  std::vector<Token> tokens;  // generated
  double sum = 0.0;           // of their log probabilities
  bool sampled = false;       // `top` and `digest` are those after all known tokens
  std::vector<TokenLogprob> top;
  uint64_t digest = 0;
};

// An answer that a beam search keeps.
struct KeptAnswer {
  uint64_t number = 0;
  std::vector<BeamPath::Token> tokens;
  FinishReason reason = FinishReason::length;
  RequestRecord record;
};

// What the beams of a request share.
struct BeamGroup {
  BeamSearch search;
  std::vector<Sequence*> running;  // in the order of the search
  std::vector<KeptAnswer> answers;
  bool ready = false;  // all running ones were sampled
  // Not null: their memory was taken, and this one computes what all have in common.
  Sequence* trunk = nullptr;
};

class BeamAnswer final : public TokenAnswer {
 public:
  BeamAnswer(EngineContext& context, Sequence& sequence, BeamPath its_path);

  BeamPath path;

  void before_plan() override;
  // It can only wait for others of its group.
  bool held_back() const override;
  uint32_t rows_ahead() const override;
  std::span<Sequence* const> group() const override;
  uint64_t fork_tokens(uint32_t block_tokens) const override;
  Status release() override;
  uint32_t tops() const override;
  // Keeps what its row says.
  void take(Step& step, Share& share, uint32_t count) override;
  // The first beam of a group of which all were sampled takes the step of the search.
  void advance(Step& step) override;
};

// The path of a sequence that is a beam.
inline BeamPath& path_of(const Sequence& beam) {
  return static_cast<BeamAnswer&>(*beam.answer).path;
}

// Makes a request's first sequence, which becomes a beam, the first of a group.
void begin_beam_group(RequestState& state, Sequence& first);

}  // namespace tenon
