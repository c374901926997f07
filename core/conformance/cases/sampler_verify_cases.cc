// What <tenon/sampler.h> promises of drafts that it judges.
#include "core/conformance/bench/sampler_bench.h"
#include "core/conformance/cases/cases.h"

namespace tenon {
namespace {

// The token drawn after `known` tokens: logits follow from the text alone.
TestRow story_row(const std::vector<TokenId>& text_so_far, uint64_t seed) {
  uint64_t mixed = seed;
  for (const TokenId token : text_so_far) {
    mixed = mixed * 6364136223846793005u + static_cast<uint64_t>(token) + 1;
  }
  CaseRandom random(mixed);
  TestRow row;
  row.logits = test_logits(random, 12, 2.0f);
  row.history = text_so_far;
  row.key = {seed, 0, static_cast<uint32_t>(text_so_far.size())};
  return row;
}

Finding verifies_as_it_draws(Subject& subject) {
  if (!subject.provides("sampler.verify", "exact")) return skipped("it does not verify exactly");
  return with_sampler(subject, params_of(0.8f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t round = 0; round < 40 * subject.effort(); ++round) {
      std::vector<TokenId> known = {1, 2, static_cast<TokenId>(random.below(12))};
      const uint32_t count = random.below(5);
      // What would be drawn without drafts, and drafts that part from it somewhere.
      std::vector<TokenId> wanted, drafts;
      std::vector<TokenId> told = known;
      for (uint32_t i = 0; i <= count; ++i) {
        const auto token = draw_one(sampler, story_row(told, subject.seed()));
        if (!token.ok()) return failed_call(token.status());
        wanted.push_back(*token);
        told.push_back(*token);
      }
      for (uint32_t i = 0; i < count; ++i) {
        drafts.push_back(random.one_in(4) ? static_cast<TokenId>(random.below(12)) : wanted[i]);
      }
      std::vector<TestRow> rows;
      for (uint32_t i = 0; i <= count; ++i) {
        std::vector<TokenId> before = known;
        before.insert(before.end(), drafts.begin(), drafts.begin() + i);
        rows.push_back(story_row(before, subject.seed()));
      }
      std::vector<SampleRow> views;
      for (const TestRow& row : rows) views.push_back(row.view());
      VerifyRows verify;
      verify.rows = views;
      verify.drafts = drafts;
      std::vector<SampleResult> room(count + 1);
      VerifyResult result;
      result.tokens = room;
      if (const Status status = sampler.verify({&verify, 1}, {&result, 1}); !status.ok()) {
        return broke("verify fails: " + message_of(status));
      }
      uint32_t right = 0;
      while (right < count && drafts[right] == wanted[right]) ++right;
      bool same = result.count >= 1 && result.count <= right + 1;
      for (uint32_t i = 0; same && i < result.count; ++i) same = room[i].token == wanted[i];
      if (same) continue;
      return broke("of " + std::to_string(count) + " drafts, of which " + std::to_string(right) +
                   " are what it would have drawn, it keeps " +
                   std::to_string(result.count == 0 ? 0 : result.count - 1) +
                   ", and not the tokens that it draws without drafts");
    }
    return {};
  });
}

Finding verifies_trees(Subject& subject) {
  if (!subject.provides("sampler.trees", "exact")) return skipped("it verifies no trees");
  return with_sampler(subject, params_of(0.8f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t round = 0; round < 20 * subject.effort(); ++round) {
      const std::vector<TokenId> known = {1, 2, static_cast<TokenId>(random.below(12))};
      std::vector<TokenId> wanted, told = known;
      for (uint32_t i = 0; i < 3; ++i) {
        const auto token = draw_one(sampler, story_row(told, subject.seed()));
        if (!token.ok()) return failed_call(token.status());
        told.push_back(*token);
        wanted.push_back(*token);
      }
      // A wrong branch, then the right one, of two.
      const auto other = [](TokenId token) { return (token + 1) % 12; };
      const TokenId drafts[] = {other(wanted[0]), wanted[0], wanted[1], wanted[1]};
      const int32_t parents[] = {-1, -1, 0, 1};
      std::vector<TestRow> rows = {story_row(known, subject.seed())};
      for (const uint32_t draft : {0u, 1u, 2u, 3u}) {
        std::vector<TokenId> before = known;
        if (parents[draft] >= 0) before.push_back(drafts[parents[draft]]);
        before.push_back(drafts[draft]);
        rows.push_back(story_row(before, subject.seed()));
        rows.back().history = known;
      }
      std::vector<SampleRow> views;
      for (const TestRow& row : rows) views.push_back(row.view());
      SampleResult tokens[5];
      uint32_t path[4] = {};
      const VerifyRows verify{views, drafts, parents, nullptr};
      VerifyResult result{tokens, path, 0};
      if (const Status status = sampler.verify({&verify, 1}, {&result, 1}); !status.ok()) {
        return broke("verify fails: " + message_of(status));
      }
      bool same = result.count == 3 && path[0] == 1 && path[1] == 3;
      for (uint32_t i = 0; same && i < 3; ++i) same = tokens[i].token == wanted[i];
      if (same) continue;
      return broke(
          "of a tree whose second branch is what it would have drawn, two tokens deep, it "
          "keeps " +
          std::to_string(result.count == 0 ? 0 : result.count - 1) +
          " drafts, and not the tokens that it draws without drafts");
    }
    return {};
  });
}

}  // namespace

CaseList sampler_verify_cases() {
  constexpr std::string_view kOf = "sampler", kHeader = "sampler.h";
  return {
      {"sampler.verify", kOf, kHeader,
       "The accepted drafts from the first on, then one token of the target's own",
       &verifies_as_it_draws},
      {"sampler.trees", kOf, kHeader,
       "of a tree (`parents`), every history is what is known, and the sampler adds the drafts on "
       "the way to the row.",
       &verifies_trees},
  };
}

}  // namespace tenon
