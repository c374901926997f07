// What <tenon/kv_cache.h> promises.
#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "core/base/quote.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/watch/heap_growth.h"
#include "core/conformance/worlds/kv_traffic.h"
#include "core/plugin/facts/fact_set.h"

namespace tenon {
namespace {

constexpr uint32_t kContext = 64;
constexpr uint32_t kSequences = 8;

// Whether its blocks hold the whole context, and nothing else.
bool one_block_a_context(const Subject& subject) {
  const PluginDescriptor& plugin = subject.descriptor();
  std::vector<Fact> said;
  for (const Fact& fact : std::span(plugin.provides, plugin.provide_count)) {
    if (fact.key == "kv.block_tokens") said.push_back(fact);
  }
  return !said.empty() && !FactSet::of(said, kContext).allows(int64_t{4});
}

KvTestGroup group_of(const Subject& subject, uint32_t tokens) {
  KvTestGroup group;
  group.block_tokens = one_block_a_context(subject) ? kContext : 4;
  group.blocks = std::max(tokens / group.block_tokens, kContext / group.block_tokens);
  return group;
}

// A manager that is bound, and what it was bound to.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> make(Subject& subject, uint32_t tokens) {
    auto made = std::make_unique<Bench>();
    TENON_ASSIGN_OR_RETURN(made->kv_, subject.make<KVCacheManager>());
    const KvTestGroup group = group_of(subject, tokens);
    made->shape_.kind = KvKind::attention;
    made->size_ = {DType::f32, group.block_tokens, group.blocks, 8, 0};
    ModelShape& model = made->model_;
    model.group_count = 1;
    model.context_tokens = kContext;
    model.groups = &made->shape_;
    TENON_RETURN_IF_ERROR(made->kv_->bind(model, {kContext, kSequences, 1, &made->size_}));
    TENON_RETURN_IF_ERROR(made->kv_->step_begin(++made->step_));
    return made;
  }

  KVCacheManager& kv() { return *kv_; }
  bool evicts() const { return kv_.extension<KvEviction>(kKvEviction) != nullptr; }
  uint32_t block_tokens() const { return size_.block_tokens; }
  uint32_t blocks() const { return size_.blocks; }

  Status next_step() {
    TENON_RETURN_IF_ERROR(kv_->step_done(step_));
    TENON_RETURN_IF_ERROR(kv_->step_begin(++step_));
    return kv_->check();
  }
  Status grow(SeqId seq, std::span<const TokenId> tokens, uint32_t computed, KvGrant& grant) {
    const auto known = static_cast<uint32_t>(tokens.size());
    return kv_->grow({.seq = seq,
                      .tokens = tokens,
                      .known_tokens = known,
                      .computed = computed,
                      .at_least = known - computed,
                      .at_most = known - computed},
                     grant);
  }
  // A step that computes all of `tokens`; what was reused.
  Result<uint32_t> compute(SeqId seq, std::span<const TokenId> tokens) {
    KvGrant grant;
    TENON_RETURN_IF_ERROR(grow(seq, tokens, 0, grant));
    KvMove room[64];
    KvMovesOut moves{room, 0};
    do {
      moves.count = 0;
      TENON_RETURN_IF_ERROR(kv_->take_moves(moves));
    } while (moves.count == moves.moves.size());
    std::vector<uint32_t> kept(tokens.size() - grant.reused);
    std::iota(kept.begin(), kept.end(), 0u);
    TENON_RETURN_IF_ERROR(kv_->resolve({.seq = seq,
                                        .tokens = tokens,
                                        .base = grant.reused,
                                        .kept = kept,
                                        .computed = static_cast<uint32_t>(tokens.size())}));
    TENON_RETURN_IF_ERROR(next_step());
    return grant.reused;
  }
  Result<std::vector<BlockId>> table(SeqId seq) {
    KvTableView view;
    TENON_RETURN_IF_ERROR(kv_->table(seq, 0, view));
    return std::vector<BlockId>(view.blocks.begin(), view.blocks.end());
  }
  // What it counted, and what it says of how it evicts.
  void note_words(Transcript& to) const {
    if (const auto* eviction = kv_.extension<KvEviction>(kKvEviction)) {
      to.push_back("evicts from " + std::to_string(eviction->first) + " on every " +
                   std::to_string(eviction->every) + ", keeps " +
                   std::to_string(eviction->most_tokens) + ", " + std::string(eviction->numerics));
    }
    for (const auto& [name, amount] : kv_.object().host().counters()) {
      to.push_back("counted " + name + ": " + std::to_string(amount));
    }
  }
  Result<KvUsage> usage() {
    KvUsage made;
    TENON_RETURN_IF_ERROR(kv_->usage(0, made));
    return made;
  }

