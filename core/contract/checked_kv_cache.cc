#include "core/contract/checked_kv_cache.h"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

// A step moves each slot out, in, and aside at most, and some more than once.
constexpr uint64_t kMostMovesOfASlot = 8;

std::string number(uint64_t value) {
  return std::to_string(value);
}
std::string of(SeqId seq) {
  return " of sequence " + number(seq);
}

// The highest block + 1; kNoBlock wraps around to 0. Four at a time, so that none waits for
// another: tables are long, and every step asks for all of them.
uint32_t end_of(std::span<const BlockId> blocks) {
  std::array<uint32_t, 4> ends = {};
  size_t i = 0;
  for (; i + 4 <= blocks.size(); i += 4) {
    for (size_t k = 0; k < 4; ++k) {
      ends[k] = std::max(ends[k], static_cast<uint32_t>(blocks[i + k]) + 1);
    }
  }
  for (; i < blocks.size(); ++i) ends[0] = std::max(ends[0], static_cast<uint32_t>(blocks[i]) + 1);
  return *std::max_element(ends.begin(), ends.end());
}

}  // namespace

CheckedKvCache::CheckedKvCache(KVCacheManager& plugin, const std::string& name,
                               const ModelShape& shape, const KvGeometry& geometry,
                               CallChecks checks, bool follows_contents)
    : plugin_(plugin),
      checks_(checks),
      geometry_(geometry),
      capacity_(has(shape.ledger_group) ? slots(shape.ledger_group) : UINT32_MAX),
      bind_(name_call("bind", "kv_cache '" + name + "'")),
      begin_(name_call("begin", "kv_cache '" + name + "'")),
      match_(name_call("match", "kv_cache '" + name + "'")),
      grow_(name_call("grow", "kv_cache '" + name + "'")),
      trim_(name_call("trim", "kv_cache '" + name + "'")),
      resolve_(name_call("resolve", "kv_cache '" + name + "'")),
      release_(name_call("release", "kv_cache '" + name + "'")),
      table_(name_call("table", "kv_cache '" + name + "'")),
      take_moves_(name_call("take_moves", "kv_cache '" + name + "'")),
      step_begin_(name_call("step_begin", "kv_cache '" + name + "'")),
      step_done_(name_call("step_done", "kv_cache '" + name + "'")),
      usage_(name_call("usage", "kv_cache '" + name + "'")),
      check_(name_call("check", "kv_cache '" + name + "'")),
      score_(name_call("kv_scores", "kv_cache '" + name + "'")),
      grow_decodes_(name_call("kv_decodes grow", "kv_cache '" + name + "'")),
      resolve_decodes_(name_call("kv_decodes resolve", "kv_cache '" + name + "'")) {
  if (follows_contents) contents_.emplace(shape, geometry);
}

uint64_t CheckedKvCache::slots(GroupId group) const {
  return uint64_t{geometry_.groups[group].blocks} * geometry_.groups[group].block_tokens;
}

Status CheckedKvCache::bind(const ModelShape& model, const KvGeometry& geometry) noexcept {
  CheckedCall call(bind_, checks_);
  return call.readable(plugin_.bind(model, geometry));
}

Status CheckedKvCache::begin(const KvSequence& sequence) noexcept {
  CheckedCall call(begin_, checks_);
  Status status = call.readable(plugin_.begin(sequence));
  if (status.ok() && contents_) contents_->begin(sequence);
  return status;
}

Status CheckedKvCache::score(const KvScores& offered, SeqId seq, GroupId group,
                             std::span<const uint64_t> sums) {
  CheckedCall call(score_, checks_);
  return call.readable(offered.add(offered.self, seq, group, sums));
}

Status CheckedKvCache::grow_decodes(const KvDecodes& offered, uint64_t step_id,
                                    std::span<const KvDecode> sequences) {
  moved_tokens_ = 0;
  CheckedCall call(grow_decodes_, checks_);
  return call.readable(offered.grow(offered.self, step_id, sequences));
}

Status CheckedKvCache::resolve_decodes(const KvDecodes& offered, uint64_t step_id,
                                       std::span<const KvDecode> sequences) {
  CheckedCall call(resolve_decodes_, checks_);
  return call.readable(offered.resolve(offered.self, step_id, sequences));
}

