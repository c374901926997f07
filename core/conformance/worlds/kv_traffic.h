// Random traffic over a KV manager, against memory that remembers what every slot holds.
//
// Steps carry moves out and write rows as an executor would; then every position that a row may
// read must hold what the sequence's own tokens say, and so must every state. Drafts form random
// trees, of which a random path is accepted. With plan_ahead a step is planned before the one in
// front of it was collected, sequences end while they are in flight, and the device does all of a
// step's work as late as it may. Whatever a manager shares, copies, evicts, swaps or rolls back:
// one slot too early or too late is seen here.
#pragma once

#include <tenon/kv_cache.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/conformance/worlds/kv_device.h"

namespace tenon {

struct KvTrafficOptions {
  std::vector<KvTestGroup> groups = std::vector<KvTestGroup>(1);
  uint32_t context_tokens = 64;
  uint32_t sequences = 8;
  uint32_t steps = 400;
  bool plan_ahead = false;
  bool trees = true;  // drafts form trees, of which a path is kept that is not the leading slots
};

class KvTraffic {
 public:
  KvTraffic(KVCacheManager& kv, const KvTrafficOptions& options, uint64_t seed)
      : kv_(kv), options_(options), random_(seed * 2 + 1), device_(options.groups, fault_) {
    for (const KvTestGroup& group : options.groups) {
      shapes_.emplace_back();
      shapes_.back().kind = group.kind;
      shapes_.back().window_tokens = group.window_tokens;
      sizes_.push_back({group.dtype, group.block_tokens, group.blocks, 8, group.swap_blocks});
      recurrent_ |= group.recurrent();
      windows_ |= group.window_tokens > 0 || group.kept_tokens > 0;
    }
    ModelShape model;
    model.group_count = groups();
    model.groups = shapes_.data();
    ok(kv.bind(model, {options.context_tokens, options.sequences, groups(), sizes_.data()}));
  }

  // Stops at the first thing that is wrong.
  void run() {
    for (uint32_t i = 0; i < options_.steps && !fault_.any(); ++i) step();
    if (flight_) collect(nullptr);
    while (!live_.empty() && !fault_.any()) end(live_.begin()->first);
    ok(kv_.step_done(step_));
    sound();
    for (GroupId g = 0; g < groups(); ++g) {
      const KvUsage left = usage(g);
      expect(left.free_tokens == left.total_tokens,
             text(left.free_tokens) + " of " + text(left.total_tokens) +
                 " tokens are free once every sequence has ended: blocks were lost");
      expect(left.used_tokens == 0, "slots are used once every sequence has ended");
      expect(left.swapped_tokens == 0, "the pool is not empty once every sequence has ended");
    }
  }

  // What was wrong; empty = nothing.
  const std::string& fault() const { return fault_.text(); }

  uint64_t reused() const { return reused_; }
  uint64_t restored() const { return restored_; }
  uint64_t swapped() const { return swapped_; }
  uint64_t refused() const { return refused_; }
  uint64_t copied_tokens() const { return device_.memory().copied_tokens(); }
  uint64_t ahead() const { return ahead_; }  // grants after a step in flight
  uint64_t paths() const { return paths_; }  // kept although they are not the leading slots
  uint64_t cut() const { return cut_; }      // grants that end where entries are evicted

 private:
  struct Live {
    CacheKey key;
    std::vector<TokenId> tokens;
    uint32_t computed = 0;
    bool running = false;
    // Of the step in flight.
    uint32_t in_flight = 0;
    bool draws = false;  // its last known token is among them
    bool open = false;   // and drafts after it
    // Of the plan at hand.
    bool was_waiting = false;
    uint32_t granted = 0;
    uint32_t restored = 0;
    bool copied = false;  // the pool has what it had when it was swapped out

    uint32_t base() const { return computed + in_flight; }
    uint32_t known() const { return static_cast<uint32_t>(tokens.size()) + draws; }
  };
  uint32_t groups() const { return static_cast<uint32_t>(options_.groups.size()); }
  uint32_t alike(uint32_t position) const {
    uint32_t least = UINT32_MAX;
    for (const KvTestGroup& group : options_.groups) {
      least = std::min(least, group.alike(position));
    }
    return least;
  }
  uint32_t below(uint32_t bound) {
    random_ += 0x9e3779b97f4a7c15u;
    return static_cast<uint32_t>((KvMemory::scramble(random_) >> 33) % bound);
  }
  void ok(const Status& status) { fault_.expect(status.ok(), message_of(status)); }
  bool expect(bool holds, const std::string& found) { return fault_.expect(holds, found); }
  static std::string text(uint64_t number) { return std::to_string(number); }
  KvUsage usage(GroupId group = 0) {
    KvUsage made;
    ok(kv_.usage(group, made));
    return made;
  }
  void sound() { ok(kv_.check()); }