 private:
  PluginInstance<KVCacheManager> kv_;
  KvGroup shape_;
  KvGroupGeometry size_;
  ModelShape model_;
  uint64_t step_ = 0;
};

std::vector<TokenId> tokens_of(uint32_t count, TokenId kind) {
  std::vector<TokenId> made(count);
  for (uint32_t i = 0; i < count; ++i) made[i] = static_cast<TokenId>(i * 7 + 1) + kind * 1000;
  return made;
}

// Lets `body` find something; its errors are broken promises.
template <typename Body>
Finding with_bench(Subject& subject, uint32_t tokens, Body body) {
  auto bench = Bench::make(subject, tokens);
  if (!bench.ok()) return broke(message_of(bench.status()));
  const Result<Finding> found = body(**bench);
  return found.ok() ? *found : broke(message_of(found.status()));
}

Finding everything_comes_back(Subject& subject) {
  return with_bench(subject, 2 * kContext, [&](Bench& bench) -> Result<Finding> {
    TENON_ASSIGN_OR_RETURN(const KvUsage before, bench.usage());
    for (SeqId seq = 1; seq <= 6; ++seq) {
      const auto tokens = tokens_of(5 + 9 * seq, static_cast<TokenId>(seq));
      TENON_RETURN_IF_ERROR(bench.kv().begin({seq, {}, kContext, kNoSeq, 0}));
      TENON_ASSIGN_OR_RETURN(const uint32_t reused, bench.compute(seq, tokens));
      static_cast<void>(reused);
      TENON_ASSIGN_OR_RETURN(const KvUsage held, bench.usage());
      if (held.used_tokens != tokens.size() && !bench.evicts()) {
        return broke(std::to_string(held.used_tokens) + " slots are used, it says, where one " +
                     "sequence of " + std::to_string(tokens.size()) + " tokens is computed");
      }
      TENON_RETURN_IF_ERROR(bench.kv().release(seq, ReleaseHow::end));
      TENON_RETURN_IF_ERROR(bench.next_step());
    }
    TENON_ASSIGN_OR_RETURN(const KvUsage after, bench.usage());
    if (after.free_tokens == before.free_tokens && after.reserved_tokens == 0) return Finding();
    return broke(std::to_string(before.free_tokens) + " tokens were free at first, and " +
                 std::to_string(after.free_tokens) + " are once every sequence has ended");
  });
}

Finding failure_changes_nothing(Subject& subject) {
  return with_bench(subject, kContext, [&](Bench& bench) -> Result<Finding> {
    const auto own = tokens_of(40, 1), more = tokens_of(60, 2);
    TENON_RETURN_IF_ERROR(bench.kv().begin({1, {}, kContext, kNoSeq, 0}));
    TENON_RETURN_IF_ERROR(bench.kv().begin({2, {}, kContext, kNoSeq, 0}));
    TENON_ASSIGN_OR_RETURN(const uint32_t reused, bench.compute(1, own));
    static_cast<void>(reused);
    TENON_ASSIGN_OR_RETURN(const KvUsage before, bench.usage());
    TENON_ASSIGN_OR_RETURN(const std::vector<BlockId> table, bench.table(1));
    KvGrant grant;
    const Status refused = bench.grow(2, more, 0, grant);
    if (refused.ok()) {
      return broke("memory for 64 tokens, of which 40 are held, is granted for 60 more");
    }
    if (refused.code() != StatusCode::out_of_kv) {
      return broke("a grant that does not fit fails with another code than out_of_kv: " +
                   message_of(refused));
    }
    TENON_RETURN_IF_ERROR(bench.kv().check());
    TENON_ASSIGN_OR_RETURN(const KvUsage after, bench.usage());
    TENON_ASSIGN_OR_RETURN(const std::vector<BlockId> now, bench.table(1));
    if (after.free_tokens == before.free_tokens && after.used_tokens == before.used_tokens &&
        after.reserved_tokens == before.reserved_tokens && now == table) {
      return Finding();
    }
    return broke("a grant that failed changed what is free, reserved or used, or a table");
  });
}

