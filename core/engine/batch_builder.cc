#include "core/engine/batch_builder.h"

namespace tenon {

BatchBuilder::BatchBuilder(const SchedulerLimits& limits, uint32_t group_count)
    : group_count_(group_count) {
  tokens_.reserve(limits.max_batch_tokens);
  positions_.reserve(limits.max_batch_tokens);
  slots_.reserve(limits.max_batch_tokens);
  logits_rows_.reserve(limits.max_batch_tokens);
  sequences_.reserve(limits.max_sequences);
  tables_.reserve(size_t{limits.max_sequences} * group_count);
}

void BatchBuilder::add_rows(Share& share) {
  const Sequence& sequence = *share.sequence;
  const uint32_t rows = share.tokens + share.drafts;
  share.first_row = static_cast<uint32_t>(tokens_.size());
  const bool scores = sequence.request->request.prompt_logprobs;
  share.first_score = static_cast<uint32_t>(logits_rows_.size());
  share.score_rows = share.logits_rows = 0;
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t position = share.base + i;
    const uint32_t next = position + 1;
    // The last known token and each draft behind it say what comes next.
    if (next >= sequence.known) {
      logits_rows_.push_back(share.first_row + i);
      ++share.logits_rows;
    } else if (scores && next >= sequence.scored && next < sequence.prompt_tokens) {
      logits_rows_.push_back(share.first_row + i);
      ++share.score_rows;
    }
    tokens_.push_back(sequence.tokens[position]);
    positions_.push_back(position);
    slots_.push_back(position);
  }
  share.first_logits = share.first_score + share.score_rows;
  sequences_.push_back({sequence.id, share.first_row, rows, share.base + rows, {}});
}

Result<BatchView> BatchBuilder::build(uint64_t step_id, std::span<Share> shares,
                                      KVCacheManager& manager) {
  tokens_.clear();
  positions_.clear();
  slots_.clear();
  logits_rows_.clear();
  sequences_.clear();
  tables_.assign(shares.size() * group_count_, {});
  for (size_t s = 0; s < shares.size(); ++s) {
    add_rows(shares[s]);
    const std::span<KvTableView> tables(tables_.data() + s * group_count_, group_count_);
    for (GroupId group = 0; group < group_count_; ++group) {
      TENON_RETURN_IF_ERROR(manager.table(shares[s].sequence->id, group, tables[group]));
    }
    sequences_[s].tables = tables;
  }
  BatchView batch;
  batch.step_id = step_id;
  batch.rows = batch.padded_rows = static_cast<uint32_t>(tokens_.size());
  batch.tokens = tokens_;
  batch.positions = positions_;
  batch.slots = slots_;
  batch.sequences = sequences_;
  batch.logits_rows = logits_rows_;
  return batch;
}

}  // namespace tenon
