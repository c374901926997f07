// Tokens in place of a model's, so that strategies have something to schedule, cache and draft.
//
// What follows a token depends on that token and its position alone, as in a model that sees one
// token: the same prompt gives the same answer, whatever the batch, the chunks or the scheduler.
#pragma once

#include <tenon/batch.h>
#include <tenon/types.h>

#include <optional>
#include <span>
#include <vector>

namespace tenon::sim {

class MadeTokens {
 public:
  // `never`: tokens that end a text, which no simulated answer does by itself. With `acceptance` a
  // row is followed by its draft with that probability, whatever the draft is, and otherwise by
  // another token.
  MadeTokens(uint32_t vocabulary, std::vector<TokenId> never, std::optional<double> acceptance);

  TokenId after(TokenId token, uint32_t position) const;
  // [logits_rows] of the batch.
  void draw(const BatchView& batch, std::vector<TokenId>& out) const;

 private:
  // The row that follows `row` first as a draft of `sequence`; `rows` where none does.
  uint32_t draft_after(const BatchView& batch, const BatchSequence& sequence, uint32_t row) const;

  uint32_t vocabulary_;
  std::vector<TokenId> never_;
  std::optional<double> acceptance_;
};

}  // namespace tenon::sim
