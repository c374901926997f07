#include "core/engine/draft_runner.h"

#include <algorithm>
#include <string>

namespace tenon {
namespace {

std::string number(uint64_t value) {
  return std::to_string(value);
}

}  // namespace

DraftRunner::DraftRunner(const DraftRunnerParts& parts) : parts_(parts) {
  for (GroupId group = 0; group < groups(); ++group) {
    filled_.emplace_back(parts_.geometry.groups[group].blocks, 0);
    filled_swap_.emplace_back(parts_.geometry.groups[group].swap_blocks, 0);
  }
  tokens_.reserve(parts_.max_rows);
  positions_.reserve(parts_.max_rows);
  logits_rows_.reserve(parts_.max_sequences);
  wanted_by_.reserve(parts_.max_sequences);
  sequences_.reserve(parts_.max_sequences);
  tables_.resize(size_t{parts_.max_sequences} * groups());
  moves_.reserve(kMovesAtOnce);
}

void DraftRunner::attach(KVCacheManager& manager, SequenceTable& table, Sampler& sampler) {
  manager_ = &manager;
  table_ = &table;
  sampler_ = &sampler;
}

void DraftRunner::detach() {
  manager_ = nullptr;
  table_ = nullptr;
  sampler_ = nullptr;
}

uint32_t& DraftRunner::filled(GroupId group, const KvPlace& place) {
  auto& blocks = place.tier == KvTier::swap ? filled_swap_ : filled_;
  return blocks[group][static_cast<size_t>(place.block)];
}

Status DraftRunner::apply(std::span<const KvMove> moves) {
  moves_.clear();
  for (const KvMove& move : moves) {
    if (!owns(move)) continue;
    moves_.push_back(move);
    moves_.back().group -= parts_.first_group;
  }
  // The executor refuses what is out of range before anything is moved.
  TENON_RETURN_IF_ERROR(parts_.executor->apply(moves_));
  for (const KvMove& move : moves_) {
    const uint32_t there = filled(move.group, move.from);
    const uint32_t came = std::min(there - std::min(there, move.from.token), move.tokens);
    uint32_t& here = filled(move.group, move.to);
    if (here >= move.to.token) here = move.to.token + came;
  }
  return {};
}

Status DraftRunner::find_tables(SeqId seq, std::span<KvTableView> tables) {
  for (GroupId group = 0; group < groups(); ++group) {
    TENON_RETURN_IF_ERROR(manager_->table(seq, parts_.first_group + group, tables[group]));
  }
  return {};
}

Status DraftRunner::begin_step(std::span<const Share> shares) {
  for (const Share& share : shares) {
    const std::span<KvTableView> tables(tables_.data(), groups());
    TENON_RETURN_IF_ERROR(find_tables(share.sequence->id, tables));
    for (GroupId group = 0; group < groups(); ++group) {
      const uint32_t size = parts_.geometry.groups[group].block_tokens;
      const std::span<const BlockId> blocks = tables[group].blocks;
      const uint32_t base = share.base;
      for (size_t i = base / size; i < blocks.size(); ++i) {
        if (blocks[i] == kNoBlock) continue;
        uint32_t& here = filled_[group][static_cast<size_t>(blocks[i])];
        here = i == base / size ? std::min(here, base % size) : 0;
      }
    }
  }
  return {};
}

// How many leading positions of a sequence hold the draft's K/V, at most `end`.
uint32_t DraftRunner::reach(std::span<const KvTableView> tables, uint32_t end) const {
  for (GroupId group = 0; group < groups(); ++group) {
    const uint32_t size = parts_.geometry.groups[group].block_tokens;
    const std::span<const BlockId> blocks = tables[group].blocks;
    for (size_t i = 0; i * size < end && i < blocks.size(); ++i) {
      // What a window has left behind is read by nobody.
      if (blocks[i] == kNoBlock) continue;
      const uint32_t here = filled_[group][static_cast<size_t>(blocks[i])];
      if (here < size) end = std::min<uint32_t>(end, static_cast<uint32_t>(i) * size + here);
    }
  }
  return end;
}

// Positions below `end` are computed in the pass at hand, or were before.
void DraftRunner::fill(std::span<const KvTableView> tables, uint32_t end) {
  for (GroupId group = 0; group < groups(); ++group) {
    const uint32_t size = parts_.geometry.groups[group].block_tokens;
    const std::span<const BlockId> blocks = tables[group].blocks;
    for (size_t i = 0; i * size < end && i < blocks.size(); ++i) {
      if (blocks[i] == kNoBlock) continue;
      uint32_t& here = filled_[group][static_cast<size_t>(blocks[i])];
      here = std::max(here, std::min(size, end - static_cast<uint32_t>(i) * size));
    }
  }
}

Status DraftRunner::check(const RunnerRow& row) const {
  if (manager_ == nullptr || table_->find(row.seq) == nullptr) {
    return invalid_argument("the draft model was asked for sequence " + number(row.seq) +
                            " – there is none of that number");
  }
  if (row.history.empty() || row.history.size() > context_tokens()) {
    return invalid_argument("the draft model was asked for what follows " +
                            number(row.history.size()) + " tokens – its context has " +
                            number(context_tokens()));
  }
  return {};
}

Status DraftRunner::forward(std::span<const RunnerRow> rows,
                            std::span<const float*> logits) noexcept {
  try {
    Status status = forward_rows(rows, logits);
    // What the blocks hold cannot be told any more; it is computed again when it is asked for.
    if (!status.ok()) {
      for (auto& blocks : filled_) std::fill(blocks.begin(), blocks.end(), 0u);
    }
    return status;
  } catch (const std::bad_alloc&) {
    return out_of_memory("there is no memory for the draft model's logits");
  }
}

Status DraftRunner::forward_rows(std::span<const RunnerRow> rows, std::span<const float*> logits) {
  tokens_.clear();
  found_.assign(rows.size(), nullptr);
  logits_.clear();
  for (uint32_t i = 0; i < rows.size(); ++i) {
    TENON_RETURN_IF_ERROR(check(rows[i]));
    TENON_RETURN_IF_ERROR(add(rows[i], i));
  }
  TENON_RETURN_IF_ERROR(run_pass(true));
  std::copy(found_.begin(), found_.end(), logits.begin());
  return {};
}

// Puts what a history lacks into the pass at hand, and begins another where that is full.
Status DraftRunner::add(const RunnerRow& row, uint32_t index) {
  const auto end = static_cast<uint32_t>(row.history.size());
  if (sequences_.size() == parts_.max_sequences) TENON_RETURN_IF_ERROR(run_pass(false));
  for (bool whole = false; !whole;) {
    if (tokens_.size() == parts_.max_rows) TENON_RETURN_IF_ERROR(run_pass(false));
    if (tokens_.empty()) {
      positions_.clear();
      logits_rows_.clear();
      wanted_by_.clear();
      sequences_.clear();
    }
    const std::span tables = std::span(tables_).subspan(sequences_.size() * groups(), groups());
    TENON_RETURN_IF_ERROR(find_tables(row.seq, tables));
    const uint32_t first = reach(tables, end - 1);
    const auto room = static_cast<uint32_t>(parts_.max_rows - tokens_.size());
    const uint32_t count = std::min(end - first, room);
    const auto first_row = static_cast<uint32_t>(tokens_.size());
    for (uint32_t position = first; position < first + count; ++position) {
      tokens_.push_back(row.history[position]);
      positions_.push_back(position);
    }
    fill(tables, first + count);
    sequences_.push_back({row.seq, first_row, count, first + count, tables});
    whole = first + count == end;
  }
  logits_rows_.push_back(static_cast<uint32_t>(tokens_.size() - 1));
  wanted_by_.push_back(index);
  return {};
}

// Logits that are not those of the last pass are kept aside.
Status DraftRunner::run_pass(bool last) {
  if (tokens_.empty()) return {};
  BatchView batch;
  batch.step_id = ++pass_id_;
  batch.rows = batch.padded_rows = static_cast<uint32_t>(tokens_.size());
  batch.tokens = tokens_;
  batch.positions = positions_;
  batch.slots = positions_;
  batch.sequences = sequences_;
  batch.logits_rows = logits_rows_;
  TENON_RETURN_IF_ERROR(parts_.executor->launch(batch));
  TENON_ASSIGN_OR_RETURN(const StepOutput output, parts_.executor->collect(pass_id_));
  if (output.logits_rows != logits_rows_.size() || output.vocabulary != vocabulary()) {
    return internal("the draft model's executor returned " + number(output.logits_rows) +
                    " rows of logits – " + number(logits_rows_.size()) + " were wanted");
  }
  rows_computed_ += batch.rows;
  if (!last && logits_.empty()) logits_.resize(found_.size() * output.vocabulary);
  for (size_t i = 0; i < wanted_by_.size(); ++i) {
    const float* row = output.logits + i * output.vocabulary;
    if (!last) {
      float* kept = logits_.data() + wanted_by_[i] * output.vocabulary;
      std::copy_n(row, output.vocabulary, kept);
      row = kept;
    }
    found_[wanted_by_[i]] = row;
  }
  tokens_.clear();
  sequences_.clear();
  return {};
}

// Under the floating-point state of the workers, as the target's own draws: the same row gives the
// same token.
Status DraftRunner::draw(std::span<const RunnerRow> rows, std::span<const float* const> logits,
                         std::span<RunnerDraw> draws) noexcept {
  Status status;
  const auto work = [&] { status = draw_rows(rows, logits, draws); };
  parts_.executor->share_out(1, [&work](uint32_t) { work(); });
  return status;
}

Status DraftRunner::draw_rows(std::span<const RunnerRow> rows, std::span<const float* const> logits,
                              std::span<RunnerDraw> draws) {
  for (size_t i = 0; i < rows.size(); ++i) {
    TENON_RETURN_IF_ERROR(check(rows[i]));
    const Sequence& sequence = *table_->find(rows[i].seq);
    SampleRow row = sample_row_of(sequence, rows[i].history);
    row.logits = logits[i];
    row.vocabulary = vocabulary();
    SampleResult result;
    TENON_RETURN_IF_ERROR(sampler_->sample({&row, 1}, {&result, 1}));
    draws[i].token = result.token;
    if (draws[i].probs == nullptr) continue;
    TENON_RETURN_IF_ERROR(sampler_->distribution(row, {draws[i].probs, vocabulary()}));
  }
  return {};
}

}  // namespace tenon
