#include "core/engine/step/drafts/draft_runner.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/model/heads/head.h"

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
    if (parts_.head == nullptr) continue;
    next_.emplace_back(parts_.geometry.groups[group].blocks, kNoToken);
    next_swap_.emplace_back(parts_.geometry.groups[group].swap_blocks, kNoToken);
  }
  tokens_.reserve(parts_.max_rows);
  positions_.reserve(parts_.max_rows);
  logits_rows_.reserve(parts_.max_sequences);
  wanted_by_.reserve(parts_.max_sequences);
  sequences_.reserve(parts_.max_sequences);
  kv_tokens_.reserve(parts_.max_sequences);
  tables_.resize(groups());
  for (auto& tables : tables_) tables.reserve(parts_.max_sequences);
  group_views_.resize(groups());
  looked_at_.resize(groups());
  const uint32_t layers = parts_.shape->layer_count;
  state_layer_ = parts_.head == nullptr ? layers : parts_.head->state_layer(layers);
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
    if (parts_.head == nullptr) continue;
    const auto next = [&](const KvPlace& place) -> TokenId& {
      auto& blocks = place.tier == KvTier::swap ? next_swap_ : next_;
      return blocks[move.group][static_cast<size_t>(place.block)];
    };
    next(move.to) = next(move.from);
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
  if (asked_.size() < shares.size()) asked_.resize(shares.size());
  asked_count_ = 0;
  for (const Share& share : shares) {
    TENON_RETURN_IF_ERROR(find_tables(share.sequence->id, looked_at_));
    cut(looked_at_, share.base);
    Asked& asked = asked_[asked_count_++];
    asked.seq = share.sequence->id;
    asked.base = share.base;
    asked.tokens.clear();
  }
  return {};
}

Status DraftRunner::end_drafts() {
  if (parts_.head == nullptr) return {};
  for (const Asked& asked : std::span(asked_).first(asked_count_)) {
    TENON_RETURN_IF_ERROR(forget_behind(asked.seq, asked.base));
  }
  return {};
}

Status DraftRunner::forget_behind(SeqId seq, uint32_t tokens) {
  TENON_RETURN_IF_ERROR(find_tables(seq, looked_at_));
  cut(looked_at_, tokens);
  return {};
}

// Positions from `end` on hold nothing of the sequence any more.
void DraftRunner::cut(std::span<const KvTableView> tables, uint32_t end) {
  for (GroupId group = 0; group < groups(); ++group) {
    const uint32_t size = parts_.geometry.groups[group].block_tokens;
    const std::span<const BlockId> blocks = tables[group].blocks;
    for (size_t i = end / size; i < blocks.size(); ++i) {
      if (blocks[i] == kNoBlock) continue;
      const auto block = static_cast<size_t>(blocks[i]);
      uint32_t& here = filled_[group][block];
      here = i == end / size ? std::min(here, end % size) : 0;
      if (parts_.head != nullptr) next_[group][block] = kNoToken;
    }
  }
}

// A head's row reads the token after its own, so the last row of a block that several sequences
// share is right for those alone whose text goes on with the same token. Takes the blocks of
// `history` for it, and says whether they are not another text's already.
bool DraftRunner::claim_next(std::span<const KvTableView> tables,
                             std::span<const TokenId> history) {
  for (GroupId group = 0; group < groups(); ++group) {
    const uint32_t size = parts_.geometry.groups[group].block_tokens;
    const std::span<const BlockId> blocks = tables[group].blocks;
    for (size_t i = 0; (i + 1) * size <= history.size() && i < blocks.size(); ++i) {
      if (blocks[i] == kNoBlock) continue;
      TokenId& next = next_[group][static_cast<size_t>(blocks[i])];
      const TokenId own = history[(i + 1) * size - 1];
      if (next != kNoToken && next != own) return false;
      next = own;
    }
  }
  return true;
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
  const std::span asked = std::span(asked_).first(asked_count_);
  const bool in_step =
      std::ranges::any_of(asked, [&](const Asked& each) { return each.seq == row.seq; });
  if (manager_ == nullptr || !in_step || table_->find(row.seq) == nullptr) {
    return invalid_argument("the draft model was asked for sequence " + number(row.seq) +
                            " – drafts are wanted of none of that number");
  }
  if (row.history.empty() || row.history.size() > context_tokens()) {
    return invalid_argument("the draft model was asked for what follows " +
                            number(row.history.size()) + " tokens – its context has " +
                            number(context_tokens()));
  }
  if (row.head != 0) {
    return unsupported("the draft model was asked for output head " + number(row.head) +
                       " – it has one, head 0");
  }
  const TensorView& hidden = row.hidden;
  if (hidden.data != nullptr &&
      (hidden.dtype != DType::f32 || hidden.rank != 2 || hidden.stride[1] != 1 ||
       hidden.shape[0] > row.history.size() || hidden.shape[1] == 0)) {
    return invalid_argument(
        "the draft model was given hidden states that are no f32 [rows, hidden], a row for each of "
        "the last tokens");
  }
  return {};
}