  // A step is planned and launched; the previous one is collected before it runs.
  void step() {
    if (flight_ && below(6) == 0) collect(nullptr);
    ok(kv_.step_begin(++step_));
    if (live_.size() < options_.sequences && below(3) == 0) arrive();
    for (uint32_t i = 1 + below(6); i > 0 && !live_.empty(); --i) plan_one();
    if (below(8) == 0) roll_back();
    KvLaunch next = launch();
    if (!live_.empty() && below(12) == 0) end(any()->first);
    if (flight_) collect(&next);
    take_off(std::move(next));
    if (!options_.plan_ahead) collect(nullptr);
    sound();
    if (!live_.empty() && below(6) == 0) end(any()->first);
    if (!live_.empty() && below(8) == 0) fork(any());
    check_usage();
  }

  void check_usage() {
    for (GroupId g = 0; g < groups(); ++g) {
      const KvUsage now = usage(g);
      const uint64_t sum = now.reserved_tokens + now.free_tokens;
      expect(options_.plan_ahead ? sum <= now.total_tokens : sum == now.total_tokens,
             text(now.reserved_tokens) + " reserved and " + text(now.free_tokens) +
                 " free tokens do not make " + text(now.total_tokens));
      expect(now.used_tokens <= now.reserved_tokens, "more slots are used than reserved");
      expect(now.cached_tokens <= now.free_tokens, "more tokens are cached than free");
    }
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
      live.tokens.push_back(static_cast<TokenId>(KvMemory::scramble(stem * 1000 + p) % 50));
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
    if (live.granted > 0 || live.open || live.known() > options_.context_tokens) return;
    if (live.running && live.in_flight == 0 && below(8) == 0) return preempt(seq, live);
    const uint32_t left = live.known() - live.base();
    const uint32_t room = options_.context_tokens - live.known();
    const uint32_t drafts = below(3) == 0 ? std::min(room, below(8)) : 0;
    const bool chunk = drafts == 0 && below(3) == 0;
    uint32_t wanted = chunk ? 1 + below(left) : left + drafts;
    KvMatch match;
    ok(kv_.match(seq, live.tokens, live.base() + wanted, match));
    // After what comes back from the pool, the manager ends the grant itself.
    if (match.ready == 0 && wanted > alike(live.base())) {
      wanted = alike(live.base());
      ok(kv_.match(seq, live.tokens, live.base() + wanted, match));
      ++cut_;
    }
    const bool fits = match.tokens_needed <= usage().free_tokens;
    KvGrant grant;
    const Status status = kv_.grow({.seq = seq,
                                    .tokens = live.tokens,
                                    .known_tokens = live.known(),
                                    .computed = live.base(),
                                    .at_least = chunk ? 1 : wanted,
                                    .at_most = wanted},
                                   grant);
    sound();
    if (!status.ok()) {
      expect(status.code() == StatusCode::out_of_kv, message_of(status));
      expect(!(fits && groups() == 1), "grow finds no memory for what match said would fit");
      ++refused_;
      return;
    }
    expect(fits || chunk || groups() > 1, "grow finds memory for what match said would not fit");
    expect(grant.reused == (live.base() == 0 ? match.ready : 0u),
           "grow reuses " + text(grant.reused) + " tokens, match said " + text(match.ready));
    expect(grant.reused < live.tokens.size(), "grow leaves no token to compute");
    live.was_waiting = !live.running;
    live.granted = grant.granted;
    live.restored = grant.restored;
    live.computed += grant.reused;
    live.running = true;
    reused_ += grant.reused - grant.restored;
    restored_ += grant.restored;
    ahead_ += live.in_flight > 0;
    if (below(4) == 0) trim(seq, live, below(live.granted + 1));
  }

  // The scheduler takes less than it was given, or nothing.
  void trim(SeqId seq, Live& live, uint32_t tokens) {
    ok(kv_.trim(seq, tokens));
    sound();
    live.granted = tokens;
  }

