// Random traffic over a KV manager, against memory that remembers what every slot holds.
//
// Each slot of the cache and of the pool holds the identity of one token: a hash of the key and of
// all tokens up to it. Steps carry moves out and write rows as an executor would; then every
// position that a row may read must hold what the sequence's own tokens say. Whatever a manager
// shares, copies, evicts, swaps or rolls back: one slot too early or too late is seen here.
#pragma once

#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tests/support/kv_case.h"

namespace tenon::test {

struct KvWorldOptions {
  uint32_t block_tokens = 4;
  uint32_t blocks = 24;
  uint32_t swap_blocks = 0;
  uint32_t groups = 1;
  uint32_t window_tokens = 0;  // of the last group
  uint32_t context_tokens = 64;
  uint32_t sequences = 8;
  uint32_t steps = 400;
};

class KvWorld {
 public:
  KvWorld(KVCacheManager& kv, const KvWorldOptions& options, uint64_t seed)
      : kv_(kv), options_(options), random_(seed * 2 + 1) {
    shapes_.assign(options.groups, {});
    shapes_.back().window_tokens = options.window_tokens;
    sizes_.assign(options.groups,
                  {DType::f32, options.block_tokens, options.blocks, 8, options.swap_blocks});
    for (uint32_t g = 0; g < options.groups; ++g) {
      cache_.emplace_back(size_t{options.blocks} * options.block_tokens, 0);
      pool_.emplace_back(size_t{options.swap_blocks} * options.block_tokens, 0);
    }
    ModelShape model;
    model.group_count = options.groups;
    model.groups = shapes_.data();
    ok(kv.bind(model, {options.context_tokens, options.sequences, options.groups, sizes_.data()}));
  }

  // Stops at the first thing that is wrong.
  void run() {
    for (uint32_t i = 0; i < options_.steps && !testing::Test::HasFailure(); ++i) step();
    while (!live_.empty() && !testing::Test::HasFailure()) end(live_.begin()->first);
    ok(kv_.step_done(step_));
    const KvUsage usage = test::usage(kv_);
    EXPECT_EQ(usage.free_tokens, usage.total_tokens) << "blocks were lost";
    EXPECT_EQ(usage.used_tokens, 0u);
    EXPECT_EQ(usage.swapped_tokens, 0u);
  }

  uint64_t reused() const { return reused_; }
  uint64_t restored() const { return restored_; }
  uint64_t swapped() const { return swapped_; }
  uint64_t refused() const { return refused_; }
  uint64_t copied_tokens() const { return copied_tokens_; }

 private:
  struct Live {
    CacheKey key;
    std::vector<TokenId> tokens;
    uint32_t computed = 0;
    bool running = false;
    // Of the step at hand.
    bool planned = false;
    bool was_waiting = false;
    uint32_t before = 0;
    uint32_t granted = 0;
    uint32_t restored = 0;
  };

  uint32_t below(uint32_t bound) {
    random_ += 0x9e3779b97f4a7c15u;
    return static_cast<uint32_t>((scramble(random_) >> 33) % bound);
  }
  static uint64_t scramble(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  void ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }
  void sound() { ok(kv_.check()); }

  // What each position of a sequence must hold.
  std::vector<uint64_t> identities(const Live& live, uint32_t count) const {
    std::vector<uint64_t> made;
    uint64_t state = scramble(live.key.salt + 77);
    for (uint32_t p = 0; p < count; ++p) {
      state = scramble(state + static_cast<uint32_t>(live.tokens[p]) + 1);
      made.push_back(state);
    }
    return made;
  }
  uint64_t& cell(const KvPlace& place, GroupId group) {
    auto& store = place.tier == KvTier::swap ? pool_[group] : cache_[group];
    return store.at(static_cast<size_t>(place.block) * options_.block_tokens + place.token);
  }
  uint64_t* slot(SeqId seq, GroupId group, uint32_t position) {
    KvTableView view;
    ok(kv_.table(seq, group, view));
    const uint32_t entry = position / options_.block_tokens;
    if (entry >= view.blocks.size() || view.blocks[entry] == kNoBlock) return nullptr;
    return &cell({{}, view.blocks[entry], position % options_.block_tokens}, group);
  }

  void step() {
    ok(kv_.step_begin(++step_));
    if (live_.size() < options_.sequences && below(3) == 0) arrive();
    for (auto& [seq, live] : live_) live.planned = false;
    for (uint32_t i = 1 + below(6); i > 0 && !live_.empty(); --i) plan_one();
    if (below(8) == 0) {
      roll_back();
    } else {
      carry_out();
    }
    ok(kv_.step_done(step_));
    sound();
    if (!live_.empty() && below(6) == 0) end(any()->first);
    if (!live_.empty() && below(8) == 0) fork(any());
    const KvUsage usage = test::usage(kv_);
    EXPECT_EQ(usage.reserved_tokens + usage.free_tokens, usage.total_tokens);
    EXPECT_LE(usage.used_tokens, usage.reserved_tokens);
    EXPECT_LE(usage.cached_tokens, usage.free_tokens);
  }

