// A KV manager under test: sequences with tokens, steps, and what a manager says about them.
//
//   class Prefix : public test::KvCase { protected: Prefix() : KvCase("prefix") {} };
//   TEST_F(Prefix, …) { bind(16, 10); begin(1); compute(1, tokens(55)); … }
#pragma once

#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/conformance/worlds/kv_groups.h"
#include "tests/support/plugin_instance.h"

namespace tenon::test {

using Tokens = std::vector<TokenId>;

// `count` tokens that differ from those of another `kind` at every position.
inline Tokens tokens(uint32_t count, TokenId kind = 0) {
  Tokens made(count);
  for (uint32_t i = 0; i < count; ++i) made[i] = static_cast<TokenId>(i * 16) + kind;
  return made;
}
inline OptionValue option(int64_t number) {
  OptionValue value;
  value.integer = number;
  return value;
}
inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The interface's calls, as tests write them.
inline Status grow(KVCacheManager& kv, SeqId seq, std::span<const TokenId> tokens,
                   uint32_t computed, uint32_t at_least, uint32_t at_most, KvGrant& out) {
  return kv.grow({.seq = seq,
                  .tokens = tokens,
                  .known_tokens = static_cast<uint32_t>(tokens.size()),
                  .computed = computed,
                  .at_least = at_least,
                  .at_most = at_most},
                 out);
}
inline Status resolve(KVCacheManager& kv, SeqId seq, std::span<const TokenId> tokens, uint32_t base,
                      std::span<const uint32_t> kept, uint32_t computed) {
  return kv.resolve(
      {.seq = seq, .tokens = tokens, .base = base, .kept = kept, .computed = computed});
}
inline KvUsage usage(const KVCacheManager& kv, GroupId group = 0) {
  KvUsage made;
  const Status status = kv.usage(group, made);
  EXPECT_TRUE(status.ok()) << status.message();
  return made;
}

using tenon::KvTestGroup;

class KvCase : public testing::Test {
 protected:
  using Plugin = PluginInstance<KVCacheManager>;

  explicit KvCase(std::string_view id, const Plugin::Options& options = {})
      : id_(id), kv_(std::make_unique<Plugin>(id, host_, options)) {}

  // The manager again, with other options, or in a pipeline that agreed upon something.
  void remake(const Plugin::Options& options, PipelineFacts facts = {}) {
    kv_ = nullptr;
    kv_ = std::make_unique<Plugin>(id_, host_, options, facts);
  }
  void bind(uint32_t block_tokens, uint32_t blocks, uint32_t window = 0, uint32_t swap_blocks = 0,
            uint32_t groups = 1) {
    std::vector<KvTestGroup> all(
        groups, {.block_tokens = block_tokens, .blocks = blocks, .swap_blocks = swap_blocks});
    all.back().window_tokens = window;
    bind(all);
  }
  void bind(const std::vector<KvTestGroup>& groups, GroupId ledger_group = 0) {
    const Status status = try_bind(groups, ledger_group);
    ASSERT_TRUE(status.ok()) << status.message();
    next_step();
  }
  Status try_bind(const std::vector<KvTestGroup>& groups, GroupId ledger_group = 0) {
    shapes_.clear();
    sizes_.clear();
    for (const KvTestGroup& group : groups) {
      shapes_.emplace_back();
      shapes_.back().kind = group.kind;
      shapes_.back().window_tokens = group.window_tokens;
      sizes_.push_back({group.dtype, group.block_tokens, group.blocks, 8, group.swap_blocks});
    }
    shape_.group_count = static_cast<uint32_t>(groups.size());
    shape_.ledger_group = ledger_group;
    shape_.groups = shapes_.data();
    return kv().bind(shape_, {1024, 8, shape_.group_count, sizes_.data()});
  }
  KVCacheManager& kv() { return **kv_; }
  void next_step() {
    EXPECT_TRUE(kv().step_done(step_).ok());
    EXPECT_TRUE(kv().step_begin(++step_).ok());
  }

