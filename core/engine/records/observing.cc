#include "core/engine/records/observing.h"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// What one step may take, however many sequences there are.
constexpr size_t kMostSequences = 512;
constexpr size_t kMostBlocks = 16384;

ObservedState observed_state(SequenceState state) {
  if (state == SequenceState::ended) return ObservedState::ended;
  return state == SequenceState::waiting ? ObservedState::waiting : ObservedState::running;
}

void note_result(const Sequence& sequence, size_t tokens_before, ObservedSequence& observed) {
  const std::vector<int64_t>& times = sequence.record.token_ns;
  observed.state = observed_state(sequence.state);
  observed.known_tokens = sequence.known;
  observed.computed_tokens = sequence.computed;
  observed.preemptions = sequence.record.preemptions;
  if (times.size() <= tokens_before) return;
  observed.new_tokens = static_cast<uint32_t>(times.size() - tokens_before);
  if (tokens_before == 0) {
    observed.first_token_ns = times.front() - sequence.record.arrival_ns;
  } else {
    observed.gap_ns = times[tokens_before] - times[tokens_before - 1];
  }
}

}  // namespace

void Observing::look(const Step& step) {
  StepObserver* observer = context_.options.observer;
  looking_ = observer != nullptr && observer->wants_steps();
  if (!looking_) return;
  observed_ = {};
  places_.clear();
  for (const Share& share : step.shares) add_share(share);
  const auto shares = static_cast<std::ptrdiff_t>(places_.size());
  for (const auto* sequences : {&context_.table.running(), &context_.table.waiting()}) {
    for (const Sequence* sequence : *sequences) {
      const bool computed =
          std::any_of(places_.begin(), places_.begin() + shares,
                      [&](const Place& place) { return place.sequence == sequence; });
      if (!computed) add(*sequence);
    }
  }
}

void Observing::add_share(const Share& share) {
  const size_t before = places_.size();
  add(*share.sequence);
  // A sample that forks computes nothing: its parent's row is the parent's.
  if (places_.size() == before || share.parent != nullptr) return;
  ObservedSequence& observed = observed_.sequences.back();
  const Sequence& sequence = *share.sequence;
  if (sequence.answer->traits.whole) {
    observed.prefill_rows = std::min(share.tokens, sequence.prompt_tokens);
    observed.decode_rows = share.tokens - observed.prefill_rows;
    return;
  }
  const bool goes_on = share.tokens == 1 && share.base >= sequence.prompt_tokens;
  (goes_on ? observed.decode_rows : observed.prefill_rows) = share.tokens;
  observed.drafts = share.drafts;
  observed.kept_drafts = share.accepted;
}

void Observing::add(const Sequence& sequence) {
  if (places_.size() == kMostSequences) {
    ++observed_.left_out_sequences;
    return;
  }
  places_.push_back({&sequence, sequence.record.token_ns.size()});
  ObservedSequence& observed = observed_.sequences.emplace_back();
  observed.id = sequence.id;
  observed.request = sequence.request->id;
  observed.sample = sequence.sample;
  observed.prompt_tokens = sequence.prompt_tokens;
  observed.arrival_ns = sequence.record.arrival_ns;
  if (sequence.state == SequenceState::running && sequence.in_kv_cache) {
    add_blocks(sequence, observed);
  }
}

void Observing::add_blocks(const Sequence& sequence, ObservedSequence& observed) {
  const EngineParts& parts = context_.parts;
  if (parts.geometry.group_count == 0) return;
  KeepFloatingPointState keep;
  KvTableView table;
  if (!parts.kv_cache->table(sequence.id, parts.shape->ledger_group, table).ok()) return;
  if (observed_.blocks.size() + table.blocks.size() > kMostBlocks) {
    observed_.left_out_blocks = true;
    return;
  }
  observed.first_block = static_cast<uint32_t>(observed_.blocks.size());
  std::copy_if(table.blocks.begin(), table.blocks.end(), std::back_inserter(observed_.blocks),
               [](BlockId block) { return block != kNoBlock; });
  observed.block_count = static_cast<uint32_t>(observed_.blocks.size()) - observed.first_block;
}

void Observing::note_results() {
  if (!looking_) return;
  for (size_t i = 0; i < places_.size(); ++i) {
    note_result(*places_[i].sequence, places_[i].tokens, observed_.sequences[i]);
  }
}

void Observing::tell(const StepRecord& record) {
  if (!looking_) return;
  looking_ = false;
  const size_t live = context_.table.running().size() + context_.table.waiting().size();
  const bool happened = record.rows > 0 || record.preemptions > 0 || live != told_sequences_;
  told_sequences_ = live;
  if (!happened) return;
  observed_.record = record;
  observed_.usage = context_.kv_usage();
  observed_.block_tokens = context_.block_tokens();
  context_.options.observer->on_step(std::move(observed_));
}

}  // namespace tenon
