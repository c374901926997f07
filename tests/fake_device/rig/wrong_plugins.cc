#include "tests/fake_device/rig/wrong_plugins.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {

SeqId WrongScheduler::any_of(const SchedulerView& view) {
  const size_t all = view.waiting.size() + view.running.size();
  if (all == 0 || wrong_.below(4) == 0) return wrong_.below(100);
  const size_t which = wrong_.below(static_cast<uint32_t>(all));
  return which < view.waiting.size() ? view.waiting[which].seq
                                     : view.running[which - view.waiting.size()].seq;
}

Status WrongScheduler::on_event(const SequenceEvent& event) noexcept {
  return wrong_.answer(real_.on_event(event));
}

Status WrongScheduler::plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept {
  Status status = real_.plan(view, ledger, out);
  if (wrong_.now()) spoil(view, ledger, out);
  return wrong_.answer(std::move(status));
}

void WrongScheduler::spoil(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
  Grant none;
  Grant& grant =
      out.grant_count == 0 ? none : out.grants[wrong_.below(std::max(out.grant_count, 1u))];
  switch (wrong_.below(9)) {
    case 0:
      out.grant_count = wrong_.instead_of(out.grant_count);
      break;
    case 1:
      grant.seq = any_of(view);
      break;
    case 2:
      grant.tokens = wrong_.instead_of(grant.tokens);
      break;
    case 3:
      grant.drafts = wrong_.instead_of(grant.drafts);
      break;
    case 4:
      out.idle_rows = wrong_.instead_of(out.idle_rows);
      break;
    case 5:
      out.wake_ns = wrong_.below(2) == 0 ? INT64_MAX : INT64_MIN;
      break;
    case 6:
      static_cast<void>(ledger.release(any_of(view), static_cast<ReleaseHow>(wrong_.below(5))));
      break;
    case 7:
      static_cast<void>(ledger.try_grow(any_of(view), wrong_.below(4), wrong_.instead_of(4u)));
      break;
    default:
      static_cast<void>(ledger.cost(any_of(view), wrong_.instead_of(4u)));
      out.grants = out.grants.first(out.grants.size() / 2);
  }
}

Status WrongKvCache::bind(const ModelShape& model, const KvGeometry& geometry) noexcept {
  blocks_ = geometry.groups[0].blocks;
  return real_.bind(model, geometry);
}
Status WrongKvCache::begin(const KvSequence& sequence) noexcept {
  Status status = real_.begin(sequence);
  return on_ ? wrong_.answer(std::move(status)) : std::move(status);
}

Status WrongKvCache::match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted_tokens,
                           KvMatch& out) noexcept {
  Status status = real_.match(seq, tokens, wanted_tokens, out);
  if (!now()) return status;
  uint32_t* const small[] = {&out.ready, &out.promised};
  uint64_t* const large[] = {&out.tokens_needed, &out.tokens_held, &out.tokens_exclusive};
  if (wrong_.below(2) == 0) {
    uint32_t& value = *small[wrong_.below(2)];
    value = wrong_.instead_of(value);
  } else {
    uint64_t& value = *large[wrong_.below(3)];
    value = wrong_.instead_of(value);
  }
  return wrong_.answer(std::move(status));
}

Status WrongKvCache::grow(const KvRequest& request, KvGrant& out) noexcept {
  Status status = real_.grow(request, out);
  if (!now()) return status;
  uint32_t* const values[] = {&out.reused, &out.granted, &out.restored};
  uint32_t& value = *values[wrong_.below(3)];
  value = wrong_.instead_of(value);
  return wrong_.answer(std::move(status));
}

Status WrongKvCache::trim(SeqId seq, uint32_t tokens) noexcept {
  if (now()) tokens = wrong_.instead_of(tokens);
  return real_.trim(seq, tokens);
}

// Sometimes it does as if, sometimes something else.
Status WrongKvCache::resolve(const KvOutcome& outcome) noexcept {
  if (now()) {
    if (wrong_.below(2) == 0) return {};
    KvOutcome other = outcome;
    other.in_flight = wrong_.instead_of(other.in_flight);
    return real_.resolve(other);
  }
  Status status = real_.resolve(outcome);
  return on_ ? wrong_.answer(std::move(status)) : std::move(status);
}

