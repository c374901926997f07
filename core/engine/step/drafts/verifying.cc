#include "core/engine/step/drafts/verifying.h"

#include "core/engine/answers/row_draws.h"

namespace tenon {

void Verifying::verify(Step& step, std::vector<Share*>& shares) {
  rows_.clear();
  results_.clear();
  // A sample of the same request may have taken one along.
  std::erase_if(shares,
                [](const Share* share) { return share->sequence->state == SequenceState::ended; });
  size_t drafts = 0;
  for (const Share* share : shares) drafts += share->drafts;
  paths_.resize(drafts);
  std::span<uint32_t> room = paths_;
  for (Share* share : shares) {
    const Sequence& sequence = *share->sequence;
    VerifyRows& rows = rows_.emplace_back();
    rows.rows = std::span(step.rows).subspan(share->first_result, share->logits_rows);
    rows.drafts = std::span(sequence.tokens).subspan(sequence.known, share->drafts);
    rows.parents = share->parents;
    rows.draft_probs = share->draft_probs;
    VerifyResult& result = results_.emplace_back();
    result.tokens = std::span(step.results).subspan(share->first_result, share->logits_rows);
    result.path = room.first(share->drafts);
    room = room.subspan(share->drafts);
    if (!share->parents.empty()) share->path = result.path;
  }
  const Status status = sampler_.verify(rows_, results_);
  if (!status.ok()) return sampler_.failed(shares, status);
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i]->sequence->state == SequenceState::ended) continue;
    shares[i]->sequence->answer->take(step, *shares[i], results_[i].count);
  }
}

void Verifying::take_drawn(Step& step, const std::vector<Share*>& shares) {
  size_t drafts = 0;
  for (const Share* share : shares) drafts += share->drafts;
  drawn_paths_.resize(drafts);
  std::span<uint32_t> room = drawn_paths_;
  for (Share* share : shares) {
    if (share->sequence->state == SequenceState::ended) continue;
    const std::span<uint32_t> path = room.first(share->drafts);
    room = room.subspan(share->drafts);
    const uint32_t count = walk_drawn(step, *share, path);
    if (!share->parents.empty()) share->path = path;
    if (share->sequence->state != SequenceState::ended) {
      share->sequence->answer->take(step, *share, count);
    }
  }
}

// Drafts are accepted as long as they are what was drawn. Each row was drawn from as if there were
// none; where the executor could not tell, the sampler does. How many tokens there are.
uint32_t Verifying::walk_drawn(Step& step, Share& share, std::span<uint32_t> path) {
  const Sequence& sequence = *share.sequence;
  const auto drafts = std::span(sequence.tokens).subspan(sequence.known, share.drafts);
  uint32_t count = 0;
  for (uint32_t row = 0;;) {
    const size_t at = share.first_result + row;
    // Results stand as tokens do, rows as drafts.
    SampleResult& result = step.results[share.first_result + count];
    result.token = drawn_token(step.output, share.first_logits + row);
    if (result.token == kNoToken) {
      const Status status = sampler_.sample({&step.rows[at], 1}, {&result, 1});
      if (!status.ok()) {
        sampler_.failed({&share}, status);
        return 0;
      }
    }
    if (result.token == kNoToken) return count;
    const uint32_t draft = share.draft_behind(row, drafts, result.token);
    if (draft < share.drafts) path[count] = draft;
    ++count;
    if (draft == share.drafts) return count;
    row = draft + 1;
  }
}

}  // namespace tenon