Status CheckedKvCache::match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted_tokens,
                             KvMatch& out) noexcept {
  CheckedCall call(match_, checks_);
  if (Status status = call.readable(plugin_.match(seq, tokens, wanted_tokens, out)); !status.ok()) {
    return status;
  }
  if (uint64_t{out.ready} + out.promised > tokens.size()) {
    return broken_promise("match",
                          "found " + number(out.ready) + " tokens ready and " +
                              number(out.promised) + " promised" + of(seq),
                          "at most " + number(tokens.size()) + ", which are known");
  }
  if (out.tokens_held > capacity_ || out.tokens_exclusive > out.tokens_held) {
    return broken_promise("match",
                          "says that " + number(out.tokens_held) + " tokens are held, " +
                              number(out.tokens_exclusive) + " alone," + of(seq),
                          "at most " + number(capacity_) + ", and not more alone than in all");
  }
  return {};
}

Status CheckedKvCache::grow(const KvRequest& request, KvGrant& out) noexcept {
  if (contents_) contents_->know(request.seq, request.tokens);
  CheckedCall call(grow_, checks_);
  if (Status status = call.readable(plugin_.grow(request, out)); !status.ok()) return status;
  // At least the last known token is left to compute.
  const uint64_t left =
      request.tokens.size() > request.computed ? request.tokens.size() - request.computed : 1;
  if (out.reused > 0 && out.reused >= left) {
    return broken_promise("grow", "reused " + number(out.reused) + " tokens" + of(request.seq),
                          "fewer than the " + number(left) + " that are not computed");
  }
  if (out.restored > out.reused) {
    return broken_promise("grow", "restored " + number(out.restored) + " tokens" + of(request.seq),
                          "at most the " + number(out.reused) + " that it reused");
  }
  const uint64_t least = out.reused > 0 ? 1 : request.at_least;
  const uint64_t end = uint64_t{request.computed} + out.reused + out.granted;
  if (out.granted < least || end > std::max<uint64_t>(capacity_, geometry_.context_tokens)) {
    return broken_promise("grow", "granted " + number(out.granted) + " tokens" + of(request.seq),
                          number(least) + " to " + number(request.at_most));
  }
  return {};
}

Status CheckedKvCache::trim(SeqId seq, uint32_t tokens) noexcept {
  CheckedCall call(trim_, checks_);
  return call.readable(plugin_.trim(seq, tokens));
}

Status CheckedKvCache::resolve(const KvOutcome& outcome) noexcept {
  CheckedCall call(resolve_, checks_);
  Status status = call.readable(plugin_.resolve(outcome));
  if (contents_) contents_->keep(outcome.seq, outcome.computed + outcome.in_flight);
  return status;
}

Status CheckedKvCache::release(SeqId seq, ReleaseHow how) noexcept {
  CheckedCall call(release_, checks_);
  Status status = call.readable(plugin_.release(seq, how));
  if (contents_ && (status.ok() || how == ReleaseHow::end)) contents_->release(seq, how);
  return status;
}

Status CheckedKvCache::table(SeqId seq, GroupId group, KvTableView& out) noexcept {
  CheckedCall call(table_, checks_);
  if (Status status = call.readable(plugin_.table(seq, group, out)); !status.ok()) return status;
  if (!has(group)) return {};
  const KvGroupGeometry& sizes = geometry_.groups[group];
  const uint64_t most = geometry_.context_tokens / std::max(sizes.block_tokens, 1u) + uint64_t{2};
  if (out.blocks.size() > most || out.ends.size() > most) {
    return broken_promise(
        "table",
        "has " + number(std::max(out.blocks.size(), out.ends.size())) + " entries" + of(seq),
        "at most " + number(most) + ", for the whole context");
  }
  if (!contents_) return {};  // nothing is stored where a number leads
  const uint32_t last = end_of(out.blocks);
  if (last <= sizes.blocks) return {};
  return broken_promise("table",
                        "gave block " + std::to_string(static_cast<BlockId>(last - 1)) + of(seq),
                        "0 to " + number(uint64_t{sizes.blocks} - 1));
}

