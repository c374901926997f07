#include "plugins/sampler/standard/verify.h"

#include <tenon/sdk/random.h>
#include <tenon/sdk/sampler/draft_tree.h>

#include <algorithm>
#include <cmath>

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

// What is left of the target's distribution p once drafts were refused: max(p - q, 0) for each of
// them in turn, `total` in all, not normalised.
class Remainder {
 public:
  Remainder(std::span<const float> p, std::vector<float>& room) : p_(p), left_(room) {}

  // Draft number `round` of its siblings, which was drawn from q.
  bool accepts(const float* q, TokenId draft, const RandomKey& key, uint32_t round) const {
    const auto id = static_cast<uint32_t>(draft);
    if (!knows(draft) || !(at(id) > 0.0f)) return false;
    const double chance = sdk::uniform(key, RandomPurpose::accept, round);
    return !(q[id] > 0.0f) ||
           chance * static_cast<double>(q[id]) * total_ < static_cast<double>(at(id));
  }

  // Nothing is left only where what was left equals q but for rounding: then p is all there again.
  void take_away(const float* q, TokenId draft) {
    // What is no token was drawn from nothing.
    if (!knows(draft)) return;
    if (!cut_) left_.assign(p_.begin(), p_.end());
    cut_ = true;
    const auto scale = static_cast<float>(total_);
    total_ = 0.0;
    for (size_t i = 0; i < left_.size(); ++i) {
      // A q that is no number takes nothing away.
      if (q[i] > 0.0f) left_[i] = std::max(0.0f, left_[i] - q[i] * scale);
      total_ += left_[i];
    }
    if (total_ > 0.0) return;
    cut_ = false;
    total_ = 1.0;
  }

  // kNoToken where p is empty.
  TokenId draw(const RandomKey& key) const {
    double total = 0.0;
    for (uint32_t i = 0; i < p_.size(); ++i) total += at(i);
    const double target = sdk::uniform(key, RandomPurpose::recover) * total;
    double sum = 0.0;
    TokenId token = kNoToken;
    for (uint32_t i = 0; i < p_.size() && sum <= target; ++i) {
      if (!(at(i) > 0.0f)) continue;
      token = static_cast<TokenId>(i);
      sum += at(i);
    }
    return token;
  }

 private:
  bool knows(TokenId token) const { return token >= 0 && static_cast<uint32_t>(token) < p_.size(); }
  float at(uint32_t id) const { return cut_ ? left_[id] : p_[id]; }

  std::span<const float> p_;
  std::vector<float>& left_;
  bool cut_ = false;
  double total_ = 1.0;
};

// The first draft from `from` on that follows row `row`; as many as there are drafts: none does.
size_t follower(const VerifyRows& rows, size_t row, size_t from) {
  const size_t none = rows.drafts.size();
  if (rows.parents.empty()) return from == row ? row : none;
  const auto parent = static_cast<int32_t>(row) - 1;
  while (from < none && rows.parents[from] != parent) ++from;
  return from;
}

// The drafts that follow row `row`, from `draft` on and one after the other, until one is accepted:
// its number, or as many as there are where none is.
size_t judge_siblings(const VerifyRows& rows, size_t row, size_t draft, Remainder& left) {
  const SampleRow& at = rows.rows[row];
  for (uint32_t round = 0; draft < rows.drafts.size(); ++round) {
    const float* q = rows.draft_probs + draft * at.vocabulary;
    if (left.accepts(q, rows.drafts[draft], at.key, round)) return draft;
    left.take_away(q, rows.drafts[draft]);
    draft = follower(rows, row, draft + 1);
  }
  return draft;
}

}  // namespace

void verify_by_rejection(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                         VerifyResult& out) {
  out.count = 0;
  const bool tree = !rows.parents.empty();
  if (tree) copy_known(rows.rows[0].history, rows.drafts.size(), scratch.known);
  for (size_t at = 0;;) {
    SampleRow row = rows.rows[at];
    if (tree) row.history = scratch.known;
    SampleResult& result = out.tokens[out.count];
    clear(result);
    const size_t first = follower(rows, at, at);
    if (first == rows.drafts.size()) {
      sample_row(scratch, row, settings, result);
      out.count += result.token != kNoToken ? 1 : 0;
      return;
    }
    scratch.probs.resize(row.vocabulary);
    distribute(scratch, row, settings, scratch.probs);
    Remainder left(scratch.probs, scratch.left);
    const size_t draft = judge_siblings(rows, at, first, left);
    const bool accepted = draft < rows.drafts.size();
    const TokenId token = accepted ? rows.drafts[draft] : left.draw(row.key);
    if (token == kNoToken) return;
    settle(scratch, row, settings, token, scratch.probs[static_cast<size_t>(token)], result);
    if (accepted && out.count < out.path.size()) out.path[out.count] = static_cast<uint32_t>(draft);
    ++out.count;
    if (!accepted) return;
    if (tree) scratch.known.push_back(token);
    at = draft + 1;
  }
}

namespace {

// What a draft's probability must exceed, of a distribution p (Medusa: Cai et al., 2024).
float typical_threshold(std::span<const float> p) {
  constexpr double kMost = 0.09, kShare = 0.3;
  double entropy = 0.0;
  for (const float share : p) {
    if (share > 0.0f) {
      entropy -= static_cast<double>(share) * std::log(static_cast<double>(share));
    }
  }
  return static_cast<float>(std::min(kMost, kShare * std::exp(-entropy)));
}

}  // namespace

void verify_typically(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                      VerifyResult& out) {
  out.count = 0;
  const bool tree = !rows.parents.empty();
  const size_t none = rows.drafts.size();
  if (tree) copy_known(rows.rows[0].history, none, scratch.known);
  for (size_t at = 0;;) {
    SampleRow row = rows.rows[at];
    if (tree) row.history = scratch.known;
    SampleResult& result = out.tokens[out.count];
    clear(result);
    size_t best = none;
    float least = 0.0f;
    const size_t first = follower(rows, at, at);
    if (first < none) {
      scratch.probs.resize(row.vocabulary);
      distribute(scratch, row, settings, scratch.probs);
      least = typical_threshold(scratch.probs);
    }
    // Of siblings the likeliest; a chain has none.
    for (size_t draft = first; draft < none; draft = tree ? follower(rows, at, draft + 1) : none) {
      const TokenId token = rows.drafts[draft];
      if (token < 0 || static_cast<uint32_t>(token) >= row.vocabulary) continue;
      const float share = scratch.probs[static_cast<size_t>(token)];
      if (share > least) least = share, best = draft;
    }
    if (best == none) {
      sample_row(scratch, row, settings, result);
      out.count += result.token != kNoToken ? 1 : 0;
      return;
    }
    settle(scratch, row, settings, rows.drafts[best], least, result);
    if (out.count < out.path.size()) out.path[out.count] = static_cast<uint32_t>(best);
    ++out.count;
    if (tree) scratch.known.push_back(rows.drafts[best]);
    at = best + 1;
  }
}

}  // namespace tenon::standard
