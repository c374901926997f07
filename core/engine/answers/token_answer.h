// Tokens, one after the other, each drawn after all that came before it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class TokenAnswer : public AnswerKind {
 public:
  TokenAnswer(EngineContext& context, Sequence& sequence)
      : TokenAnswer(context, sequence,
                    {.own_kv = sequence.request->request.prompt_logprobs, .plain_tokens = true}) {}

  RowUse use_of(uint32_t position) const override;
  uint32_t tops() const override;
  SampleRow row_of(const Step& step, const Share& share, uint32_t i) const override;
  void take(Step& step, Share& share, uint32_t count) override;
  bool at_end(const Step& step, const Share& share) const override;
  void deliver(Step& step, const Share& share) override;
  // Takes a token that is known already, of a step without shares; the scheduler hears only of the
  // end.
  void give(Step& step, TokenId token) {
    sequence_.record.token_ns.push_back(context_.parts.clock->now_ns());
    tokens_.clear();
    tokens_.emplace_back().token = token;
    const std::string* stop = nullptr;
    const std::optional<FinishReason> end = write(token, stop);
    send(step, end, stop);
  }

 protected:
  // For kinds whose tokens come in another order.
  TokenAnswer(EngineContext& context, Sequence& sequence, const AnswerTraits& the_traits)
      : AnswerKind(context, sequence, the_traits) {}

  // Puts the text of the latest token into the stream. Returns why the sample ends with it, if it
  // does, and sets `stop` where that is a stop string.
  std::optional<FinishReason> write(TokenId token, const std::string*& stop);
  // `tokens_` go out, and the sample ends or goes on.
  void hand_over(Step& step, const Share& share, std::optional<FinishReason> end,
                 const std::string* stop);

  std::vector<GeneratedToken> tokens_;  // of the step, to be delivered

 private:
  std::optional<FinishReason> end_by(TokenId token) const;
  bool send(Step& step, std::optional<FinishReason> end, const std::string* stop);
};

}  // namespace tenon