// Rows of a block stand after the history, whether slots were granted for them or not.
uint32_t DraftRunner::context_tokens() const noexcept {
  const uint32_t context = parts_.shape->context_tokens;
  const bool blocks = parts_.head != nullptr && parts_.head->kind == HeadKind::dflash;
  return blocks ? context + 2 - std::min(context + 2, parts_.head->block_rows()) : context;
}

uint32_t DraftRunner::computed(SeqId seq, std::span<const TokenId> history) noexcept {
  if (manager_ == nullptr || history.empty()) return 0;
  // Nothing is computed but for the last state.
  if (parts_.head != nullptr && !parts_.head->has_layers()) {
    return static_cast<uint32_t>(history.size()) - 1;
  }
  if (!forget_other_branch({.seq = seq, .history = history, .hidden = {}}).ok()) return 0;
  if (!find_tables(seq, looked_at_).ok()) return 0;
  const bool claims = parts_.head != nullptr && parts_.head->reads_tokens();
  if (claims && !claim_next(looked_at_, history)) return 0;
  return reach(looked_at_, static_cast<uint32_t>(history.size()));
}

Status DraftRunner::forward(std::span<const RunnerRow> rows, std::span<const float*> logits,
                            std::span<const float*> hidden) noexcept {
  if (logits.size() < rows.size() || (!hidden.empty() && hidden.size() < rows.size())) {
    return invalid_argument("the draft model was asked for " + number(rows.size()) +
                            " rows – there is room for the logits of " + number(logits.size()) +
                            " and the hidden states of " + number(hidden.size()));
  }
  try {
    Status status = forward_rows(rows, logits, hidden);
    // What the blocks hold cannot be told any more; it is computed again when it is asked for.
    if (!status.ok()) {
      for (auto& blocks : filled_) std::fill(blocks.begin(), blocks.end(), 0u);
    }
    return status;
  } catch (const std::bad_alloc&) {
    return out_of_memory("there is no memory for the draft model's logits");
  }
}

Status DraftRunner::forward_rows(std::span<const RunnerRow> rows, std::span<const float*> logits,
                                 std::span<const float*> hidden) {
  tokens_.clear();
  wants_hidden_ = !hidden.empty();
  found_.assign(rows.size(), nullptr);
  found_hidden_.assign(wants_hidden_ ? rows.size() : 0, nullptr);
  logits_.clear();
  hidden_.clear();
  for (const RunnerRow& row : rows) {
    TENON_RETURN_IF_ERROR(check(row));
    TENON_RETURN_IF_ERROR(forget_other_branch(row));
    TENON_RETURN_IF_ERROR(skim(row));
  }
  TENON_RETURN_IF_ERROR(run_pass(false));
  for (uint32_t i = 0; i < rows.size(); ++i) TENON_RETURN_IF_ERROR(add(rows[i], i));
  TENON_RETURN_IF_ERROR(run_pass(true));
  std::copy(found_.begin(), found_.end(), logits.begin());
  std::copy(found_hidden_.begin(), found_hidden_.end(), hidden.begin());
  return {};
}