  std::map<SeqId, Live>::iterator any() {
    auto it = live_.begin();
    std::advance(it, below(static_cast<uint32_t>(live_.size())));
    return it;
  }

  // Prompts come from few stems, so that beginnings repeat in whole and in part.
  void arrive() {
    Live live;
    live.key.salt = below(4) == 0 ? 1 : 0;
    const uint32_t stem = below(3);
    const uint32_t length = 1 + below(options_.context_tokens / 2);
    for (uint32_t p = 0; p < length; ++p) {
      live.tokens.push_back(static_cast<TokenId>(scramble(stem * 1000 + p) % 50));
    }
    for (uint32_t tail = below(5); tail > 0; --tail) {
      live.tokens.push_back(static_cast<TokenId>(below(3)));
    }
    const SeqId seq = next_++;
    ok(kv_.begin({seq, live.key, options_.context_tokens, kNoSeq, 0}));
    live_.emplace(seq, live);
  }

  void plan_one() {
    auto& [seq, live] = *any();
    if (live.planned) return;
    if (live.running && below(8) == 0) return preempt(seq, live);
    const auto left = static_cast<uint32_t>(live.tokens.size()) - live.computed;
    const uint32_t room = options_.context_tokens - static_cast<uint32_t>(live.tokens.size());
    const uint32_t drafts = below(3) == 0 ? std::min(room, below(6)) : 0;
    const bool chunk = drafts == 0 && below(3) == 0;
    const uint32_t wanted = chunk ? 1 + below(left) : left + drafts;
    KvMatch match;
    ok(kv_.match(seq, live.tokens, live.computed + wanted, match));
    const bool fits = match.tokens_needed <= usage(kv_).free_tokens;
    const bool waiting = !live.running;
    KvGrant grant;
    const Status status =
        grow(kv_, seq, live.tokens, live.computed, chunk ? 1 : wanted, wanted, grant);
    sound();
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::out_of_kv) << status.message();
      EXPECT_FALSE(fits && options_.groups == 1) << "it should have fitted";
      ++refused_;
      return;
    }
    EXPECT_TRUE(fits || chunk || options_.groups > 1) << "it should not have fitted";
    EXPECT_EQ(grant.reused, waiting ? match.ready : 0u);
    EXPECT_LT(grant.reused, live.tokens.size());
    live.planned = true;
    live.was_waiting = waiting;
    live.before = live.computed;
    live.granted = grant.granted;
    live.restored = grant.restored;
    live.computed += grant.reused;
    live.running = true;
    reused_ += grant.reused - grant.restored;
    restored_ += grant.restored;
  }

  void preempt(SeqId seq, Live& live) {
    if (below(2) == 0) {
      const uint64_t free = usage(kv_).swapped_tokens;
      const Status status = kv_.release(seq, ReleaseHow::swap);
      sound();
      if (status.ok()) {
        EXPECT_EQ(usage(kv_).swapped_tokens, free + live.computed);
        ++swapped_;
        live.computed = 0;
        live.running = false;
        return;
      }
      EXPECT_EQ(usage(kv_).swapped_tokens, free);
    }
    ok(kv_.release(seq, ReleaseHow::recompute));
    sound();
    live.computed = 0;
    live.running = false;
  }

  void roll_back() {
    for (auto& [seq, live] : live_) {
      if (!live.planned) continue;
      live.computed = live.before;
      if (!live.was_waiting) {
        ok(test::resolve(kv_, seq, live.tokens, live.computed, {}, live.computed));
      } else {
        live.running = false;
        const auto how = live.restored > 0 ? ReleaseHow::swap : ReleaseHow::recompute;
        ok(kv_.release(seq, how));
      }
      sound();
    }
  }

  void carry_out() {
    std::vector<KvMove> room(16);
    KvMovesOut out{room, 0};
    do {
      out.count = 0;
      ok(kv_.take_moves(out));
      for (const KvMove& move : std::span(room).first(out.count)) carry(move);
    } while (out.count == room.size());
    std::vector<SeqId> planned;
    for (auto& [seq, live] : live_) {
      if (live.planned) planned.push_back(seq);
    }
    std::map<SeqId, std::vector<uint32_t>> kept;
    for (SeqId seq : planned) kept[seq] = write(seq, live_[seq]);
    for (auto& [seq, live] : live_) {
      const auto rows = static_cast<uint32_t>(kept.contains(seq) ? leading(kept[seq]) : 0);
      if (live.running) read(seq, live, live.computed + rows);
    }
    for (SeqId seq : planned) resolve(seq, live_[seq], kept[seq]);
  }
  void carry(const KvMove& move) {
    std::vector<uint64_t> read;
    for (uint32_t t = 0; t < move.tokens; ++t) {
      KvPlace from = move.from;
      from.token += t;
      read.push_back(cell(from, move.group));
    }
    for (uint32_t t = 0; t < move.tokens; ++t) {
      KvPlace to = move.to;
      to.token += t;
      cell(to, move.group) = read[t];
    }
    copied_tokens_ += move.tokens;
  }
  static size_t leading(const std::vector<uint32_t>& kept) {
    size_t count = 0;
    while (count < kept.size() && kept[count] == count) ++count;
    return count;
  }

  // Rows of known tokens, then drafts of which some are accepted, wherever they stand. Returns the
  // offsets that stay; their tokens are known from then on.
  std::vector<uint32_t> write(SeqId seq, Live& live) {
    const auto left = static_cast<uint32_t>(live.tokens.size()) - live.computed;
    std::vector<uint32_t> kept;
    for (uint32_t i = 0; i < live.granted; ++i) {
      const bool known = i < left;
      if (!known && below(2) == 0) continue;
      if (!known) live.tokens.push_back(static_cast<TokenId>(below(3)));
      kept.push_back(i);
    }
    const auto ids = identities(live, live.computed + static_cast<uint32_t>(kept.size()));
    for (GroupId g = 0; g < options_.groups; ++g) {
      for (uint32_t i = 0; i < live.granted; ++i) {
        uint64_t* at = slot(seq, g, live.computed + i);
        if (at == nullptr) {
          ADD_FAILURE() << "no slot for a granted token";
          continue;
        }
        *at = ++junk_;
      }
      for (uint32_t i = 0; i < kept.size(); ++i) {
        if (uint64_t* at = slot(seq, g, live.computed + kept[i])) *at = ids[live.computed + i];
      }
    }
    return kept;
  }

  void read(SeqId seq, const Live& live, uint32_t end) {
    const auto ids = identities(live, end);
    for (GroupId g = 0; g < options_.groups; ++g) {
      for (uint32_t p = first_visible(live.computed, shapes_[g].window_tokens); p < end; ++p) {
        const uint64_t* at = slot(seq, g, p);
        ASSERT_NE(at, nullptr) << "sequence " << seq << " lost position " << p;
        ASSERT_EQ(*at, ids[p]) << "sequence " << seq << " group " << g << " position " << p
                               << " of " << end << " step " << step_;
      }
    }
  }

  void resolve(SeqId seq, Live& live, const std::vector<uint32_t>& kept) {
    const uint32_t base = live.computed;
    live.computed = base + static_cast<uint32_t>(kept.size());
    if (live.computed == live.tokens.size()) live.tokens.push_back(static_cast<TokenId>(below(3)));
    ok(test::resolve(kv_, seq, live.tokens, base, kept, live.computed));
    sound();
    if (live.tokens.size() >= options_.context_tokens) finished_.push_back(seq);
    for (SeqId done : finished_) end(done);
    finished_.clear();
  }

  void fork(std::map<SeqId, Live>::iterator parent) {
    Live child = parent->second;
    if (!child.running || child.computed == 0) return;
    const bool window = options_.window_tokens > 0;  // what it would see earlier may be gone
    if (!window && below(2) == 0) child.computed = 1 + below(child.computed);
    // At least one token is left to compute, as after sampling.
    child.tokens.resize(child.computed + 1);
    child.tokens.back() = static_cast<TokenId>(below(3));
    const SeqId seq = next_++;
    const Status status =
        kv_.begin({seq, child.key, options_.context_tokens, parent->first, child.computed});
    if (status.ok()) live_.emplace(seq, child);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::out_of_kv) << status.message();
    sound();
  }

  void end(SeqId seq) {
    ok(kv_.release(seq, ReleaseHow::end));
    live_.erase(seq);
    sound();
  }

  KVCacheManager& kv_;
  KvWorldOptions options_;
  uint64_t random_;
  std::vector<KvGroup> shapes_;
  std::vector<KvGroupGeometry> sizes_;
  std::vector<std::vector<uint64_t>> cache_, pool_;  // [groups][slots]
  std::map<SeqId, Live> live_;
  std::vector<SeqId> finished_;
  SeqId next_ = 1;
  uint64_t step_ = 0;
  uint64_t junk_ = 1;
  uint64_t reused_ = 0, restored_ = 0, swapped_ = 0, refused_ = 0, copied_tokens_ = 0;
};

}  // namespace tenon::test
