#include "core/engine/memory/tiering.h"

#include <algorithm>
#include <numeric>

#include "core/engine/step/drafts/draft_runner.h"

namespace tenon {
namespace {

// How long a prompt is waited for at least, and where nobody knows yet what computing it takes.
constexpr int64_t kLeastPatienceNs = 50'000'000;
constexpr int64_t kUnknownPatienceNs = int64_t{10} * 1'000'000'000;
// With nothing else to do; new requests are looked for as often.
constexpr std::chrono::milliseconds kNap{2};
// Of those that wait, the first are looked for: they are the next to run.
constexpr size_t kMostAwaited = 64;
// A step's cost tells of the next ones'.
constexpr double kWeightOfLast = 0.2;
// While others generate, K/V comes up so many times as fast as it would be computed.
constexpr double kTimesComputing = 12;
// A step of so many rows tells what a prompt's tokens take. Until there was one, they are taken to
// be cheaper than the rows of other steps by a factor.
constexpr uint32_t kRowsOfPrompts = 32;
constexpr double kRowsAreDearer = 10;

void average(double& of, double last) {
  of = of == 0 ? last : of + kWeightOfLast * (last - of);
}

}  // namespace

Tiering::Tiering(EngineContext& context, Forward& forward, uint64_t& last_id)
    : context_(context),
      forward_(forward),
      last_id_(last_id),
      tiers_(context.parts.tiers),
      transfer_(context.parts.transfer),
      world_(tiers_ != nullptr      ? &tiers_->world()
             : transfer_ != nullptr ? &transfer_->world()
                                    : nullptr),
      bytes_(world_ == nullptr ? nullptr : context.parts.executor->kv_blocks()),
      block_tokens_(world_ == nullptr ? 1 : world_->block_tokens),
      step_(BatchBuilder(context.parts, false)) {
  if (world_ == nullptr) return;
  recurs_ = std::ranges::any_of(world_->groups, &TierGroup::is_state);
}

Tiering::~Tiering() {
  if (transfer_ != nullptr) bytes_->watch(nullptr);
  for (const SeqId id : context_.awaiting_kv) drop(entries_.at(id));
}

// Its answer is of no use any more.
void Tiering::drop(Entry& entry) {
  if (entry.seek != 0) tiers_->abandon(entry.seek);
  if (entry.fetch != 0) transfer_->incoming().abandon(entry.fetch);
}

void Tiering::measured(const StepCost& cost) {
  if (cost.rows == 0 || world_ == nullptr) return;
  const auto step_ns = static_cast<double>(cost.duration_ns);
  average(step_ns_, step_ns);
  average(row_ns_, step_ns / cost.rows);
  if (cost.rows >= kRowsOfPrompts) average(fill_ns_, step_ns / cost.rows);
}

// That come up in a step while others generate.
uint32_t Tiering::tokens_a_step() const {
  const double fill_ns = fill_ns_ > 0 ? fill_ns_ : row_ns_ / kRowsAreDearer;
  const double tokens = fill_ns > 0 ? kTimesComputing * step_ns_ / fill_ns : 0;
  constexpr double kMost = 1u << 30;
  return std::max(block_tokens_, static_cast<uint32_t>(std::min(tokens, kMost)));
}

// What the tiers may read meanwhile, for all prompts that wait.
void Tiering::allow_reading() {
  if (tiers_ == nullptr || context_.awaiting_kv.empty()) return;
  if (context_.table.running().empty()) return tiers_->allow_all();
  uint64_t block_bytes = 0;
  for (const TierGroup& group : world_->groups) block_bytes += group.is_state ? 0 : group.bytes;
  const uint64_t blocks = tokens_a_step() / block_tokens_ * context_.awaiting_kv.size();
  tiers_->allow(blocks * block_bytes);
}

// How far what was found is brought in now, where the cache has it up to `ready`: in tokens.
uint32_t Tiering::end_of_step(const FoundKv& found, uint32_t ready) const {
  const uint32_t all = found.end * block_tokens_;
  if (found.is_fetched || context_.table.running().empty() || ready >= all) return all;
  const uint32_t tokens = tokens_a_step();
  if (tokens >= all - ready) return all;
  const uint32_t end = (ready + tokens) / block_tokens_;
  if (!recurs_) return end * block_tokens_;
  uint32_t next = found.end;  // that a sequence can go on from
  for (const auto& [after, states] : found.states) {
    if (after >= end) next = std::min(next, after);
  }
  return next * block_tokens_;
}

Tiering::Entry& Tiering::entry_of(const Sequence& sequence) {
  const auto [place, made] = entries_.try_emplace(sequence.id);
  if (!made) return place->second;
  const RequestState& request = *sequence.request;
  const std::vector<std::string>& adapters = world_->adapters;
  const std::string none;
  const std::string& adapter = request.adapter == 0 || request.adapter > adapters.size()
                                   ? none
                                   : adapters[request.adapter - 1];
  place->second.root = root_digest(world_->text, request.request.cache_salt, adapter);
  return place->second;
}

void Tiering::extend(Entry& entry, const Sequence& sequence, uint32_t blocks) {
  const std::span<const TokenId> tokens = sequence.known_tokens();
  while (entry.contents.size() < blocks) {
    const ContentDigest& before = entry.contents.empty() ? entry.root : entry.contents.back();
    entry.contents.push_back(
        next_digest(before, tokens.subspan(entry.contents.size() * block_tokens_, block_tokens_)));
  }
}

// A sequence that was moved to the swap pool has its K/V there.
bool Tiering::may_seek(const Sequence& sequence) const {
  if (tiers_ == nullptr) return false;
  const AnswerTraits& traits = sequence.answer->traits;
  const bool shares = !traits.own_kv && !traits.whole && !sequence.answer->held_back();
  if (!shares || !sequence.in_kv_cache || sequence.computed > 0) return false;
  const uint32_t preemptions = sequence.record.preemptions;
  const GroupId ledger = context_.parts.shape->ledger_group;
  if (preemptions > 0 && context_.parts.geometry.groups[ledger].swap_blocks > 0) return false;
  const auto entry = entries_.find(sequence.id);
  if (entry == entries_.end() || !entry->second.sought) return true;
  return entry->second.seek == 0 && entry->second.preemptions < preemptions;
}

void Tiering::seek(const Sequence& sequence) {
  Entry& entry = entry_of(sequence);
  entry.sought = true;
  entry.preemptions = sequence.record.preemptions;
  const std::span<const TokenId> tokens = sequence.wanted_tokens();
  const auto most = static_cast<uint32_t>((std::max<size_t>(tokens.size(), 1) - 1) / block_tokens_);
  KvMatch match;
  {
    PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
    if (!context_.parts.kv_cache->match(sequence.id, tokens, 0, match).ok()) return;
  }
  if ((match.ready + match.promised) / block_tokens_ >= most) return;
  extend(entry, sequence, most);
  entry.sought_tokens = most * block_tokens_ - match.ready;
  entry.since_ns = context_.parts.clock->now_ns();
  entry.found = nullptr;
  entry.seek = tiers_->seek(match.ready / block_tokens_,
                            {entry.contents.begin(), entry.contents.begin() + most});
  context_.awaiting_kv.insert(sequence.id);
}

// Others took memory while the tiers were read. Half of what may be left is read as well, so that
// a few blocks that go meanwhile do not do it again; the time that is waited goes on.
void Tiering::seek_more(Entry& entry, uint32_t first) {
  const uint32_t most = entry.found->end;
  entry.found = nullptr;
  entry.seek = tiers_->seek(first / 2, {entry.contents.begin(), entry.contents.begin() + most});
}

void Tiering::seek_waiting() {
  if (context_.alone) return;
  for (const Sequence* sequence : context_.table.waiting()) {
    if (context_.awaiting_kv.contains(sequence->id)) continue;
    if (may_seek(*sequence) && context_.awaiting_kv.size() < kMostAwaited) seek(*sequence);
    if (!context_.awaiting_kv.contains(sequence->id) && may_fetch(*sequence)) fetch(*sequence);
  }
}

bool Tiering::too_late(const Entry& entry) const {
  const int64_t worth_ns =
      row_ns_ == 0
          ? kUnknownPatienceNs
          : std::max(kLeastPatienceNs, static_cast<int64_t>(row_ns_ * entry.sought_tokens));
  return context_.parts.clock->now_ns() - entry.since_ns > worth_ns;
}

// Whether the sequence waits for its K/V no more.
bool Tiering::settle(Sequence& sequence, Entry& entry, Planning planning) {
  if (entry.is_fetching) return settle_fetch(sequence, entry, planning);
  if (entry.found == nullptr) entry.found = tiers_->take(entry.seek);
  if (entry.found == nullptr) {
    if (!too_late(entry)) return false;
    tiers_->abandon(entry.seek);
    tiers_->count_late();
    return true;
  }
  return bring_found(sequence, entry, planning);
}

// Likewise, with what was found.
bool Tiering::bring_found(Sequence& sequence, Entry& entry, Planning planning) {
  if (entry.found->end <= entry.found->first) return true;
  if (planning == Planning::ahead) return false;
  const Brought brought = bring(sequence, *entry.found);
  if (brought == Brought::torn && !entry.found->is_fetched && !too_late(entry)) {
    seek_more(entry, entry.found->first);
    return false;
  }
  if (brought == Brought::part) return too_late(entry);
  const bool room_to_come = brought == Brought::no_room && !context_.table.running().empty();
  return !room_to_come || too_late(entry);
}

void Tiering::collect(Planning planning) {
  const std::vector<SeqId> awaiting(context_.awaiting_kv.begin(), context_.awaiting_kv.end());
  for (const SeqId id : awaiting) {
    Entry& entry = entries_.at(id);
    Sequence* sequence = context_.table.find(id);
    const bool waits = sequence != nullptr && sequence->state == SequenceState::waiting;
    if (!waits) drop(entry);
    if (waits && !settle(*sequence, entry, planning)) continue;
    entry.seek = entry.fetch = 0;
    entry.is_fetching = false;
    entry.found = nullptr;
    // What no tier had may still come from another worker.
    if (waits && may_fetch(*sequence) && fetch(*sequence)) continue;
    context_.awaiting_kv.erase(id);
  }
}

bool Tiering::nothing_else() const {
  if (!context_.table.running().empty()) return false;
  return std::ranges::all_of(context_.table.waiting(), [this](const Sequence* sequence) {
    return context_.awaiting_kv.contains(sequence->id);
  });
}

void Tiering::forget_ended() {
  constexpr size_t kWorthIt = 64;
  const size_t live = context_.table.waiting().size() + context_.table.running().size();
  if (entries_.size() < 2 * live + kWorthIt) return;
  std::erase_if(entries_, [this](const auto& entry) {
    return entry.second.seek == 0 && !entry.second.is_fetching &&
           context_.table.find(entry.first) == nullptr;
  });
}

void Tiering::before_plan(Planning planning) {
  if (world_ == nullptr) return;
  forget_ended();
  seek_waiting();
  allow_reading();
  collect(planning);
  if (context_.awaiting_kv.empty() || planning == Planning::ahead || !nothing_else()) return;
  const bool seeks = std::ranges::any_of(context_.awaiting_kv,
                                         [this](SeqId id) { return entries_.at(id).seek != 0; });
  (void)(seeks ? tiers_->wait_for_any(kNap) : transfer_->incoming().wait_for_any(kNap));
  collect(planning);
}

bool Tiering::has_arrivals() const {
  return std::ranges::any_of(context_.awaiting_kv,
                             [this](SeqId id) { return entries_.at(id).found != nullptr; });
}

void Tiering::give_back(Sequence& sequence) {
  if (sequence.state == SequenceState::ended || !sequence.in_kv_cache) return;
  const EngineParts& parts = context_.parts;
  PluginCall call(*parts.clock, context_.times.kv_cache_ns);
  Status status = parts.kv_cache->release(sequence.id, ReleaseHow::recompute);
  if (status.ok()) return;
  context_.fault(
      plugin_fault("kv_cache", parts.kv_cache_name, "could not release a sequence", status));
}

// A step of one sequence: slots are granted, filled, and given back as what the cache holds.
Tiering::Brought Tiering::bring(Sequence& sequence, const FoundKv& found) {
  uint32_t end = found.end * block_tokens_;
  KVCacheManager& kv_cache = *context_.parts.kv_cache;
  KvMatch match;
  KvGrant grant;
  {
    PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
    if (!kv_cache.match(sequence.id, sequence.wanted_tokens(), 0, match).ok()) return Brought::no;
    if (match.ready >= end) return Brought::no;
    if (match.ready / block_tokens_ < found.first) return Brought::torn;
    end = end_of_step(found, match.ready);
    step_.begin(++last_id_, context_.parts.clock->now_ns());
    if (!kv_cache.step_begin(step_.id).ok()) return Brought::no;
    KvRequest request;
    request.seq = sequence.id;
    request.tokens = sequence.known_tokens().first(size_t{end} + 1);
    request.known_tokens = end + 1;  // the last one is left to compute
    request.at_least = 1;
    request.at_most = end - match.ready;
    const Status grown = kv_cache.grow(request, grant);
    if (!grown.ok()) {
      (void)kv_cache.step_done(step_.id);
      if (grown.code() == StatusCode::out_of_kv) return Brought::no_room;
      context_.fault(plugin_fault("kv_cache", context_.parts.kv_cache_name,
                                  "granted no place for K/V of a tier", grown));
      return Brought::no;
    }
  }
  const Brought brought = fill(sequence, found, grant);
  if (brought != Brought::yes) forward_.done(step_);
  give_back(sequence);
  const bool is_part = brought == Brought::yes && end < found.end * block_tokens_;
  return is_part ? Brought::part : brought;
}

Tiering::Brought Tiering::fill(Sequence& sequence, const FoundKv& found, const KvGrant& grant) {
  KVCacheManager& kv_cache = *context_.parts.kv_cache;
  const uint32_t base = grant.reused;
  const uint32_t end_block = std::min((base + grant.granted) / block_tokens_, found.end);
  const uint32_t end = end_block * block_tokens_;
  const bool starts = !recurs_ || found.states.contains(end_block);
  if (base / block_tokens_ < found.first) return Brought::torn;
  if (end <= base || !starts) return Brought::no;
  if (end < base + grant.granted) {
    PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
    if (!kv_cache.trim(sequence.id, end - base).ok()) return Brought::no;
  }
  Share& share = step_.shares.emplace_back();
  share.sequence = &sequence;
  share.base = base;
  share.tokens = end - base;
  forward_.move(step_);
  DraftRunner* const drafts = context_.parts.draft_runner;
  if (!step_.empty() && drafts != nullptr && !drafts->begin_step(step_.shares).ok()) {
    return Brought::no;
  }
  forward_.assemble(step_);
  if (step_.empty() || !has_states(found)) return Brought::no;
  if (Status status = context_.contracts.kv_cache->write(step_.batch); !status.ok()) {
    context_.fault(plugin_fault("kv_cache", context_.parts.kv_cache_name,
                                "granted no place for K/V of a tier", status));
    return Brought::no;
  }
  write(found, base, end_block);
  forward_.done(step_);
  kept_.resize(end - base);
  std::iota(kept_.begin(), kept_.end(), 0u);
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  const Status resolved = kv_cache.resolve({.seq = sequence.id,
                                            .tokens = sequence.known_tokens(),
                                            .base = base,
                                            .kept = kept_,
                                            .computed = end,
                                            .in_flight = 0});
  if (!resolved.ok()) {
    context_.fault(plugin_fault("kv_cache", context_.parts.kv_cache_name,
                                "could not resolve a step", resolved));
    return Brought::yes;
  }
  if (found.is_fetched) {
    transfer_->incoming().count_found(end - base);
  } else {
    tiers_->count_found(end - base);
  }
  return Brought::yes;
}

// Every slot that the step would write gets its state: also those on the way, which the manager
// keeps for others.
bool Tiering::has_states(const FoundKv& found) const {
  for (const TierGroup& group : world_->groups) {
    if (!group.is_state) continue;
    for (const uint32_t end : step_.batch.groups[group.group].tables[0].ends.subspan(1)) {
      if (end % block_tokens_ != 0 || !found.states.contains(end / block_tokens_)) return false;
    }
  }
  return true;
}

void Tiering::write(const FoundKv& found, uint32_t base, uint32_t end) {
  Stopwatch watch(*context_.parts.clock, context_.times.executor_ns);
  const std::vector<TierGroup>& groups = world_->groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    const KvTableView& table = step_.batch.groups[groups[i].group].tables[0];
    if (groups[i].is_state) {
      for (size_t slot = 1; slot < table.ends.size(); ++slot) {
        const auto& states = found.states.at(table.ends[slot] / block_tokens_);
        bytes_->write_block(groups[i].group, table.blocks[slot], states[i].bytes());
      }
      continue;
    }
    for (uint32_t block = base / block_tokens_; block < end; ++block) {
      if (table.blocks[block] == kNoBlock) continue;
      bytes_->write_block(groups[i].group, table.blocks[block],
                          found.blocks[block - found.first][i].bytes());
    }
  }
}

}  // namespace tenon