// Where a history differs from the one that was asked for before, what lies behind the difference
// is computed anew.
Status DraftRunner::forget_other_branch(const RunnerRow& row) {
  const auto end = asked_.begin() + static_cast<ptrdiff_t>(asked_count_);
  const auto asked =
      std::find_if(asked_.begin(), end, [&](const Asked& each) { return each.seq == row.seq; });
  if (asked == end || row.history.size() <= asked->base) return {};
  const std::span<const TokenId> tokens = row.history.subspan(asked->base);
  const size_t both = std::min(tokens.size(), asked->tokens.size());
  const auto same = std::mismatch(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(both),
                                  asked->tokens.begin())
                        .first -
                    tokens.begin();
  if (static_cast<size_t>(same) < both) {
    TENON_RETURN_IF_ERROR(forget_behind(row.seq, asked->base + static_cast<uint32_t>(same)));
    asked->tokens.resize(static_cast<size_t>(same));
  }
  if (tokens.size() > asked->tokens.size()) asked->tokens.assign(tokens.begin(), tokens.end());
  return {};
}

// Puts what a history lacks into the pass at hand, and begins another where that is full.
Status DraftRunner::add(const RunnerRow& row, uint32_t index) {
  const auto end = static_cast<uint32_t>(row.history.size());
  if (sequences_.size() == parts_.max_sequences) TENON_RETURN_IF_ERROR(run_pass(false));
  for (bool whole = false; !whole;) {
    if (tokens_.size() == parts_.max_rows) TENON_RETURN_IF_ERROR(run_pass(false));
    if (tokens_.empty()) begin_pass();
    TENON_RETURN_IF_ERROR(find_tables(row.seq, looked_at_));
    const uint32_t first = reach(looked_at_, end - 1);
    const auto room = static_cast<uint32_t>(parts_.max_rows - tokens_.size());
    const uint32_t count = std::min(end - first, room);
    TENON_RETURN_IF_ERROR(push_rows(row, first, count));
    close_sequence(row.seq, count, first + count);
    whole = first + count == end;
  }
  logits_rows_.push_back(static_cast<uint32_t>(tokens_.size() - 1));
  wanted_by_.push_back(index);
  return {};
}

// Rows of a history, which count as computed from here on.
Status DraftRunner::push_rows(const RunnerRow& row, uint32_t first, uint32_t count) {
  for (uint32_t position = first; position < first + count; ++position) {
    TENON_RETURN_IF_ERROR(add_input(row, position));
    tokens_.push_back(row.history[position]);
    positions_.push_back(position);
  }
  fill(looked_at_, first + count);
  return {};
}

// The last `rows` of the pass are a sequence's, whose tables were looked at.
void DraftRunner::close_sequence(SeqId seq, uint32_t rows, uint32_t kv_tokens) {
  sequences_.push_back({seq, static_cast<uint32_t>(tokens_.size()) - rows, rows, 0, 0});
  kv_tokens_.push_back(kv_tokens);
  for (GroupId group = 0; group < groups(); ++group) tables_[group].push_back(looked_at_[group]);
}

void DraftRunner::begin_pass() {
  positions_.clear();
  slots_.clear();
  tree_parents_.clear();
  sees_to_.clear();
  logits_rows_.clear();
  wanted_by_.clear();
  inputs_.clear();
  input_width_ = 0;
  sequences_.clear();
  kv_tokens_.clear();
  for (auto& tables : tables_) tables.clear();
}

// The hidden state that the row at `position` continues from, behind those of the rows before it.
Status DraftRunner::add_input(const RunnerRow& row, uint32_t position) {
  const TensorView& hidden = row.hidden;
  const bool has = hidden.data != nullptr;
  if (!has && input_width_ == 0 && parts_.head == nullptr) return {};
  const uint64_t begins = has ? row.history.size() - hidden.shape[0] : row.history.size();
  if (position < begins) {
    return invalid_argument("the draft model lacks the hidden state of token " + number(position) +
                            " of sequence " + number(row.seq) + " – they were given from token " +
                            number(begins) + " on – give those of every token not computed yet");
  }
  if (inputs_.empty() && !tokens_.empty()) {
    return invalid_argument("the draft model was given hidden states for some rows only");
  }
  if (input_width_ != 0 && input_width_ != hidden.shape[1]) {
    return invalid_argument("the draft model was given hidden states of " +
                            number(hidden.shape[1]) + " and of " + number(input_width_));
  }
  input_width_ = hidden.shape[1];
  const float* from =
      static_cast<const float*>(hidden.data) + (position - begins) * hidden.stride[0];
  inputs_.insert(inputs_.end(), from, from + input_width_);
  return {};
}

