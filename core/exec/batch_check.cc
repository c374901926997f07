#include "core/exec/batch_check.h"

#include <algorithm>
#include <string>

namespace tenon {
namespace {

std::string number(uint64_t value) {
  return std::to_string(value);
}

Status check_arrays(const BatchView& batch, const BatchLimits& limits) {
  if (batch.rows > limits.max_rows || batch.sequences.size() > limits.max_sequences) {
    return internal("a batch of " + number(batch.rows) + " rows and " +
                    number(batch.sequences.size()) + " sequences; the executor was loaded for " +
                    number(limits.max_rows) + " and " + number(limits.max_sequences));
  }
  if (batch.tokens.size() != batch.rows || batch.positions.size() != batch.rows ||
      batch.slots.size() != batch.rows) {
    return internal("a batch's tokens, positions and slots are not one for each of its " +
                    number(batch.rows) + " rows");
  }
  if (!batch.tree_parents.empty()) {
    return unsupported("rows that form a tree; this executor follows chains only");
  }
  for (uint32_t row = 0; row < batch.rows; ++row) {
    const TokenId token = batch.tokens[row];
    if (token < 0 || static_cast<uint32_t>(token) >= limits.shape->vocabulary) {
      return invalid_argument("token id " + std::to_string(token) +
                              " is not of the vocabulary; expected 0 to " +
                              number(limits.shape->vocabulary - 1));
    }
  }
  for (size_t i = 0; i < batch.logits_rows.size(); ++i) {
    if (batch.logits_rows[i] >= batch.rows ||
        (i > 0 && batch.logits_rows[i] <= batch.logits_rows[i - 1])) {
      return internal("the rows whose logits are wanted do not rise below " + number(batch.rows));
    }
  }
  return {};
}

// The first position that a row of `sequence` can see in any layer of the group.
uint32_t first_visible(const BatchView& batch, const BatchSequence& sequence,
                       const ModelShape& shape, GroupId group) {
  uint32_t window = 0;
  for (LayerId layer = 0; layer < shape.layers; ++layer) {
    if (shape.layer[layer].group != group) continue;
    if (shape.layer[layer].window_tokens == 0) return 0;
    window = std::max(window, shape.layer[layer].window_tokens);
  }
  const uint32_t end = batch.slots[sequence.first_row] + 1;
  return end > window ? end - window : 0;
}

Status check_table(const BatchView& batch, const BatchSequence& sequence, const BatchLimits& limits,
                   GroupId group) {
  const KvGroupGeometry& geometry = limits.groups[group];
  const std::span<const BlockId> blocks = sequence.tables[group].blocks;
  const uint32_t first = first_visible(batch, sequence, *limits.shape, group);
  for (uint32_t i = first / geometry.block_tokens;
       uint64_t{i} * geometry.block_tokens < sequence.kv_tokens; ++i) {
    if (i >= blocks.size() || blocks[i] < 0 ||
        static_cast<uint32_t>(blocks[i]) >= geometry.blocks) {
      return internal("entry " + number(i) + " of the block table of sequence " +
                      number(sequence.seq) + " is no block; positions " + number(first) + " to " +
                      number(sequence.kv_tokens) + " need one");
    }
  }
  return {};
}

Status check_sequence(const BatchView& batch, const BatchSequence& sequence,
                      const BatchLimits& limits) {
  const std::string name = "sequence " + number(sequence.seq);
  if (sequence.tables.size() != limits.shape->group_count) {
    return internal(name + " has " + number(sequence.tables.size()) + " block tables for " +
                    number(limits.shape->group_count) + " KV groups");
  }
  for (uint32_t i = 0; i < sequence.rows; ++i) {
    const uint32_t slot = batch.slots[sequence.first_row + i];
    if (slot >= sequence.kv_tokens || (i > 0 && slot <= batch.slots[sequence.first_row + i - 1])) {
      return internal(name + " stores row " + number(i) + " at position " + number(slot) +
                      "; expected rising positions below " + number(sequence.kv_tokens));
    }
  }
  for (GroupId group = 0; group < limits.shape->group_count && sequence.rows > 0; ++group) {
    TENON_RETURN_IF_ERROR(check_table(batch, sequence, limits, group));
  }
  return {};
}

}  // namespace

Status check_batch(const BatchView& batch, const BatchLimits& limits) {
  TENON_RETURN_IF_ERROR(check_arrays(batch, limits));
  uint32_t next = 0;
  for (const BatchSequence& sequence : batch.sequences) {
    if (sequence.first_row != next || sequence.rows > batch.rows - next) {
      return internal("the rows of sequence " + number(sequence.seq) +
                      " do not follow those of the one before it");
    }
    next += sequence.rows;
    TENON_RETURN_IF_ERROR(check_sequence(batch, sequence, limits));
  }
  if (next != batch.rows) {
    return internal("a batch of " + number(batch.rows) + " rows of which sequences own " +
                    number(next));
  }
  return {};
}

}  // namespace tenon
