// Beam search in the step loop: the beams of a request are sequences that fork and end as its
// search (beam_search.h) decides.
//
// A group goes on only when every beam has been sampled. One that was sampled before the others
// keeps what came out and is held back: no scheduler sees it until then. Memory is the whole
// group's (beam_memory.h): a group of which one beam has none loses it all, and comes back as one.
#pragma once

#include <vector>

#include "core/engine/answers/beams/beam_answer.h"

namespace tenon {

// The most likely tokens that the search must be told of at each row.
uint32_t candidates_per_beam(const RequestState& state, const ModelShape& shape);

class BeamGroups {
 public:
  explicit BeamGroups(EngineContext& context) : context_(context) {}

  // The beams of a group whose trunk is computed fork from it anew.
  void rejoin(RequestState& state);
  // Keeps what one beam's row says.
  void take_result(const Step& step, const Share& share);
  // A group whose beams were all sampled takes a step of its search.
  void advance(Step& step, RequestState& state);

 private:
  void take_allowed(const Step& step, const Share& share);
  void keep_result(const Step& step, const Share& share, std::span<const TokenLogprob> top);
  void gather_candidates(const RequestState& state, bool last);
  void keep_answer(RequestState& state, const BeamSearch::Ended& ended);
  void go_on(const Step& step, RequestState& state);
  void extend(const Step& step, Sequence& beam, const BeamCandidate& candidate);
  Sequence* fork(const Sequence& parent);
  void release_unless_whole(RequestState& state);
  void finish(Step& step, RequestState& state);
  void deliver(Step& step, RequestState& state, uint32_t sample, KeptAnswer& answer);

  EngineContext& context_;
  std::vector<BeamCandidate> candidates_;
  std::vector<GeneratedToken> tokens_;
};

}  // namespace tenon