  void preempt(SeqId seq, Live& live) {
    if (below(2) == 0) {
      const uint64_t before = usage().swapped_tokens;
      const Status status = kv_.release(seq, ReleaseHow::swap);
      sound();
      const uint64_t now = usage().swapped_tokens;
      if (status.ok()) {
        if (!windows_ && !live.copied) {
          const uint64_t wanted =
              shapes_[0].kind == KvKind::recurrent ? live.computed > 0 : live.computed;
          expect(now - before == wanted, text(now - before) +
                                             " tokens were moved to the pool, of " + text(wanted) +
                                             " that were computed");
        }
        ++swapped_;
        return wait(live, true);
      }
      expect(now == before, "a swap that was refused changed the pool");
    }
    ok(kv_.release(seq, ReleaseHow::recompute));
    sound();
    wait(live);
  }
  static void wait(Live& live, bool copied = false) {
    live.computed = live.granted = 0;
    live.running = false;
    live.copied = copied;
  }

  void roll_back() {
    for (auto& [seq, live] : live_) {
      if (live.granted == 0) continue;
      if (!live.was_waiting || below(2) == 0) {
        trim(seq, live, 0);
        continue;
      }
      const bool swap = live.restored > 0;
      ok(kv_.release(seq, swap ? ReleaseHow::swap : ReleaseHow::recompute));
      wait(live, swap);
      sound();
    }
  }

  KvLaunch launch() {
    KvLaunch made;
    made.step = step_;
    std::vector<KvMove> room(16);
    KvMovesOut out{room, 0};
    do {
      out.count = 0;
      ok(kv_.take_moves(out));
      made.moves.insert(made.moves.end(), room.begin(), room.begin() + out.count);
    } while (out.count == room.size());
    for (auto& [seq, live] : live_) {
      if (live.granted > 0) made.shares.push_back(share_of(seq, live));
    }
    if (flight_) check_handed_out(made);
    return made;
  }
  KvShare share_of(SeqId seq, Live& live) {
    KvShare share;
    share.seq = seq;
    share.base = live.base();
    share.slots = live.granted;
    share.rows = std::min(live.granted, live.known() - live.base());
    // A drafter may have less to say than there is room for.
    for (uint32_t d = 0; d < live.granted - share.rows && below(8) > 0; ++d) {
      const uint32_t parent = recurrent_ || !options_.trees ? d : below(d + 1);
      share.parents.push_back(static_cast<int32_t>(parent) - 1);
      share.drafts.push_back(static_cast<TokenId>(below(3)));
    }
    for (GroupId g = 0; g < groups(); ++g) {
      KvTableView view;
      ok(kv_.table(seq, g, view));
      share.tables.emplace_back(view);
    }
    return share;
  }

  // What a step in flight reads or writes is nobody else's to write.
  void check_handed_out(const KvLaunch& made) {
    const auto expect_free = [&](SeqId seq, GroupId g, BlockId block) {
      for (const KvShare& other : flight_->shares) {
        if (other.seq == seq || !other.tables[g].names(block)) continue;
        expect(false, "block " + text(static_cast<uint64_t>(block)) + " of group " + text(g) +
                          " is handed out while a step in flight uses it");
      }
    };
    for (const KvMove& move : made.moves) {
      if (move.to.tier == KvTier::cache) expect_free(kNoSeq, move.group, move.to.block);
    }
    for (const KvShare& share : made.shares) {
      for (GroupId g = 0; g < groups(); ++g) {
        const std::vector<BlockId>& blocks = share.tables[g].blocks;
        const uint32_t size = options_.groups[g].block_tokens;
        const uint32_t entry = share.base - share.tables[g].borrowed.evicted;
        size_t first = options_.groups[g].recurrent() ? 1 : entry / size;
        for (; first < blocks.size(); ++first) expect_free(share.seq, g, blocks[first]);
      }
    }
  }

  void take_off(KvLaunch next) {
    for (auto& [seq, live] : live_) {
      live.granted = 0;
      const KvShare* share = next.find(seq);
      if (share == nullptr) continue;
      live.in_flight = share->slots;
      live.draws = share->base + share->rows == live.tokens.size();
      live.open = share->slots > share->rows;
    }
    flight_ = std::move(next);
  }

  // The step in flight runs and is resolved; `next` has been planned after it.
  void collect(KvLaunch* next) {
    const KvLaunch now = std::move(*flight_);
    flight_.reset();
    if (fault_.any()) return;
    device_.carry(now.moves);
    for (const KvShare& share : now.shares) {
      if (live_.contains(share.seq) && !share.dropped) {
        device_.expect_as_launched(share);
        device_.write(share, live_[share.seq].key, live_[share.seq].tokens);
      } else if (below(2) == 0) {
        device_.spoil(share);
      }
    }
    if (!options_.plan_ahead) read_idle(now);
    const bool done_first = below(2) == 0;
    if (done_first) ok(kv_.step_done(now.step));
    for (const KvShare& share : now.shares) {
      if (live_.contains(share.seq) && !share.dropped) resolve(share, next);
    }
    if (!done_first) ok(kv_.step_done(now.step));
    sound();
  }

