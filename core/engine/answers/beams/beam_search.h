// Beam search over candidates: which beams go on, which answers are kept, and when it is over.
// Knows no sequences and no memory; core/engine/answers/beams/beam_groups.h moves those.
//
// The rules are those of Hugging Face transformers: of the best candidates, as many as there are
// beams go on, those that do not end; one that ends is an answer if it is among the first
// `beams`; the best `beams` answers are kept, by Σ logprob / length^penalty.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/requests/request.h"

namespace tenon {

// One beam with one more token.
struct BeamCandidate {
  uint32_t beam = 0;   // its place among the running ones
  uint32_t entry = 0;  // … and the token's among that beam's most likely
  TokenId token = kNoToken;
  double sum = 0.0;  // of log probabilities, this token's included
  bool ends = false;
};

class BeamSearch {
 public:
  struct Rules {
    uint32_t beams = 1;
    double length_penalty = 1.0;
    BeamStop stop = BeamStop::estimate;
    uint32_t limit_tokens = 0;  // that an answer can have
  };
  explicit BeamSearch(const Rules& rules) : rules_(rules) {}

  // The most likely tokens that must be known of each beam, so that enough go on when all of
  // `ending_tokens` come first.
  uint32_t candidates_per_beam(uint32_t ending_tokens) const;

  // One step: `length` is the number of tokens in an answer that ends now. Sorts `candidates`.
  void advance(std::vector<BeamCandidate>& candidates, uint32_t length);

  // What the latest step decided, best first. At most `beams` go on.
  std::span<const BeamCandidate> next() const { return next_; }
  // Answers of the latest step, and where each came to stand: `kept()[slot]`. Those that were too
  // bad are not among them.
  struct Ended {
    BeamCandidate candidate;
    uint64_t answer = 0;  // its number
  };
  std::span<const Ended> ended() const { return ended_; }

  struct Kept {
    double score = 0.0;
    uint64_t answer = 0;
  };
  // The best answers so far, best first.
  std::span<const Kept> kept() const { return kept_; }
  bool done() const { return done_; }

 private:
  double score(double sum, uint32_t length) const;
  void keep(const BeamCandidate& candidate, uint32_t length);
  bool may_improve(uint32_t length) const;

  Rules rules_;
  std::vector<BeamCandidate> next_;
  std::vector<Ended> ended_;
  std::vector<Kept> kept_;
  uint64_t answers_ = 0;
  bool done_ = false;
};

}  // namespace tenon
