// One sequence's part of a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/requests/sequence_table.h"

namespace tenon {

struct Share {
  Sequence* sequence = nullptr;
  // A sample that forks in this step computes nothing: it draws from its parent's row, and all else
  // here is as in its parent's share.
  Sequence* parent = nullptr;
  uint32_t base = 0;    // tokens computed, or in flight, before it
  uint32_t tokens = 0;  // known tokens computed
  uint32_t drafts = 0;  // draft tokens behind them
  // [drafts] the draft that each follows, -1 = the known tokens; empty: the one before it.
  std::span<const int32_t> parents;
  const float* draft_probs = nullptr;  // [drafts, vocabulary] that they were drawn from, if known

  uint32_t place = 0;         // among the batch's sequences
  uint32_t first_row = 0;     // in the batch
  uint32_t first_logits = 0;  // in the output
  uint32_t logits_rows = 0;   // 0 = not sampled
  uint32_t first_score = 0;   // rows of the prompt that are scored, before the sampled ones
  uint32_t score_rows = 0;
  uint32_t first_hidden = 0;  // in the output's hidden states: its last rows
  uint32_t hidden_rows = 0;

  bool masked = false;      // its rows have masks of a grammar
  uint32_t first_mask = 0;  // in the step's masks

  uint32_t first_result = 0;  // in the step's rows and results: one for each new token
  uint32_t result_count = 0;
  uint32_t accepted = 0;           // drafts
  std::span<const uint32_t> path;  // [accepted] which; empty where drafts are a chain

  uint32_t rows() const { return tokens + drafts; }
  // Drafts on the way to the i-th row of its logits, behind what is known.
  uint32_t depth_of(uint32_t i) const {
    if (parents.empty()) return i;
    uint32_t depth = 0;
    for (auto at = static_cast<int32_t>(i) - 1; at >= 0; at = parents[static_cast<uint32_t>(at)]) {
      ++depth;
    }
    return depth;
  }
  // Which of the drafts follows the i-th row and is `token`; `drafts` where none does.
  uint32_t draft_behind(uint32_t i, std::span<const TokenId> tokens_of_drafts,
                        TokenId token) const {
    for (uint32_t draft = i; draft < drafts; ++draft) {
      const int64_t before = parents.empty() ? int64_t{draft} - 1 : parents[draft];
      if (before == int64_t{i} - 1 && tokens_of_drafts[draft] == token) return draft;
    }
    return drafts;
  }
  // The draft that became the i-th accepted one.
  uint32_t accepted_draft(uint32_t i) const { return path.empty() ? i : path[i]; }
};

// For messages to everyone in a step.
inline std::vector<Sequence*> sequences_of(const std::vector<Share>& shares) {
  std::vector<Sequence*> sequences;
  for (const Share& share : shares) sequences.push_back(share.sequence);
  return sequences;
}
inline std::vector<Sequence*> sequences_of(const std::vector<Share*>& shares) {
  std::vector<Sequence*> sequences;
  for (const Share* share : shares) sequences.push_back(share->sequence);
  return sequences;
}

}  // namespace tenon