  void begin(SeqId seq, CacheKey key = {}) {
    const Status status = kv().begin({seq, key, 600, kNoSeq, 0});
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void fork(SeqId seq, SeqId parent, uint32_t parent_tokens) {
    const Status status = kv().begin({seq, {}, 600, parent, parent_tokens});
    ASSERT_TRUE(status.ok()) << status.message();
  }
  KvMatch match(SeqId seq, const Tokens& known, uint32_t wanted = 0) {
    KvMatch found;
    const Status status = kv().match(seq, known, wanted, found);
    EXPECT_TRUE(status.ok()) << status.message();
    return found;
  }
  // Slots for what `known` has after `computed`.
  KvGrant grow(SeqId seq, const Tokens& known, uint32_t computed = 0) {
    KvGrant grant;
    const auto most = static_cast<uint32_t>(known.size()) - computed;
    const Status status = test::grow(kv(), seq, known, computed, 1, most, grant);
    EXPECT_TRUE(status.ok()) << status.message();
    expect_sound();
    return grant;
  }
  StatusCode try_grow(SeqId seq, const Tokens& known, uint32_t computed = 0) {
    KvGrant grant;
    const auto all = static_cast<uint32_t>(known.size()) - computed;
    const StatusCode code = test::grow(kv(), seq, known, computed, all, all, grant).code();
    expect_sound();
    return code;
  }
  void resolve(SeqId seq, const Tokens& known, uint32_t base, uint32_t computed) {
    std::vector<uint32_t> kept(computed - base);
    std::iota(kept.begin(), kept.end(), 0u);
    const Status status = test::resolve(kv(), seq, known, base, kept, computed);
    EXPECT_TRUE(status.ok()) << status.message();
    expect_sound();
  }
  // Slots for a step that is planned before another one is collected: `known` tokens and `drafts`
  // after `computed`.
  Status plan(SeqId seq, uint32_t computed, uint32_t known, uint32_t drafts = 0) {
    const Tokens ids = tokens(computed);
    KvGrant grant;
    const uint32_t most = known + drafts - computed;
    Status status = kv().grow({.seq = seq,
                               .tokens = ids,
                               .known_tokens = known,
                               .computed = computed,
                               .at_least = most,
                               .at_most = most},
                              grant);
    expect_sound();
    return status;
  }
  // The step that began after `base` kept `count` leading slots, and more are in flight.
  Status settle(SeqId seq, uint32_t base, uint32_t count, uint32_t in_flight = 0) {
    std::vector<uint32_t> kept(count);
    std::iota(kept.begin(), kept.end(), 0u);
    const Tokens ids = tokens(base + count);
    Status status = kv().resolve({.seq = seq,
                                  .tokens = ids,
                                  .base = base,
                                  .kept = kept,
                                  .computed = base + count,
                                  .in_flight = in_flight});
    expect_sound();
    return status;
  }
  // A step of `count` after `computed`, where nothing was to be found.
  void compute(SeqId seq, uint32_t computed, uint32_t count) {
    EXPECT_EQ(compute(seq, tokens(computed + count), computed), 0u);
  }
  // A step that computes everything known after `computed`. Returns what was found.
  uint32_t compute(SeqId seq, const Tokens& known, uint32_t computed = 0) {
    const KvGrant grant = grow(seq, known, computed);
    EXPECT_EQ(computed + grant.reused + grant.granted, known.size());
    resolve(seq, known, computed + grant.reused, static_cast<uint32_t>(known.size()));
    next_step();
    return grant.reused;
  }
  Status release(SeqId seq, ReleaseHow how = ReleaseHow::end) {
    Status status = kv().release(seq, how);
    expect_sound();
    return status;
  }
  // Computes and ends.
  uint32_t serve(SeqId seq, const Tokens& known, CacheKey key = {}) {
    begin(seq, key);
    const uint32_t reused = compute(seq, known);
    EXPECT_TRUE(release(seq).ok());
    return reused;
  }

  std::vector<BlockId> table(SeqId seq, GroupId group = 0) {
    KvTableView view;
    EXPECT_TRUE(kv().table(seq, group, view).ok());
    return {view.blocks.begin(), view.blocks.end()};
  }
  // Entries that a window has left behind.
  size_t gone(SeqId seq) {
    const std::vector<BlockId> blocks = table(seq);
    return static_cast<size_t>(std::count(blocks.begin(), blocks.end(), kNoBlock));
  }
  std::vector<KvMove> moves() {
    std::array<KvMove, 64> room;
    KvMovesOut out{room, 0};
    EXPECT_TRUE(kv().take_moves(out).ok());
    return {room.begin(), room.begin() + out.count};
  }
  KvUsage usage(GroupId group = 0) { return test::usage(kv(), group); }
  uint64_t free_blocks() { return usage().free_tokens / sizes_[0].block_tokens; }
  uint64_t cached_blocks() { return usage().cached_tokens / sizes_[0].block_tokens; }
  void expect_sound() {
    const Status status = kv().check();
    EXPECT_TRUE(status.ok()) << status.message();
  }

  std::string id_;
  TestHost host_;
  std::unique_ptr<Plugin> kv_;
  ModelShape shape_;
  std::vector<KvGroup> shapes_;
  std::vector<KvGroupGeometry> sizes_;
  uint64_t step_ = 0;
};

}  // namespace tenon::test
