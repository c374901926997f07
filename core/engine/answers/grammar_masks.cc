#include "core/engine/answers/grammar_masks.h"

#include <algorithm>

#include "core/engine/answers/permitted.h"

namespace tenon {

using grammar::Matcher;

void GrammarMasks::fill(Step& step) {
  const auto follows = [](const Share& share) {
    return share.logits_rows > 0 && share.sequence->grammar.binds() &&
           share.sequence->state != SequenceState::ended;
  };
  step.mask_words = (uint64_t{context_.parts.shape->vocabulary} + 63) / 64;
  step.mask_faults.clear();
  size_t rows = 0;
  for (Share& share : step.shares) {
    share.masked = follows(share);
    if (!share.masked) continue;
    share.first_mask = static_cast<uint32_t>(rows);
    rows += share.logits_rows;
  }
  if (rows == 0) return;
  step.masks.resize(rows * step.mask_words);
  for (Share& share : step.shares) {
    if (share.masked) fill_share(step, share);
  }
}

void GrammarMasks::fill_share(Step& step, Share& share) {
  Sequence& sequence = *share.sequence;
  Matcher& matcher = sequence.grammar.matcher();
  const auto row = [&](size_t i) {
    return std::span(step.masks).subspan((share.first_mask + i) * step.mask_words, step.mask_words);
  };
  std::string fault = fill_row(sequence, row(0), sequence.known);
  if (!fault.empty()) step.mask_faults.emplace_back(&sequence, std::move(fault));
  for (uint32_t draft = 0; draft < share.drafts; ++draft) {
    // The drafts on the way to this one, itself last.
    std::vector<uint32_t> way;
    for (auto at = static_cast<int32_t>(draft); at >= 0;) {
      const auto index = static_cast<uint32_t>(at);
      way.push_back(index);
      at = share.parents.empty() ? at - 1 : share.parents[index];
    }
    size_t taken = 0;
    for (auto at = way.rbegin(); at != way.rend(); ++at, ++taken) {
      if (!matcher.accept(sequence.tokens[sequence.known + *at])) break;
    }
    // Behind a draft that is not allowed, or that ends the answer, nothing will be drawn.
    const std::span<uint64_t> mask = row(draft + 1u);
    std::fill(mask.begin(), mask.end(), ~uint64_t{0});
    if (taken == way.size() && !matcher.has_ended()) {
      // One that leaves nothing fails its row alone, when drafts get as far.
      const uint32_t position = sequence.known + static_cast<uint32_t>(taken);
      (void)fill_row(sequence, mask, position);
      // What is drawn behind a whole answer is dropped.
      if (sequence.grammar.ends()) std::fill(mask.begin(), mask.end(), ~uint64_t{0});
    }
    matcher.rollback(taken);
  }
}

// What is wrong with it, if anything.
std::string GrammarMasks::fill_row(Sequence& sequence, std::span<uint64_t> mask,
                                   uint32_t position) {
  const RequestState& request = *sequence.request;
  const EndRules rules{position - sequence.prompt_tokens >= request.request.min_tokens,
                       request.not_ending, request.permitted};
  if (Status status = fill_allowed(sequence.grammar.matcher(), rules, mask); !status.ok()) {
    return message_of(status);
  }
  return is_empty(mask) ? form_dead_end(sequence.grammar.matcher(), position, mask) : std::string();
}

void GrammarMasks::fail(Step& step) {
  for (const auto& [sequence, fault] : step.mask_faults) {
    if (sequence->state == SequenceState::ended) continue;
    context_.refuse_request(*sequence->request, fault);
  }
  step.mask_faults.clear();
}

}  // namespace tenon
