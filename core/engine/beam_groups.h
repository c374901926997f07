// Beam search in the step loop: the beams of a request are sequences that fork and end as its
// search (beam_search.h) decides.
//
// A group goes on only when every beam has been sampled. One that was sampled before the others
// keeps what came out and takes its last token back, so that to a scheduler it looks like any
// sequence with a token to compute; its K/V is there when the others are ready.
#pragma once

#include <vector>

#include "core/engine/admission.h"
#include "core/engine/context.h"
#include "core/engine/step.h"

namespace tenon {

// Makes a request's first sequence the first beam of a group.
void begin_beam_group(RequestState& state, Sequence& first);
// The most likely tokens that the search must be told of at each row.
uint32_t candidates_per_beam(const RequestState& state, const ModelShape& shape);

class BeamGroups {
 public:
  BeamGroups(EngineContext& context, Admission& admission)
      : context_(context), admission_(admission) {}

  // A beam whose memory was taken would compute everything again, and share nothing any more.
  // Where one beam of its group is up to date, all others fork from that anew.
  void rejoin();
  // Keeps what one beam's row says.
  void take_result(const Step& step, const Share& share);
  // Every group whose beams were all sampled takes a step of its search.
  void advance(Step& step);

 private:
  void advance_group(Step& step, RequestState& state);
  void gather_candidates(const RequestState& state, bool last);
  void keep_answer(RequestState& state, const BeamSearch::Ended& ended);
  void go_on(const Step& step, RequestState& state);
  void extend(const Step& step, Sequence& beam, const BeamCandidate& candidate);
  Sequence* fork(const Sequence& origin, const Sequence& parent, uint32_t tokens);
  void rejoin_group(RequestState& state);
  void finish(Step& step, RequestState& state);
  void deliver(Step& step, RequestState& state, uint32_t sample, BeamAnswer& answer);

  EngineContext& context_;
  Admission& admission_;
  std::vector<RequestState*> advancing_;
  std::vector<BeamCandidate> candidates_;
  std::vector<GeneratedToken> tokens_;
};

}  // namespace tenon