BatchView DraftRunner::batch() {
  for (GroupId group = 0; group < groups(); ++group) {
    group_views_[group] = {slots_.empty() ? positions_ : slots_, kv_tokens_, tables_[group]};
  }
  BatchView batch;
  batch.step_id = ++pass_id_;
  batch.rows = batch.padded_rows = static_cast<uint32_t>(tokens_.size());
  batch.padded_sequences = static_cast<uint32_t>(sequences_.size());
  batch.tokens = tokens_;
  batch.positions = positions_;
  batch.tree_parents = tree_parents_;
  batch.sees_to = sees_to_;
  batch.sequences = sequences_;
  batch.groups = group_views_;
  batch.logits_rows = logits_rows_;
  if (wants_hidden_) {
    batch.hidden_rows = logits_rows_;
    batch.hidden_layers = {&state_layer_, 1};
  }
  if (input_width_ != 0) {
    batch.inputs = {.data = inputs_.data(),
                    .dtype = DType::f32,
                    .space = {},
                    .rank = 2,
                    .shape = {batch.rows, input_width_, 1, 1},
                    .stride = {input_width_, 1, 1, 1}};
  }
  return batch;
}

Status DraftRunner::run_pass(bool last) {
  if (tokens_.empty()) return {};
  TENON_RETURN_IF_ERROR(parts_.executor->launch(batch()));
  TENON_ASSIGN_OR_RETURN(const StepOutput output, parts_.executor->collect(pass_id_));
  const bool renamed = parts_.head != nullptr && !parts_.head->token_ids.empty();
  const uint64_t width = renamed ? parts_.head->token_ids.size() : vocabulary();
  if (output.logits_rows != logits_rows_.size() || output.vocabulary != width) {
    return internal("the draft model's executor returned " + number(output.logits_rows) +
                    " rows of logits – " + number(logits_rows_.size()) + " were wanted");
  }
  const bool has_hidden = output.hidden_rows == logits_rows_.size() && output.hidden.size() == 1;
  if (wants_hidden_ && !has_hidden) {
    return internal("the draft model's executor returned no hidden states where they were wanted");
  }
  rows_computed_ += tokens_.size();
  if (renamed) {
    keep_renamed(output.logits);
  } else {
    keep(output.logits, vocabulary(), last, logits_, found_);
  }
  if (wants_hidden_) keep(output.hidden[0], parts_.shape->hidden, last, hidden_, found_hidden_);
  tokens_.clear();
  sequences_.clear();
  return {};
}

// Rows that are not those of the last pass are kept aside.
void DraftRunner::keep(const float* rows, uint64_t width, bool last, std::vector<float>& aside,
                       std::vector<const float*>& found) const {
  if (!last && aside.empty()) aside.resize(found.size() * width);
  for (size_t i = 0; i < wanted_by_.size(); ++i) {
    const float* row = rows + i * width;
    if (!last) {
      float* kept = aside.data() + wanted_by_[i] * width;
      std::copy_n(row, width, kept);
      row = kept;
    }
    found[wanted_by_[i]] = row;
  }
}

// Of a head that knows some of the target's tokens: the others' logits are -infinity.
void DraftRunner::keep_renamed(const float* rows) {
  const std::span<const TokenId> ids = parts_.head->token_ids;
  const uint64_t width = vocabulary();
  if (logits_.empty()) logits_.resize(found_.size() * width);
  for (size_t i = 0; i < wanted_by_.size(); ++i) {
    const std::span to = std::span(logits_).subspan(wanted_by_[i] * width, width);
    std::ranges::fill(to, -std::numeric_limits<float>::infinity());
    const float* from = rows + i * ids.size();
    for (size_t id = 0; id < ids.size(); ++id) to[static_cast<size_t>(ids[id])] = from[id];
    found_[wanted_by_[i]] = to.data();
  }
}

}  // namespace tenon