Finding keys_keep_apart(Subject& subject) {
  return with_bench(subject, 3 * kContext, [&](Bench& bench) -> Result<Finding> {
    const auto tokens = tokens_of(33, 1);
    for (SeqId seq = 1; seq <= 2; ++seq) {
      CacheKey key;
      key.salt = seq;
      TENON_RETURN_IF_ERROR(bench.kv().begin({seq, key, kContext, kNoSeq, 0}));
      TENON_ASSIGN_OR_RETURN(const uint32_t reused, bench.compute(seq, tokens));
      if (reused > 0) return broke("tokens of a sequence with another salt are reused");
    }
    std::map<BlockId, SeqId> owners;
    for (SeqId seq = 1; seq <= 2; ++seq) {
      TENON_ASSIGN_OR_RETURN(const std::vector<BlockId> blocks, bench.table(seq));
      for (const BlockId block : blocks) {
        if (block == kNoBlock) continue;
        if (block < 0 || static_cast<uint32_t>(block) >= bench.blocks()) {
          return broke("a table names block " + std::to_string(block) + " of " +
                       std::to_string(bench.blocks()));
        }
        if (const auto [at, is_new] = owners.emplace(block, seq); !is_new && at->second != seq) {
          return broke("block " + std::to_string(block) +
                       " is in the tables of two sequences whose "
                       "keys differ");
        }
      }
    }
    return Finding();
  });
}

Finding forgets_sequences(Subject& subject) {
  return with_bench(subject, 2 * kContext, [&](Bench& bench) -> Result<Finding> {
    return forgets_the_ended(subject.effort(), [&](SeqId seq) -> Status {
      // Few texts: what is cached of them is not of these sequences.
      const auto tokens = tokens_of(5 + 9 * (seq % 4), static_cast<TokenId>(seq % 3));
      TENON_RETURN_IF_ERROR(bench.kv().begin({seq, {}, kContext, kNoSeq, 0}));
      TENON_RETURN_IF_ERROR(bench.compute(seq, tokens).take_status());
      TENON_RETURN_IF_ERROR(bench.kv().release(seq, ReleaseHow::end));
      return bench.next_step();
    });
  });
}

Finding run_traffic(Subject& subject, KvTrafficOptions options) {
  {
    auto bench = Bench::make(subject, kContext);
    if (!bench.ok()) return broke(message_of(bench.status()));
    if ((*bench)->evicts())
      return skipped("it takes tokens out of sequences, as these cases cannot know");
  }
  options.context_tokens = kContext;
  options.trees = subject.provides("kv.trees", "yes");
  options.steps = 100 * subject.effort();
  for (uint32_t i = 0; i < 2 * subject.effort(); ++i) {
    options.plan_ahead = i % 2 == 1;
    auto kv = subject.make<KVCacheManager>();
    if (!kv.ok()) return broke(message_of(kv.status()));
    const std::string world = "world " + std::to_string(subject.seed() + i) + ": ";
    try {
      KvTraffic traffic(**kv, options, subject.seed() + i);
      traffic.run();
      if (!traffic.fault().empty()) return broke(world + traffic.fault());
    } catch (const std::out_of_range&) {
      return broke(world + "a table or a move names a block that does not exist");
    }
  }
  return {};
}

