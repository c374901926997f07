#include "plugins/sampler/standard/verify.h"

#include <tenon/sdk/random.h>
#include <tenon/sdk/sampler/draft_tree.h>

#include <algorithm>

namespace tenon::standard {

namespace {

// Histories grow by a token a step; their scratch grows far more rarely.
void copy_known(std::span<const TokenId> known, size_t drafts, std::vector<TokenId>& out) {
  const size_t most = known.size() + drafts + 1;
  if (out.capacity() < most) out.reserve(2 * most);
  out.assign(known.begin(), known.end());
}

}  // namespace

void verify_exactly(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                    VerifyResult& out) {
  const bool tree = !rows.parents.empty();
  if (tree) copy_known(rows.rows[0].history, rows.drafts.size(), scratch.known);
  sdk::walk_drafts(rows, out, [&](size_t at, SampleResult& result) {
    SampleRow row = rows.rows[at];
    if (tree) row.history = scratch.known;
    sample_row(scratch, row, settings, result);
    if (tree && result.token != kNoToken) scratch.known.push_back(result.token);
  });
}

namespace {

// From max(p - q, 0), or from p where there is no q; kNoToken when p is empty.
TokenId recover(std::span<const float> p, const float* q, const RandomKey& key) {
  const auto left = [&](size_t i) {
    // A q that is no number takes nothing away.
    return q != nullptr && q[i] > 0.0f ? std::max(0.0f, p[i] - q[i]) : p[i];
  };
  double total = 0.0;
  for (size_t i = 0; i < p.size(); ++i) total += left(i);
  // Nothing is left only where p equals q but for rounding.
  if (!(total > 0.0)) return q == nullptr ? kNoToken : recover(p, nullptr, key);
  const double target = sdk::uniform(key, RandomPurpose::recover) * total;
  double sum = 0.0;
  TokenId token = kNoToken;
  for (size_t i = 0; i < p.size() && sum <= target; ++i) {
    if (!(left(i) > 0.0f)) continue;
    token = static_cast<TokenId>(i);
    sum += left(i);
  }
  return token;
}

bool accept(std::span<const float> p, const float* q, TokenId draft, const RandomKey& key) {
  const auto id = static_cast<uint32_t>(draft);
  if (draft < 0 || id >= p.size() || !(p[id] > 0.0f)) return false;
  const double chance = sdk::uniform(key, RandomPurpose::accept);
  return !(q[id] > 0.0f) || chance * static_cast<double>(q[id]) < static_cast<double>(p[id]);
}

}  // namespace

void verify_by_rejection(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                         VerifyResult& out) {
  out.count = 0;
  for (size_t i = 0; i < rows.drafts.size(); ++i) {
    const SampleRow& row = rows.rows[i];
    clear(out.tokens[i]);
    scratch.probs.resize(row.vocabulary);
    distribute(scratch, row, settings, scratch.probs);
    const float* q = rows.draft_probs + i * row.vocabulary;
    const TokenId draft = rows.drafts[i];
    const bool accepted = accept(scratch.probs, q, draft, row.key);
    // What is no token was drawn from nothing.
    const bool known = draft >= 0 && static_cast<uint32_t>(draft) < row.vocabulary;
    const TokenId token = accepted ? draft : recover(scratch.probs, known ? q : nullptr, row.key);
    if (token == kNoToken) return;
    settle(scratch, row, settings, token, scratch.probs[static_cast<size_t>(token)], out.tokens[i]);
    if (accepted && i < out.path.size()) out.path[i] = static_cast<uint32_t>(i);
    ++out.count;
    if (!accepted) return;
  }
  const size_t last = rows.drafts.size();
  sample_row(scratch, rows.rows[last], settings, out.tokens[last]);
  if (out.tokens[last].token != kNoToken) ++out.count;
}

}  // namespace tenon::standard
