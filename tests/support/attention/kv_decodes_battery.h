// What every KV manager keeps to that offers kKvDecodes: a step in two calls leaves what the usual
// calls leave. Two managers go the same way through random worlds, one with either.
//
//   INSTANTIATE_TEST_SUITE_P(Plugin, EveryKvDecodes, testing::Values("paged"));
#pragma once

#include <gtest/gtest.h>
#include <tenon/extensions/kv_decodes.h>

#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/attention/kv_case.h"

namespace tenon::test {

class DecodingSide : public KvCase {
 public:
  explicit DecodingSide(const std::string& id) : KvCase(id) {}
  void TestBody() override {}

  using KvCase::begin;
  using KvCase::bind;
  using KvCase::compute;
  using KvCase::expect_sound;
  using KvCase::host_;
  using KvCase::match;
  using KvCase::moves;
  using KvCase::release;
  using KvCase::table;
  using KvCase::usage;

  const KvDecodes* offered() { return static_cast<const KvDecodes*>(kv_->extension(kKvDecodes)); }

  // Whether every sequence grew, in the step that has begun already.
  bool decode(const std::vector<std::pair<SeqId, Tokens>>& known, TokenId next) {
    for (const auto& [seq, tokens] : known) {
      KvGrant grant;
      const auto computed = static_cast<uint32_t>(tokens.size()) - 1;
      if (!test::grow(kv(), seq, tokens, computed, 1, 1, grant).ok()) return false;
    }
    EXPECT_TRUE(kv().step_done(step_).ok());
    for (const auto& [seq, tokens] : known) {
      const uint32_t kept[] = {0};
      const auto computed = static_cast<uint32_t>(tokens.size());
      EXPECT_TRUE(
          test::resolve(kv(), seq, tokens + Tokens{next}, computed - 1, kept, computed).ok());
    }
    EXPECT_TRUE(kv().step_begin(++step_).ok());
    return true;
  }
  // The same in two calls.
  bool decode_at_once(const std::vector<std::pair<SeqId, Tokens>>& known, TokenId next) {
    std::vector<KvDecode> decodes;
    for (const auto& [seq, tokens] : known) decodes.push_back({seq, tokens});
    const KvDecodes& calls = *offered();
    if (!calls.grow(calls.self, step_, decodes).ok()) return false;
    std::vector<Tokens> longer;
    for (const auto& [seq, tokens] : known) longer.push_back(tokens + Tokens{next});
    for (size_t i = 0; i < decodes.size(); ++i) decodes[i].tokens = longer[i];
    EXPECT_TRUE(calls.resolve(calls.self, step_, decodes).ok());
    EXPECT_TRUE(kv().step_begin(++step_).ok());
    return true;
  }
};

class EveryKvDecodes : public testing::TestWithParam<const char*> {
 protected:
  // Sequences that begin alike, of all lengths, and end one by one.
  void run(uint64_t seed, uint32_t blocks, uint32_t window) {
    std::mt19937_64 random(seed);
    DecodingSide usual(GetParam()), at_once(GetParam());
    std::map<SeqId, Tokens> live;
    const std::array both = {&usual, &at_once};
    for (DecodingSide* side : both) side->bind(4, blocks, window);
    uint32_t steps = 0;
    SeqId next = 1;
    for (int turn = 0; turn < 300; ++turn) {
      if (live.size() < 5 && random() % 4 == 0) {
        const auto length = static_cast<uint32_t>(1 + random() % 14);
        const Tokens prompt = tokens(length, static_cast<TokenId>(random() % 3));
        // Room for it, so that its own step is no part of what is asked here.
        if (usual.usage().free_tokens < 2 * length + 8) continue;
        for (DecodingSide* side : both) {
          side->begin(next);
          side->compute(next, prompt);
        }
        EXPECT_EQ(usual.moves().size(), at_once.moves().size());
        live[next++] = prompt + Tokens{static_cast<TokenId>(random() % 2)};
      }
      if (live.empty()) continue;
      std::vector<std::pair<SeqId, Tokens>> known(live.begin(), live.end());
      const auto token = static_cast<TokenId>(random() % 2);
      const bool fits = at_once.decode_at_once(known, token);
      // What is refused has changed nothing, and the usual calls say why.
      if (!fits) same(usual, at_once, live);
      if (!fits) {
        end_one(both, live, random());
      } else {
        ASSERT_TRUE(usual.decode(known, token));
        for (auto& [seq, tokens] : live) tokens.push_back(token);
        ++steps;
      }
      same(usual, at_once, live);
      if (HasFailure()) return;
      if (random() % 9 == 0 && !live.empty()) end_one(both, live, random());
    }
    EXPECT_GT(steps, 60u);
    EXPECT_EQ(usual.host_.counters, at_once.host_.counters);
  }

 private:
  static void end_one(const std::array<DecodingSide*, 2>& both, std::map<SeqId, Tokens>& live,
                      uint64_t draw) {
    const auto one = std::next(live.begin(), static_cast<ptrdiff_t>(draw % live.size()));
    for (DecodingSide* side : both) EXPECT_TRUE(side->release(one->first).ok());
    live.erase(one);
  }
  static void same(DecodingSide& usual, DecodingSide& at_once,
                   const std::map<SeqId, Tokens>& live) {
    at_once.expect_sound();
    EXPECT_TRUE(usual.moves().empty());
    EXPECT_TRUE(at_once.moves().empty());
    const KvUsage a = usual.usage(), b = at_once.usage();
    EXPECT_EQ(a.free_tokens, b.free_tokens);
    EXPECT_EQ(a.reserved_tokens, b.reserved_tokens);
    EXPECT_EQ(a.used_tokens, b.used_tokens);
    EXPECT_EQ(a.cached_tokens, b.cached_tokens);
    for (const auto& [seq, tokens] : live) {
      EXPECT_EQ(usual.table(seq), at_once.table(seq)) << "sequence " << seq;
      const auto wanted = static_cast<uint32_t>(tokens.size());
      const KvMatch found = usual.match(seq, tokens, wanted);
      EXPECT_EQ(found.tokens_held, at_once.match(seq, tokens, wanted).tokens_held);
    }
  }
};

TEST_P(EveryKvDecodes, leave_what_the_usual_calls_leave) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(seed, 200, 0);
    run(seed, 24, 0);  // so few blocks that cached ones are handed out, or none is left
    run(seed, 60, 9);
    if (HasFailure()) return;
  }
}

TEST_P(EveryKvDecodes, refuse_what_is_more_than_a_token_and_change_nothing) {
  DecodingSide side(GetParam());
  side.bind(4, 8);
  side.begin(1);
  side.compute(1, tokens(5));
  const KvUsage before = side.usage();
  EXPECT_FALSE(side.decode_at_once({{1, tokens(7)}}, 3)) << "two tokens are left";
  EXPECT_FALSE(side.decode_at_once({{1, tokens(6)}, {2, tokens(6)}}, 3)) << "nobody is 2";
  EXPECT_EQ(side.usage().reserved_tokens, before.reserved_tokens);
  EXPECT_EQ(side.usage().used_tokens, before.used_tokens);
  side.expect_sound();
  EXPECT_TRUE(side.decode_at_once({{1, tokens(6)}}, 3));
}

}  // namespace tenon::test