Status WrongKvCache::release(SeqId seq, ReleaseHow how) noexcept {
  if (now()) return wrong_.below(2) == 0 ? Status() : wrong_.answer(real_.release(seq, how));
  return real_.release(seq, how);
}

Status WrongKvCache::table(SeqId seq, GroupId group, KvTableView& out) noexcept {
  Status status = real_.table(seq, group, out);
  if (now()) spoil_table(out);
  return on_ ? wrong_.answer(std::move(status)) : std::move(status);
}

void WrongKvCache::spoil_table(KvTableView& out) {
  std::vector<BlockId>& table = tables_.emplace_back(out.blocks.begin(), out.blocks.end());
  switch (wrong_.below(4)) {
    case 0:
      table.resize(wrong_.below(static_cast<uint32_t>(table.size()) + 1));
      break;
    case 1:
      table.resize(table.size() + wrong_.below(3000), 0);
      break;
    case 2:
      if (!table.empty()) {
        BlockId& block = table[wrong_.below(static_cast<uint32_t>(table.size()))];
        block = static_cast<BlockId>(wrong_.instead_of(static_cast<uint32_t>(block)));
      }
      break;
    default:  // somebody else's, or nobody's
      if (!table.empty()) {
        table[wrong_.below(static_cast<uint32_t>(table.size()))] =
            static_cast<BlockId>(wrong_.below(std::max(blocks_, 1u)));
      }
  }
  out.blocks = table;
}

Status WrongKvCache::take_moves(KvMovesOut& out) noexcept {
  Status status = real_.take_moves(out);
  if (!now()) return status;
  const auto any_move = [&] {
    KvMove move;
    move.group = wrong_.below(4) == 0 ? wrong_.instead_of(0u) : 0;
    for (KvPlace* place : {&move.from, &move.to}) {
      place->block = static_cast<BlockId>(
          wrong_.below(3) == 0 ? wrong_.instead_of(blocks_) : wrong_.below(std::max(blocks_, 1u)));
      place->tier = static_cast<KvTier>(wrong_.below(8) == 0 ? wrong_.below(5) : 0);
    }
    move.tokens = wrong_.below(4) == 0 ? wrong_.instead_of(1u) : 1;
    return move;
  };
  switch (wrong_.below(3)) {
    case 0:
      out.count = wrong_.instead_of(out.count);
      break;
    case 1:
      if (out.count < out.moves.size()) out.moves[out.count++] = any_move();
      break;
    default:  // for ever
      std::generate(out.moves.begin(), out.moves.end(), any_move);
      out.count = static_cast<uint32_t>(out.moves.size());
  }
  return wrong_.answer(std::move(status));
}

Status WrongKvCache::step_begin(uint64_t step_id) noexcept {
  Status status = real_.step_begin(step_id);
  return on_ ? wrong_.answer(std::move(status)) : std::move(status);
}
Status WrongKvCache::step_done(uint64_t step_id) noexcept {
  Status status = real_.step_done(step_id);
  return on_ ? wrong_.answer(std::move(status)) : std::move(status);
}

Status WrongKvCache::usage(GroupId group, KvUsage& out) const noexcept {
  Status status = real_.usage(group, out);
  if (!now()) return status;
  uint64_t* const values[] = {&out.total_tokens,  &out.reserved_tokens, &out.used_tokens,
                              &out.cached_tokens, &out.free_tokens,     &out.swap_total_tokens,
                              &out.swapped_tokens};
  uint64_t& value = *values[wrong_.below(7)];
  value = wrong_.instead_of(value);
  return wrong_.answer(std::move(status));
}

Status WrongSampler::begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept {
  return wrong_.answer(real_.begin(seq, params, parent));
}
Status WrongSampler::end(SeqId seq) noexcept {
  return wrong_.answer(real_.end(seq));
}

