// Rows of logits for a sampler under test, and what comes of them.
#pragma once

#include <tenon/sampler.h>

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/conformance/worlds/random.h"

namespace tenon {

// Tokens of most rows: whole cache lines, so that a row ends at a page which nobody may touch.
inline constexpr uint32_t kTestVocabulary = 208;

// One row with all that it borrows.
struct TestRow {
  SeqId seq = 1;
  std::vector<float> logits;
  std::vector<TokenId> history = {1, 2, 3};
  RandomKey key;
  std::vector<uint64_t> allowed;  // empty = all
  TokenId score = kNoToken;

  SampleRow view() const {
    SampleRow row;
    row.seq = seq;
    row.logits = logits.data();
    row.vocabulary = static_cast<uint32_t>(logits.size());
    row.history = history;
    row.prompt_tokens = 2;
    row.key = key;
    row.allowed = allowed.empty() ? nullptr : allowed.data();
    row.score = score;
    return row;
  }
};

// `count` logits within ± `spread`, no two of them equal.
std::vector<float> test_logits(CaseRandom& random, uint32_t count, float spread = 4.0f);

// One of those at `position`, of the whole vocabulary.
TestRow test_row(CaseRandom& random, uint32_t position);

// The tokens of `rows`, sampled in one call, with logits that end at a page which nobody may touch.
// Error: the sampler's, and internal where it changed them.
Result<std::vector<TokenId>> draw(Sampler& sampler, std::span<const TestRow> rows);
Result<TokenId> draw_one(Sampler& sampler, const TestRow& row);
// What it says that the row would be drawn from; NaN where it wrote nothing.
Result<std::vector<float>> distribution_of(Sampler& sampler, const TestRow& row);

}  // namespace tenon
