// The end of a step: what stays in the cache, and what goes out.
#pragma once

#include <optional>
#include <vector>

#include "core/engine/answers/pooled_outputs.h"
#include "core/engine/step/admission.h"
#include "core/engine/step/context.h"
#include "core/engine/step/drafting.h"
#include "core/engine/step/step.h"

namespace tenon {

class Finishing {
 public:
  Finishing(EngineContext& context, Admission& admission, Drafting& drafting)
      : context_(context), admission_(admission), drafting_(drafting), pooled_outputs_(context) {}

  // Takes what embeddings are made of out of the step's output.
  void gather(const Step& step) { pooled_outputs_.gather(step); }
  // Known tokens that were computed and accepted drafts stay; slots of other drafts are given back.
  // Samples that forked find their place.
  void resolve(Step& step);
  // Notes, before a result is delivered, whether its token ends the sample whatever its text.
  void look_for_end(const Step& step, const Share& share);
  // Ids become text and go out; samples end; scheduler and drafter hear of what came out.
  void deliver(Step& step);

 private:
  Status score_share(const Step& step, const Share& share);
  Status resolve_share(const Share& share);
  void deliver_share(Step& step, const Share& share);
  void deliver_canvas(Step& step, const Share& share);
  // `tokens_` go out, and the sample ends or goes on.
  void hand_over(Step& step, const Share& share, std::optional<FinishReason> end,
                 const std::string* stop);
  static std::optional<FinishReason> ends_with(const Sequence& sequence, uint32_t generated,
                                               TokenId token);
  std::optional<FinishReason> take_token(Sequence& sequence, TokenId token,
                                         const std::string*& stop);

  EngineContext& context_;
  Admission& admission_;
  Drafting& drafting_;
  PooledOutputs pooled_outputs_;
  std::vector<uint32_t> kept_;
  std::vector<GeneratedToken> tokens_;
};

}  // namespace tenon
