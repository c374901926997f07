#include "core/conformance/worlds/sampler_rows.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/conformance/watch/guarded_memory.h"

namespace tenon {

std::vector<float> test_logits(CaseRandom& random, uint32_t count, float spread) {
  std::vector<float> logits(count);
  for (uint32_t i = 0; i < count; ++i) {
    logits[i] = spread * random.value() + 1e-5f * static_cast<float>(i);
  }
  return logits;
}

TestRow test_row(CaseRandom& random, uint32_t position) {
  TestRow row;
  row.logits = test_logits(random, kTestVocabulary);
  row.key.position = position;
  return row;
}

Result<std::vector<TokenId>> draw(Sampler& sampler, std::span<const TestRow> rows) {
  std::vector<SampleRow> views;
  std::vector<GuardedMemory> logits;
  for (const TestRow& row : rows) {
    logits.push_back(GuardedMemory::copy_of(std::span<const float>(row.logits)));
    views.emplace_back(row.view()).logits = logits.back().as<float>();
  }
  std::vector<SampleResult> results(rows.size());
  TENON_RETURN_IF_ERROR(sampler.sample(views, results));
  std::vector<TokenId> tokens;
  for (const SampleResult& result : results) tokens.push_back(result.token);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::memcmp(views[i].logits, rows[i].logits.data(),
                    rows[i].logits.size() * sizeof(float)) != 0) {
      return internal("it writes into the logits that it is to draw from");
    }
  }
  return tokens;
}

Result<TokenId> draw_one(Sampler& sampler, const TestRow& row) {
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, draw(sampler, {&row, 1}));
  return tokens[0];
}

Result<std::vector<float>> distribution_of(Sampler& sampler, const TestRow& row) {
  std::vector<float> probs(row.logits.size(), std::numeric_limits<float>::quiet_NaN());
  TENON_RETURN_IF_ERROR(sampler.distribution(row.view(), probs));
  return probs;
}

}  // namespace tenon