  // Sequences that have no part in the step still have what they had.
  void read_idle(const KvLaunch& now) {
    for (const auto& [seq, live] : live_) {
      if (!live.running || now.find(seq) != nullptr) continue;
      const auto ids = KvMemory::identities(live.key, std::span(live.tokens).first(live.computed));
      for (GroupId g = 0; g < groups(); ++g) {
        KvTableView view;
        ok(kv_.table(seq, g, view));
        if (!options_.groups[g].recurrent()) {
          device_.read(seq, g, KvTableCopy(view), live.computed, ids);
        } else if (live.computed > 0) {
          expect(device_.state(g, view.blocks[0]) == ids.back(),
                 "sequence " + text(seq) + " lost its state while it had no part in a step");
        }
      }
    }
  }

  // Accepts a path of the drafts: from a node up to the root.
  std::vector<uint32_t> accept(const KvShare& share) {
    std::vector<uint32_t> path;
    const auto drafts = static_cast<uint32_t>(share.drafts.size());
    for (auto d = static_cast<int32_t>(below(drafts + 1)) - 1; d >= 0;
         d = share.parents[static_cast<size_t>(d)]) {
      path.insert(path.begin(), static_cast<uint32_t>(d));
    }
    return path;
  }

  void resolve(const KvShare& share, KvLaunch* next) {
    Live& live = live_[share.seq];
    std::vector<uint32_t> kept(share.rows);
    for (uint32_t i = 0; i < share.rows; ++i) kept[i] = i;
    for (uint32_t draft : accept(share)) {
      kept.push_back(share.rows + draft);
      live.tokens.push_back(share.drafts[draft]);
    }
    paths_ += !kept.empty() && kept.back() + 1 != kept.size();
    live.computed = share.base + static_cast<uint32_t>(kept.size());
    if (live.computed == live.tokens.size()) live.tokens.push_back(static_cast<TokenId>(below(3)));
    live.in_flight = 0;
    live.draws = live.open = live.copied = false;
    const KvShare* behind = next == nullptr ? nullptr : next->find(share.seq);
    ok(kv_.resolve({.seq = share.seq,
                    .tokens = live.tokens,
                    .base = share.base,
                    .kept = kept,
                    .computed = live.computed,
                    .in_flight = behind == nullptr ? 0 : behind->slots}));
    sound();
    if (live.tokens.size() < options_.context_tokens) return;
    for (size_t i = 0; next != nullptr && i < next->shares.size(); ++i) {
      if (next->shares[i].seq == share.seq) next->shares[i].dropped = true;
    }
    end(share.seq);
  }

  void fork(std::map<SeqId, Live>::iterator parent) {
    Live child = parent->second;
    if (!child.running || child.computed == 0) return;
    // What it would see earlier may be gone.
    if (!windows_ && !recurrent_ && below(2) == 0) child.computed = 1 + below(child.computed);
    child.in_flight = child.granted = 0;
    child.draws = child.open = child.copied = false;
    // At least one token is left to compute, as after sampling.
    child.tokens.resize(child.computed + 1);
    child.tokens.back() = static_cast<TokenId>(below(3));
    const SeqId seq = next_++;
    const Status status =
        kv_.begin({seq, child.key, options_.context_tokens, parent->first, child.computed});
    if (status.ok()) live_.emplace(seq, child);
    expect(status.ok() || status.code() == StatusCode::out_of_kv, message_of(status));
    sound();
  }

  void end(SeqId seq) {
    ok(kv_.release(seq, ReleaseHow::end));
    live_.erase(seq);
    sound();
  }

  FirstFault fault_;
  KVCacheManager& kv_;
  KvTrafficOptions options_;
  uint64_t random_;
  KvDevice device_;
  std::vector<KvGroup> shapes_;
  std::vector<KvGroupGeometry> sizes_;
  bool recurrent_ = false, windows_ = false;
  std::map<SeqId, Live> live_;
  std::optional<KvLaunch> flight_;
  SeqId next_ = 1;
  uint64_t step_ = 0;
  uint64_t reused_ = 0, restored_ = 0, swapped_ = 0, refused_ = 0, ahead_ = 0, paths_ = 0;
  uint64_t cut_ = 0;
};

}  // namespace tenon
