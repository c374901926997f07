// Blocks of drafts, computed by a head in one pass (core/model/heads/head.h).
//
// The target's states come first, in passes of their own where layers keep K and V of them alone.
// Rows of masks are never kept: no block of K/V counts as filled by them, and they may stand in
// spare blocks, so that a block is as wide as it was trained for however few slots were granted.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/engine/step/drafts/draft_runner.h"
#include "core/exec/head_products.h"

namespace tenon {
namespace {

std::string number(uint64_t value) {
  return std::to_string(value);
}

RunnerRow row_of(const RunnerBlock& block) {
  return {.seq = block.seq, .history = block.history, .hidden = block.hidden};
}

// What the tokens before add, each element times a number that the row's state, of `width` numbers,
// lets through: [rows, rank].
std::vector<float> gated(Executor& executor, const Head& head, std::vector<float> embedded,
                         std::span<const float* const> hidden, size_t width) {
  if (head.markov_gate.n_out == 0) return embedded;
  const size_t rank = head.markov_in.k_in;
  std::vector<float> read, gate;
  for (size_t row = 0; row < hidden.size(); ++row) {
    const auto own = embedded.begin() + static_cast<ptrdiff_t>(row * rank);
    read.insert(read.end(), hidden[row], hidden[row] + width);
    read.insert(read.end(), own, own + static_cast<ptrdiff_t>(rank));
  }
  multiply_rows(executor, head.markov_gate, read, gate);
  for (size_t i = 0; i < embedded.size(); ++i) {
    embedded[i] *= 1.0f / (1.0f + std::exp(-(gate[i] + head.markov_gate_bias[i % rank])));
  }
  return embedded;
}

size_t wanted_tokens(std::span<const RunnerBlock> blocks) {
  size_t count = 0;
  for (const RunnerBlock& block : blocks) count += block.tokens;
  return count;
}

}  // namespace

uint32_t DraftRunner::block_tokens() const noexcept {
  return parts_.head == nullptr ? 0 : parts_.head->block.tokens;
}
bool DraftRunner::follows() const noexcept {
  return parts_.head != nullptr && parts_.head->markov_in.n_out > 0;
}
bool DraftRunner::has_confidence() const noexcept {
  return parts_.head != nullptr && !parts_.head->confidence.empty();
}

Status DraftRunner::check(const RunnerBlock& block) const {
  TENON_RETURN_IF_ERROR(check(row_of(block)));
  if (block.tokens > 0 && block.tokens <= block_tokens()) return {};
  return invalid_argument("the draft model was asked for a block of " + number(block.tokens) +
                          " tokens – it proposes 1 to " + number(block_tokens()));
}

Status DraftRunner::forward_blocks(std::span<const RunnerBlock> blocks,
                                   std::span<const float*> logits,
                                   std::span<const float*> hidden) noexcept {
  const size_t wanted = wanted_tokens(blocks);
  if (logits.size() != wanted || hidden.size() != wanted) {
    return invalid_argument("the draft model was asked for " + number(wanted) +
                            " tokens of blocks – there is room for the logits of " +
                            number(logits.size()) + " and the hidden states of " +
                            number(hidden.size()));
  }
  try {
    Status status = run_blocks(blocks, logits, hidden);
    if (!status.ok()) {
      for (auto& filled : filled_) std::fill(filled.begin(), filled.end(), 0u);
    }
    return status;
  } catch (const std::bad_alloc&) {
    return out_of_memory("there is no memory for the draft model's logits");
  }
}

Status DraftRunner::run_blocks(std::span<const RunnerBlock> blocks, std::span<const float*> logits,
                               std::span<const float*> hidden) {
  tokens_.clear();
  wants_hidden_ = true;
  found_.assign(logits.size(), nullptr);
  found_hidden_.assign(hidden.size(), nullptr);
  logits_.clear();
  hidden_.clear();
  if (!parts_.head->has_layers()) return run_medusa(blocks, logits, hidden);
  const bool apart = !parts_.head->reads_tokens();
  for (const RunnerBlock& block : blocks) {
    TENON_RETURN_IF_ERROR(check(block));
    TENON_RETURN_IF_ERROR(forget_other_branch(row_of(block)));
    TENON_RETURN_IF_ERROR(apart ? add_context(block) : skim(row_of(block)));
  }
  TENON_RETURN_IF_ERROR(run_pass(false));
  uint32_t index = 0;
  for (const RunnerBlock& block : blocks) {
    TENON_RETURN_IF_ERROR(apart ? add_block(block, index) : add_masked(block, index));
  }
  TENON_RETURN_IF_ERROR(run_pass(true));
  std::copy(found_.begin(), found_.end(), logits.begin());
  std::copy(found_hidden_.begin(), found_hidden_.end(), hidden.begin());
  return {};
}

// The target's states of a history that the layers have no K and V of.
Status DraftRunner::add_context(const RunnerBlock& block) {
  const auto end = static_cast<uint32_t>(block.history.size());
  for (;;) {
    const bool full =
        tokens_.size() == parts_.max_rows || sequences_.size() == parts_.max_sequences;
    if (!tokens_.empty() && full) TENON_RETURN_IF_ERROR(run_pass(false));
    if (tokens_.empty()) begin_pass();
    TENON_RETURN_IF_ERROR(find_tables(block.seq, looked_at_));
    const uint32_t first = reach(looked_at_, end);
    if (first == end) return {};
    const auto room = static_cast<uint32_t>(parts_.max_rows - tokens_.size());
    const uint32_t count = std::min(end - first, room);
    TENON_RETURN_IF_ERROR(push_rows(row_of(block), first, count));
    close_sequence(block.seq, count, first + count);
  }
}

// The last token and masks after it, which see all of each other.
Status DraftRunner::add_block(const RunnerBlock& block, uint32_t& index) {
  const Head& head = *parts_.head;
  const uint32_t rows = head.block_rows();
  const bool full =
      tokens_.size() + rows > parts_.max_rows || sequences_.size() == parts_.max_sequences;
  if (!tokens_.empty() && full) TENON_RETURN_IF_ERROR(run_pass(false));
  if (tokens_.empty()) begin_pass();
  TENON_RETURN_IF_ERROR(find_tables(block.seq, looked_at_));
  const auto anchor = static_cast<uint32_t>(block.history.size());
  const auto first_row = static_cast<uint32_t>(tokens_.size());
  const uint32_t proposing = first_row + (head.block.from_anchor ? 0 : 1);
  for (uint32_t row = 0; row < rows; ++row) {
    tokens_.push_back(row == 0 ? block.history.back() : head.block.mask);
    positions_.push_back(anchor + row);
    sees_to_.push_back(first_row + rows - 1);
  }
  for (uint32_t token = 0; token < block.tokens; ++token) {
    logits_rows_.push_back(proposing + token);
    wanted_by_.push_back(index++);
  }
  lend_spare(anchor + rows);
  close_sequence(block.seq, rows, anchor + rows);
  return {};
}

// What the history lacks, its last row in any case, and masks after it in the same pass.
Status DraftRunner::add_masked(const RunnerBlock& block, uint32_t& index) {
  const Head& head = *parts_.head;
  const auto end = static_cast<uint32_t>(block.history.size());
  const uint32_t masks = block.tokens - 1;
  if (masks >= parts_.max_rows) {
    return invalid_argument("a block of " + number(block.tokens) + " tokens – a pass has " +
                            number(parts_.max_rows) + " rows at most");
  }
  for (bool whole = false; !whole;) {
    if (!tokens_.empty() && (tokens_.size() + masks + 1 > parts_.max_rows ||
                             sequences_.size() == parts_.max_sequences)) {
      TENON_RETURN_IF_ERROR(run_pass(false));
    }
    if (tokens_.empty()) begin_pass();
    TENON_RETURN_IF_ERROR(find_tables(block.seq, looked_at_));
    const uint32_t first = reach(looked_at_, end - 1);
    const auto room = static_cast<uint32_t>(parts_.max_rows - tokens_.size());
    whole = end - first + masks <= room;
    const uint32_t count = whole ? end - first : std::min(end - first - 1, room);
    if (count > 0) TENON_RETURN_IF_ERROR(push_rows(row_of(block), first, count));
    if (!whole) {
      if (count > 0) close_sequence(block.seq, count, first + count);
      TENON_RETURN_IF_ERROR(run_pass(false));
      continue;
    }
    const auto last = static_cast<uint32_t>(tokens_.size() - 1);
    for (uint32_t mask = 0; mask < masks; ++mask) {
      tokens_.push_back(head.block.mask);
      positions_.push_back(end + mask);
      inputs_.insert(inputs_.end(), head.block.mask_state.begin(), head.block.mask_state.end());
    }
    for (uint32_t token = 0; token < block.tokens; ++token) {
      logits_rows_.push_back(last + token);
      wanted_by_.push_back(index++);
    }
    lend_spare(end + masks);
    close_sequence(block.seq, count + masks, end + masks);
  }
  return {};
}

// The tables that were looked at reach to `end`, in spare blocks where the sequence has none.
void DraftRunner::lend_spare(uint32_t end) {
  lent_.resize(size_t{parts_.max_sequences} * groups());
  const size_t place = sequences_.size();
  for (GroupId group = 0; group < groups(); ++group) {
    const KvGroupGeometry& geometry = parts_.geometry.groups[group];
    const uint32_t needed = (end + geometry.block_tokens - 1) / geometry.block_tokens;
    KvTableView& table = looked_at_[group];
    if (table.blocks.size() >= needed) continue;
    std::vector<BlockId>& longer = lent_[place * groups() + group];
    longer.assign(table.blocks.begin(), table.blocks.end());
    const uint32_t each =
        (parts_.head->block_rows() + geometry.block_tokens - 1) / geometry.block_tokens;
    const auto first = geometry.blocks - parts_.spare_blocks + static_cast<uint32_t>(place) * each;
    for (uint32_t spare = first; longer.size() < needed; ++spare) {
      longer.push_back(static_cast<BlockId>(spare));
    }
    table.blocks = longer;
  }
}

Status DraftRunner::follow(std::span<const TokenId> before, std::span<const float*> logits,
                           std::span<const float* const> hidden,
                           std::span<float> confidence) noexcept {
  const size_t rows = before.size();
  const bool fits = logits.size() == rows && hidden.size() == rows && confidence.size() == rows &&
                    (follows() || has_confidence()) &&
                    std::ranges::all_of(before, [this](TokenId token) {
                      return token >= 0 && static_cast<uint32_t>(token) < vocabulary();
                    });
  if (!fits) {
    return invalid_argument("the draft model was asked for what follows from " + number(rows) +
                            " tokens – expected as many logits and hidden states, tokens of the "
                            "vocabulary, and a head that has something to say");
  }
  const Head& head = *parts_.head;
  const uint32_t rank = head.markov_in.k_in;
  try {
    const std::vector<float> embedded = embed_rows(head.markov_in, before);
    for (size_t row = 0; row < rows; ++row) {
      confidence[row] =
          !has_confidence()
              ? 1.0f
              : confidence_of(hidden[row], std::span(embedded).subspan(row * rank, rank));
    }
    if (!follows()) return {};
    followed_.resize(rows * vocabulary());
    for (size_t row = 0; row < rows; ++row) {
      std::copy_n(logits[row], vocabulary(), &followed_[row * vocabulary()]);
      logits[row] = &followed_[row * vocabulary()];
    }
    std::vector<float> made;
    multiply_rows(*parts_.executor, head.markov_out,
                  gated(*parts_.executor, head, embedded, hidden, parts_.shape->hidden), made);
    const size_t columns = head.markov_out.n_out;
    for (size_t row = 0; row < rows; ++row) {
      for (size_t n = 0; n < columns; ++n) {
        const size_t id = head.token_ids.empty() ? n : static_cast<size_t>(head.token_ids[n]);
        followed_[row * vocabulary() + id] += made[row * columns + n];
      }
    }
    return {};
  } catch (const std::bad_alloc&) {
    return out_of_memory("there is no memory for the draft model's logits");
  }
}

float DraftRunner::confidence_of(const float* hidden, std::span<const float> embedded) const {
  const std::vector<float>& weights = parts_.head->confidence;
  const uint32_t width = parts_.shape->hidden;
  float logit = parts_.head->confidence_bias + dot_in_lanes(weights.data(), hidden, width);
  if (weights.size() > width)
    logit += dot_in_lanes(weights.data() + width, embedded.data(), embedded.size());
  return 1.0f / (1.0f + std::exp(-logit));
}

}  // namespace tenon