Finding traffic(Subject& subject) {
  return run_traffic(subject, {.groups = {group_of(subject, 3 * kContext)}});
}
Finding scarce_traffic(Subject& subject) {
  return run_traffic(subject, {.groups = {group_of(subject, kContext + 8)}});
}
Finding swap_traffic(Subject& subject) {
  if (!subject.provides("kv.swap", "yes")) return skipped("it has no swap pool");
  KvTestGroup group = group_of(subject, 2 * kContext);
  group.swap_blocks = group.blocks;
  return run_traffic(subject, {.groups = {group}});
}
Finding window_traffic(Subject& subject) {
  KvTestGroup plain = group_of(subject, 2 * kContext), window = plain;
  window.window_tokens = 9;
  return run_traffic(subject, {.groups = {plain, window}});
}
Finding state_traffic(Subject& subject) {
  if (!subject.provides("kv.recurrent", "yes")) return skipped("it hands out no recurrent state");
  const KvTestGroup states{.kind = KvKind::recurrent, .block_tokens = 1, .blocks = 20};
  return run_traffic(subject, {.groups = {group_of(subject, 3 * kContext), states}});
}

}  // namespace

namespace {

// Sequences that have one of `texts` texts, or the beginning of it.
Result<Transcript> exercise_with(Subject& subject, uint64_t seed, uint32_t texts, uint32_t steps) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::make(subject, 4 * kContext));
  CaseRandom random(seed);
  Transcript transcript;
  std::vector<SeqId> live;
  SeqId next = 1;
  for (uint32_t step = 0; step < steps; ++step) {
    if (live.size() == 4 || (!live.empty() && random.one_in(3))) {
      const SeqId seq = live[random.below(static_cast<uint32_t>(live.size()))];
      TENON_RETURN_IF_ERROR(bench->kv().release(seq, ReleaseHow::end));
      live.erase(std::find(live.begin(), live.end(), seq));
      transcript.push_back("released " + std::to_string(seq));
      continue;
    }
    const SeqId seq = next++;
    const auto tokens =
        tokens_of(1 + random.below(kContext - 1), static_cast<TokenId>(random.below(texts)));
    TENON_RETURN_IF_ERROR(bench->kv().begin({seq, {}, kContext, kNoSeq, 0}));
    live.push_back(seq);
    TENON_ASSIGN_OR_RETURN(const uint32_t reused, bench->compute(seq, tokens));
    TENON_ASSIGN_OR_RETURN(const std::vector<BlockId> blocks, bench->table(seq));
    std::string line =
        "sequence " + std::to_string(seq) + " reused " + std::to_string(reused) + ":";
    for (const BlockId block : blocks) line += " " + std::to_string(block);
    transcript.push_back(line);
  }
  bench->note_words(transcript);
  return transcript;
}

}  // namespace

Result<Transcript> exercise_kv_cache(Subject& subject, uint64_t seed) {
  return exercise_with(subject, seed, 3, 40);
}
Result<Transcript> exercise_kv_cache_widely(Subject& subject, uint64_t seed) {
  return exercise_with(subject, seed, 10, 200);  // more than there is memory for
}
Result<Transcript> exercise_kv_cache_at_length(Subject& subject, uint64_t seed) {
  return exercise_with(subject, seed, 40, 2000);
}

CaseList kv_cache_cases() {
  constexpr std::string_view kOf = "kv_cache", kHeader = "kv_cache.h";
  return {
      {"kv_cache.comes_back", kOf, kHeader, "Gives a sequence's blocks back.",
       &everything_comes_back},
      {"kv_cache.ended_sequences", kOf, kHeader, "`end` forgets the sequence;", &forgets_sequences},
      {"kv_cache.failure_changes_nothing", kOf, kHeader,
       "that a failed call changes nothing (`out_of_kv` is normal flow);",
       &failure_changes_nothing},
      {"kv_cache.keys", kOf, kHeader, "Sequences whose keys differ never share a block.",
       &keys_keep_apart},
      {"kv_cache.traffic", kOf, kHeader,
       "that no block is written by two sequences: a shared block is copied before a write (a "
       "move);",
       &traffic},
      {"kv_cache.scarce_traffic", kOf, kHeader,
       "that a released block is handed out again only when every step that was planned with it",
       &scarce_traffic},
      {"kv_cache.swap_traffic", kOf, kHeader,
       "`swap` moves what is computed to the swap pool first;", &swap_traffic},
      {"kv_cache.window_traffic", kOf, kHeader, "Blocks that a window has passed are kNoBlock.",
       &window_traffic},
      {"kv_cache.state_traffic", kOf, kHeader,
       "A block is a slot that holds one sequence's state after some number of tokens.",
       &state_traffic},
  };
}

}  // namespace tenon
