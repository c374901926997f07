// What the manager tells of its cache (kKvEvents).
#include <gtest/gtest.h>
#include <tenon/extensions/kv_events.h>

#include <map>
#include <random>
#include <set>

#include "tests/support/attention/kv_case.h"

namespace tenon {
namespace {

using test::option;
using test::tokens;
using test::Tokens;
using test::operator+;  // NOLINT(misc-unused-using-decls): the check overlooks operators

struct Told {
  KvEvent event;
  Tokens tokens;
};

class PrefixEvents : public test::KvCase {
 protected:
  PrefixEvents() : KvCase("prefix") {}

  const KvEvents& offered() { return *static_cast<const KvEvents*>((*kv_).extension(kKvEvents)); }
  void watch() { ASSERT_TRUE(offered().watch(offered().self).ok()); }
  // Everything since the last time, in rooms of `room`.
  std::vector<Told> take(size_t room = 3) {
    std::vector<Told> all;
    std::vector<KvEvent> events(room);
    for (KvEventsOut out{.events = events, .count = 0};;) {
      EXPECT_TRUE(offered().take(offered().self, out).ok());
      for (uint32_t i = 0; i < out.count; ++i) {
        all.push_back({events[i], {events[i].tokens.begin(), events[i].tokens.end()}});
      }
      if (out.count < room) return all;
    }
  }
};

TEST_F(PrefixEvents, tells_nothing_before_somebody_watches) {
  bind(4, 10);
  serve(1, tokens(9));
  EXPECT_TRUE(take().empty());
  watch();
  serve(2, tokens(9));
  EXPECT_TRUE(take().empty()) << "what was there before is not told of, nor stored again";
  serve(3, tokens(9, 1));
  EXPECT_EQ(take().size(), 2u);
}

TEST_F(PrefixEvents, tells_of_full_blocks_with_those_before_them) {
  bind(4, 10);
  watch();
  serve(1, tokens(11));
  const auto all = take();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].event.kind, KvEventKind::stored);
  EXPECT_FALSE(all[0].event.has_parent);
  EXPECT_TRUE(all[1].event.has_parent);
  EXPECT_EQ(all[1].event.parent, all[0].event.content);
  EXPECT_EQ(all[0].tokens + all[1].tokens, tokens(8));
}

TEST_F(PrefixEvents, tells_of_the_key_and_names_its_content_otherwise) {
  bind(4, 10);
  watch();
  CacheKey key;
  key.salt = 5;
  key.adapter = 2;
  serve(1, tokens(5), key);
  serve(2, tokens(5));
  const auto all = take();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].event.salt, 5u);
  EXPECT_EQ(all[0].event.adapter, 2u);
  EXPECT_EQ(all[1].event.salt, 0u);
  EXPECT_NE(all[0].event.content, all[1].event.content);
}

TEST_F(PrefixEvents, a_shortened_hash_offers_none) {
  remake({{"hash_bits", option(32)}});
  EXPECT_EQ((*kv_).extension(kKvEvents), nullptr);
}

// A subscriber's picture: what a prompt would find by the events alone.
class Picture {
 public:
  void apply(const Told& told) {
    const KvEvent& event = told.event;
    if (event.kind == KvEventKind::removed) {
      EXPECT_EQ(held_.erase(event.content), 1u) << "what was never stored went";
      return;
    }
    EXPECT_TRUE(held_.insert(event.content).second) << "stored twice";
    names_[{event.has_parent ? event.parent : 0, told.tokens}] = event.content;
  }
  uint32_t found(const Tokens& prompt, uint32_t block_tokens) const {
    uint64_t parent = 0;
    uint32_t found = 0;
    while (found + block_tokens < prompt.size()) {
      const Tokens block(prompt.begin() + found, prompt.begin() + found + block_tokens);
      const auto name = names_.find({parent, block});
      if (name == names_.end() || !held_.contains(name->second)) break;
      parent = name->second;
      found += block_tokens;
    }
    return found;
  }

 private:
  std::set<uint64_t> held_;
  std::map<std::pair<uint64_t, Tokens>, uint64_t> names_;
};

TEST_F(PrefixEvents, say_what_prompts_find_while_memory_is_short) {
  constexpr uint32_t kSeed = 20261129;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  bind(4, 24);
  watch();
  Picture picture;
  uint64_t finds = 0, removals = 0;
  for (SeqId seq = 1; seq <= 2000; ++seq) {
    // Prompts that share beginnings of any length.
    const uint32_t common = below(20);
    const Tokens prompt = tokens(common, static_cast<TokenId>(below(3))) +
                          tokens(1 + below(40), static_cast<TokenId>(below(4)));
    begin(seq);
    const uint32_t found = picture.found(prompt, 4);
    EXPECT_EQ(match(seq, prompt).ready, found) << "sequence " << seq;
    finds += found > 0;
    compute(seq, prompt);
    ASSERT_TRUE(release(seq).ok());
    for (const Told& told : take(1 + below(5))) {
      removals += told.event.kind == KvEventKind::removed;
      picture.apply(told);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(finds, 200u);
  EXPECT_GT(removals, 1000u);
}

}  // namespace
}  // namespace tenon
