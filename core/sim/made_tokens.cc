#include "core/sim/made_tokens.h"

#include <algorithm>

namespace tenon::sim {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t key_of(TokenId token, uint32_t position) {
  return mix((uint64_t{position} << 32) | static_cast<uint32_t>(token));
}

double uniform(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

MadeTokens::MadeTokens(uint32_t vocabulary, std::vector<TokenId> never,
                       std::optional<double> acceptance)
    : vocabulary_(vocabulary), never_(std::move(never)), acceptance_(acceptance) {
  // A vocabulary of nothing else has no other token to give.
  if (never_.size() >= vocabulary_) never_.clear();
}

TokenId MadeTokens::after(TokenId token, uint32_t position) const {
  auto made = static_cast<TokenId>(key_of(token, position) % vocabulary_);
  while (std::ranges::find(never_, made) != never_.end()) {
    made = static_cast<TokenId>((static_cast<uint32_t>(made) + 1) % vocabulary_);
  }
  return made;
}

uint32_t MadeTokens::draft_after(const BatchView& batch, const BatchSequence& sequence,
                                 uint32_t row) const {
  const uint32_t end = sequence.first_row + sequence.rows;
  for (uint32_t next = std::max(row + 1, end - sequence.drafts); next < end; ++next) {
    const bool follows = batch.tree_parents.empty()
                             ? next == row + 1
                             : batch.tree_parents[next] == static_cast<int32_t>(row);
    if (follows) return next;
  }
  return batch.rows;
}

void MadeTokens::draw(const BatchView& batch, std::vector<TokenId>& out) const {
  out.clear();
  const uint32_t axes = std::max<uint32_t>(
      1, static_cast<uint32_t>(batch.positions.size() / std::max(batch.rows, 1u)));
  size_t at = 0;
  for (const uint32_t row : batch.logits_rows) {
    while (row >= batch.sequences[at].first_row + batch.sequences[at].rows) ++at;
    const TokenId token = batch.tokens[row];
    const uint32_t position = batch.positions[size_t{row} * axes];
    TokenId made = after(token, position);
    if (acceptance_ && batch.sequences[at].drafts > 0) {
      const uint32_t draft = draft_after(batch, batch.sequences[at], row);
      if (draft < batch.rows) {
        const bool kept = uniform(mix(key_of(token, position))) < *acceptance_;
        const TokenId drafted = batch.tokens[draft];
        if (kept) made = drafted;
        if (!kept && made == drafted) made = after(made, position + 1);
      }
    }
    out.push_back(made);
  }
}

}  // namespace tenon::sim