Status CheckedKvCache::check_move(const KvMove& move) const {
  if (!has(move.group)) {
    return broken_promise("take_moves", "names KV group " + number(move.group),
                          "one of the " + number(geometry_.group_count));
  }
  const KvGroupGeometry& group = geometry_.groups[move.group];
  for (const KvPlace* place : {&move.from, &move.to}) {
    const bool known = place->tier == KvTier::cache || place->tier == KvTier::swap;
    const uint32_t blocks = place->tier == KvTier::swap ? group.swap_blocks : group.blocks;
    const bool inside = known && place->block >= 0 && static_cast<uint32_t>(place->block) < blocks;
    if (inside && move.tokens > 0 && uint64_t{place->token} + move.tokens <= group.block_tokens) {
      continue;
    }
    return broken_promise(
        "take_moves",
        "moves " + number(move.tokens) + " tokens at token " + number(place->token) + " of " +
            (place->tier == KvTier::swap ? "swap block " : "block ") + std::to_string(place->block),
        "at least one, in one of " + number(blocks) + " blocks of " + number(group.block_tokens) +
            " tokens");
  }
  return {};
}

Status CheckedKvCache::take_moves(KvMovesOut& out) noexcept {
  const std::span<KvMove> room = out.moves;
  out.moves = moves_.give(room);
  CheckedCall call(take_moves_, checks_);
  Status status = call.readable(plugin_.take_moves(out));
  out.moves = room;
  if (!moves_.take(room, std::min<size_t>(out.count, room.size()))) {
    return wrote_behind("take_moves", "moves");
  }
  if (!status.ok()) return status;
  if (out.count > room.size()) {
    return broken_promise("take_moves", "made " + number(out.count) + " moves",
                          "at most " + number(room.size()) + ", for which there was room");
  }
  uint64_t most = 0;
  for (GroupId id = 0; id < geometry_.group_count; ++id) {
    const KvGroupGeometry& group = geometry_.groups[id];
    most += (uint64_t{group.blocks} + group.swap_blocks) * group.block_tokens * kMostMovesOfASlot;
  }
  for (const KvMove& move : room.first(out.count)) {
    if (Status checked = check_move(move); !checked.ok()) return checked;
    moved_tokens_ += move.tokens;
    if (contents_) contents_->move(move);
  }
  if (moved_tokens_ <= most) return {};
  return broken_promise("take_moves", "moves " + number(moved_tokens_) + " tokens in one step",
                        "an end of it before " + number(most));
}

Status CheckedKvCache::step_begin(uint64_t step_id) noexcept {
  moved_tokens_ = 0;
  CheckedCall call(step_begin_, checks_);
  return call.readable(plugin_.step_begin(step_id));
}

Status CheckedKvCache::step_done(uint64_t step_id) noexcept {
  CheckedCall call(step_done_, checks_);
  return call.readable(plugin_.step_done(step_id));
}

Status CheckedKvCache::usage(GroupId group, KvUsage& out) const noexcept {
  CheckedCall call(usage_, checks_);
  if (Status status = call.readable(plugin_.usage(group, out)); !status.ok()) return status;
  const uint64_t most = has(group) ? slots(group) : UINT64_MAX;
  const bool fits = out.total_tokens <= most && out.free_tokens <= out.total_tokens &&
                    out.reserved_tokens <= out.total_tokens - out.free_tokens &&
                    out.used_tokens <= out.reserved_tokens &&
                    out.swapped_tokens <= out.swap_total_tokens;
  if (fits) return {};
  return broken_promise(
      "usage",
      "counts " + number(out.reserved_tokens) + " tokens reserved, " + number(out.used_tokens) +
          " of them used, " + number(out.free_tokens) + " free of " + number(out.total_tokens) +
          ", and " + number(out.swapped_tokens) + " swapped of " + number(out.swap_total_tokens),
      "parts that are no more than the whole, " + number(most));
}

Status CheckedKvCache::check() const noexcept {
  CheckedCall call(check_, checks_);
  return call.readable(plugin_.check());
}

}  // namespace tenon