void WrongSampler::spoil(const SampleRow& row, SampleResult& result) {
  const auto no_token = [&] {
    return static_cast<TokenId>(row.vocabulary + wrong_.below(1 << 30));
  };
  const float no_number[] = {std::nanf(""), std::numeric_limits<float>::infinity(), 7.0f};
  switch (wrong_.below(7)) {
    case 0:
      result.token = wrong_.below(2) == 0 ? no_token() : -static_cast<TokenId>(wrong_.below(9)) - 1;
      break;
    case 1:
      result.logprob = no_number[wrong_.below(3)];
      break;
    case 2:
      result.rank = row.vocabulary + 1 + wrong_.below(1 << 30);
      break;
    case 3:
      result.top_count = static_cast<uint32_t>(result.top.size()) + 1 + wrong_.below(1 << 30);
      break;
    case 4:
      if (!result.top.empty()) result.top[0].token = no_token();
      break;
    case 5:
      if (!result.top.empty()) result.top[0].logprob = no_number[wrong_.below(3)];
      break;
    default:
      result.token = kNoToken;
      result.top = elsewhere_;
  }
}

Status WrongSampler::sample(std::span<const SampleRow> rows,
                            std::span<SampleResult> results) noexcept {
  Status status = real_.sample(rows, results);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (wrong_.now()) spoil(rows[i], results[i]);
  }
  return wrong_.answer(std::move(status));
}

Status WrongSampler::verify(std::span<const VerifyRows> rows,
                            std::span<VerifyResult> results) noexcept {
  Status status = real_.verify(rows, results);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!wrong_.now()) continue;
    VerifyResult& result = results[i];
    switch (wrong_.below(3)) {
      case 0:
        result.count = static_cast<uint32_t>(rows[i].drafts.size()) + 2 + wrong_.below(1 << 30);
        break;
      case 1:
        spoil(rows[i].rows[0], result.tokens[wrong_.below(std::max(result.count, 1u))]);
        break;
      default:
        result.count = 0;
        result.tokens = {};
    }
  }
  return wrong_.answer(std::move(status));
}

Status WrongSampler::distribution(const SampleRow& row, std::span<float> probs) noexcept {
  Status status = real_.distribution(row, probs);
  if (wrong_.now()) probs[wrong_.below(static_cast<uint32_t>(probs.size()))] = std::nanf("");
  return wrong_.answer(std::move(status));
}

Status WrongDrafter::bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept {
  return real_.bind(target, wanted);
}
Status WrongDrafter::begin(SeqId seq, SeqId parent) noexcept {
  return wrong_.answer(real_.begin(seq, parent));
}
Status WrongDrafter::end(SeqId seq) noexcept {
  return wrong_.answer(real_.end(seq));
}
Status WrongDrafter::accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                            uint32_t accepted) noexcept {
  return wrong_.answer(real_.accept(seq, history, drafted, accepted));
}
Status WrongDrafter::measured(const DraftStepCost& cost) noexcept {
  return wrong_.answer(real_.measured(cost));
}
Status WrongDrafter::observe(std::span<const HiddenView> hidden) noexcept {
  return wrong_.answer(real_.observe(hidden));
}

Status WrongDrafter::offer(std::span<const DraftRequest> requests,
                           std::span<uint32_t> offered) noexcept {
  Status status = real_.offer(requests, offered);
  for (uint32_t& each : offered) {
    if (wrong_.now()) each = wrong_.instead_of(each);
  }
  return wrong_.answer(std::move(status));
}

void WrongDrafter::spoil(DraftOut& out) {
  switch (wrong_.below(6)) {
    case 0:
      out.count = wrong_.instead_of(out.count);
      break;
    case 1:
    case 2:
      if (!out.tokens.empty()) {
        TokenId& token = out.tokens[wrong_.below(static_cast<uint32_t>(out.tokens.size()))];
        token = static_cast<TokenId>(wrong_.instead_of(static_cast<uint32_t>(token)));
      }
      break;
    case 3:
      out.is_tree = !out.is_tree;
      for (int32_t& parent : out.parents) {
        parent = static_cast<int32_t>(wrong_.instead_of(static_cast<uint32_t>(parent)));
      }
      break;
    case 4:
      out.has_probs = true;
      break;
    default:
      out.tokens = elsewhere_;
      out.parents = {};
  }
}

Status WrongDrafter::draft(std::span<const DraftRequest> requests,
                           std::span<DraftOut> drafts) noexcept {
  Status status = real_.draft(requests, drafts);
  for (DraftOut& out : drafts) {
    if (wrong_.now()) spoil(out);
  }
  return wrong_.answer(std::move(status));
}

}  // namespace tenon
