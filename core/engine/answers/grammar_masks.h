// Which tokens may be drawn where a request follows a grammar: a mask for each row of a step, made
// while the device computes it.
#pragma once

#include <span>
#include <string>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class GrammarMasks {
 public:
  explicit GrammarMasks(EngineContext& context) : context_(context) {}

  // Of all rows of the step, behind launch and in front of collect. What is wrong with one is told
  // by `fail`.
  void fill(Step& step);
  // Ends the requests whose grammar leaves nothing to draw.
  void fail(Step& step);

 private:
  void fill_share(Step& step, Share& share);
  std::string fill_row(Sequence& sequence, std::span<uint64_t> mask, uint32_t position);

  EngineContext& context_;
};

// How many of these drafts, one behind the other, the sequence's grammar allows.
uint32_t legal_drafts(Sequence& sequence, std::span<const TokenId> drafts);
// The grammar hears of a token that was drawn. Error: it does not allow that.
Status follow_grammar(Sequence& sequence, TokenId token);
// The answer is whole, nothing may follow it, and the model has no token that says so.
bool ends_with_grammar(const Sequence& sequence);

}  // namespace tenon
