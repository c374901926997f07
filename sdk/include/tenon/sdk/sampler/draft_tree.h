// Walking drafts from what is known to the last one that is accepted, whether they form a chain or
// a tree: row 0 follows the known tokens, row d + 1 follows draft d.
#pragma once

#include <tenon/sampler.h>

#include <string>

namespace tenon::sdk {

// Refuses a tree that lacks parents, whose path has no room, or, of samplers that do not verify
// trees by rejection, one that comes with probabilities.
inline Status check_tree(const VerifyRows& rows, const VerifyResult& out,
                         bool by_rejection = false) {
  if (rows.parents.empty()) return {};
  const auto refuse = [&](const char* found) {
    return Status::error(
        StatusCode::invalid_argument,
        "the drafts of sequence " + std::to_string(rows.rows[0].seq) + " form a tree " + found);
  };
  if (rows.draft_probs != nullptr && !by_rejection) {
    return refuse(
        "and come with probabilities – trees are verified exactly; leave draft_probs out, or draft "
        "chains");
  }
  if (rows.parents.size() != rows.drafts.size()) {
    return refuse("in which some have no parent – name one for each draft, -1 for roots");
  }
  if (out.path.size() < rows.drafts.size()) {
    return refuse("whose path has no room – make room for as many as there are drafts");
  }
  return {};
}

// The draft that is `token` and has the same predecessor as row `row`; as many as there are drafts
// where none does. A draft follows an earlier one, so a walk from row to row ends.
inline size_t next_draft(const VerifyRows& rows, size_t row, TokenId token) noexcept {
  const size_t none = rows.drafts.size();
  if (rows.parents.empty()) return row < none && rows.drafts[row] == token ? row : none;
  for (size_t draft = row; draft < none; ++draft) {
    const bool follows = rows.parents[draft] == static_cast<int32_t>(row) - 1;
    if (follows && rows.drafts[draft] == token) return draft;
  }
  return none;
}

// Draws at each row on the way: `draw(row, result)` fills the result, whose token is kNoToken where
// the row failed. Tokens that were drawn before a row that failed are still good.
template <typename Draw>
void walk_drafts(const VerifyRows& rows, VerifyResult& out, Draw draw) {
  out.count = 0;
  for (size_t row = 0;;) {
    SampleResult& result = out.tokens[out.count];
    draw(row, result);
    if (result.token == kNoToken) return;
    const size_t draft = next_draft(rows, row, result.token);
    const bool accepted = draft < rows.drafts.size();
    if (accepted && out.count < out.path.size()) out.path[out.count] = static_cast<uint32_t>(draft);
    ++out.count;
    if (!accepted) return;
    row = draft + 1;
  }
}

}  // namespace tenon::sdk
