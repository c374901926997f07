#include "core/exec/batch_check.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/blocks/recurrence.h"

namespace tenon {
namespace {

std::string number(uint64_t value) {
  return std::to_string(value);
}

Status check_sizes(const BatchView& batch, const BatchLimits& limits) {
  const size_t sequences = batch.sequences.size();
  if (batch.rows > limits.max_rows || sequences > limits.max_sequences) {
    return internal("a batch of " + number(batch.rows) + " rows and " + number(sequences) +
                    " sequences; the executor was loaded for " + number(limits.max_rows) + " and " +
                    number(limits.max_sequences));
  }
  if (batch.padded_rows < batch.rows || batch.padded_sequences < sequences) {
    return internal("a batch of " + number(batch.rows) + " rows and " + number(sequences) +
                    " sequences is padded to " + number(batch.padded_rows) + " and " +
                    number(batch.padded_sequences) + "; expected at least as many");
  }
  const auto one_a_row = [&](size_t size) { return size == 0 || size == batch.rows; };
  if (batch.tokens.size() != batch.rows ||
      batch.positions.size() != uint64_t{batch.rows} * limits.shape->position_axes ||
      !one_a_row(batch.tree_parents.size()) || !one_a_row(batch.sees_to.size())) {
    return internal("a batch's tokens, positions, parents and spans are not one for each of its " +
                    number(batch.rows) + " rows");
  }
  return {};
}

Status check_groups(const BatchView& batch, const ModelShape& shape) {
  if (batch.groups.size() != shape.group_count) {
    return internal("a batch has tables of " + number(batch.groups.size()) +
                    " KV groups; the model has " + number(shape.group_count));
  }
  for (GroupId id = 0; id < shape.group_count; ++id) {
    const BatchGroup& group = batch.groups[id];
    const bool keeps_tokens = shape.groups[id].kind != KvKind::recurrent;
    if (group.tables.size() != batch.sequences.size() ||
        (keeps_tokens &&
         (group.slots.size() != batch.rows || group.kv_tokens.size() != batch.sequences.size()))) {
      return internal("KV group " + number(id) + " has " + number(group.slots.size()) + " slots, " +
                      number(group.kv_tokens.size()) + " lengths and " +
                      number(group.tables.size()) + " block tables for " + number(batch.rows) +
                      " rows of " + number(batch.sequences.size()) + " sequences");
    }
  }
  return {};
}

// What enters in place of an embedded token.
Status check_inputs(const BatchView& batch, const BatchLimits& limits) {
  const ModelShape& shape = *limits.shape;
  const TensorView& inputs = batch.inputs;
  if (inputs.data == nullptr) {
    if (limits.features == 0 || limits.enters_alone || batch.rows == 0) return {};
    return internal("a batch of a head has no hidden states; its rows continue from some");
  }
  if (limits.needs_tokens) {
    return unsupported(
        "rows that enter as they are have no token, which per-layer embeddings are looked up by");
  }
  const bool of_target = limits.features > 0 && inputs.shape[1] == limits.features;
  const bool fits = inputs.rank == 2 && inputs.shape[0] >= batch.rows &&
                    (inputs.shape[1] == shape.hidden || of_target) && inputs.stride[1] == 1;
  if (fits && inputs.dtype == DType::f32 && inputs.space == Space{}) return {};
  return internal("rows that enter as they are have the shape [" + number(inputs.shape[0]) + ", " +
                  number(inputs.shape[1]) + "] of " + std::string(dtype_name(inputs.dtype)) +
                  "; expected f32 in host memory, [" + number(batch.rows) + ", " +
                  number(shape.hidden) + "], each row without gaps");
}

Status check_tokens(const BatchView& batch, const BatchLimits& limits) {
  const ModelShape& shape = *limits.shape;
  TENON_RETURN_IF_ERROR(check_inputs(batch, limits));
  for (const TokenId token : batch.tokens) {
    if (token == kNoToken && (limits.open_tokens || batch.inputs.data != nullptr)) continue;
    if (token < 0 || static_cast<uint32_t>(token) >= shape.vocabulary) {
      return invalid_argument("token id " + std::to_string(token) +
                              " is not of the vocabulary; expected 0 to " +
                              number(shape.vocabulary - 1));
    }
  }
  return {};
}

Status check_wanted(std::span<const uint32_t> rows, uint32_t limit, std::string_view what) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= limit || (i > 0 && rows[i] <= rows[i - 1])) {
      return internal("the " + std::string(what) + " do not rise below " + number(limit));
    }
  }
  return {};
}

Status check_slots(const BatchView& batch, size_t index, GroupId id) {
  const BatchSequence& sequence = batch.sequences[index];
  const BatchGroup& group = batch.groups[id];
  for (uint32_t i = 0; i < sequence.rows; ++i) {
    const uint32_t slot = group.slots[sequence.first_row + i];
    if (slot >= group.kv_tokens[index] || slot != group.slots[sequence.first_row] + i) {
      return internal("sequence " + number(sequence.seq) + " stores row " + number(i) +
                      " at position " + number(slot) +
                      "; expected positions that rise by one below " +
                      number(group.kv_tokens[index]));
    }
  }
  return {};
}

bool is_block(BlockId block, const KvGroupGeometry& geometry) {
  return block >= 0 && static_cast<uint32_t>(block) < geometry.blocks;
}

// Blocks are needed from the first entry that the sequence's first row sees: of a tree's rows it
// is the one that sees furthest back.
Status check_table(const BatchView& batch, size_t index, const BatchLimits& limits, GroupId id) {
  const BatchSequence& sequence = batch.sequences[index];
  const BatchGroup& group = batch.groups[id];
  const KvGroupGeometry& geometry = limits.groups[id];
  const std::span<const BlockId> blocks = group.tables[index].blocks;
  const uint32_t first =
      first_visible(group.slots[sequence.first_row], limits.shape->groups[id].window_tokens);
  for (uint32_t i = first / geometry.block_tokens;
       uint64_t{i} * geometry.block_tokens < group.kv_tokens[index]; ++i) {
    if (i >= blocks.size() || !is_block(blocks[i], geometry)) {
      return internal("entry " + number(i) + " of the block table of sequence " +
                      number(sequence.seq) + " is no block; positions " + number(first) + " to " +
                      number(group.kv_tokens[index]) + " need one");
    }
  }
  return {};
}

Status check_states(const BatchView& batch, size_t index, const BatchLimits& limits, GroupId id) {
  const KvTableView& table = batch.groups[id].tables[index];
  const auto name = [&] { return "the states of sequence " + number(batch.sequences[index].seq); };
  if (table.blocks.empty() || table.blocks.size() != table.ends.size()) {
    return internal(name() + " have " + number(table.blocks.size()) + " slots for " +
                    number(table.ends.size()) + " ends; expected one each");
  }
  for (size_t i = 0; i < table.blocks.size(); ++i) {
    const bool nothing_yet = i == 0 && table.blocks[i] == kNoBlock;
    const bool rises = i == 0 || table.ends[i] > table.ends[i - 1];
    if (!rises || (!nothing_yet && !is_block(table.blocks[i], limits.groups[id]))) {
      return internal(name() + " have no slot, or no later end, at " + number(i));
    }
  }
  return {};
}

Status check_order(const BatchView& batch, const BatchSequence& sequence) {
  const uint32_t end = sequence.first_row + sequence.rows;
  for (uint32_t row = sequence.first_row; row < end; ++row) {
    if (!batch.tree_parents.empty()) {
      const int64_t parent = batch.tree_parents[row];
      if (parent >= row || (parent >= 0 && parent < sequence.first_row)) {
        return internal("row " + number(row) + " follows row " + std::to_string(parent) +
                        ", which is no earlier one of its sequence");
      }
    }
    if (!batch.sees_to.empty() && (batch.sees_to[row] < row || batch.sees_to[row] >= end)) {
      return internal("row " + number(row) + " sees up to row " + number(batch.sees_to[row]) +
                      ", which is not itself or a later one of its sequence");
    }
  }
  return {};
}

Status check_sequence(const BatchView& batch, size_t index, const BatchLimits& limits) {
  const BatchSequence& sequence = batch.sequences[index];
  if (sequence.adapter > limits.adapters) {
    return internal("sequence " + number(sequence.seq) + " has the low-rank adapter " +
                    number(sequence.adapter) + "; the executor was loaded with " +
                    number(limits.adapters));
  }
  TENON_RETURN_IF_ERROR(check_order(batch, sequence));
  for (GroupId id = 0; id < limits.shape->group_count && sequence.rows > 0; ++id) {
    if (limits.shape->groups[id].kind == KvKind::recurrent) {
      TENON_RETURN_IF_ERROR(check_states(batch, index, limits, id));
      continue;
    }
    TENON_RETURN_IF_ERROR(check_slots(batch, index, id));
    TENON_RETURN_IF_ERROR(check_table(batch, index, limits, id));
  }
  return {};
}

}  // namespace

Status check_decoder_shape(const ModelShape& shape) {
  if (shape.position_axes != 1) {
    return unsupported("the model's positions have " + number(shape.position_axes) +
                       " numbers; this executor rotates by one");
  }
  const std::vector<std::string> recurrences = recurrence_names();
  for (LayerId id = 0; id < shape.layer_count; ++id) {
    const LayerShape& layer = shape.layers[id];
    if (layer.state_group == kNoGroup ||
        std::ranges::find(recurrences, layer.state_kind) != recurrences.end()) {
      continue;
    }
    return unsupported("layer " + number(id) + " keeps a recurrent state of the kind " +
                       in_quotes(layer.state_kind) + "; this executor runs " +
                       join_and(recurrences));
  }
  return {};
}

Status check_batch(const BatchView& batch, const BatchLimits& limits) {
  TENON_RETURN_IF_ERROR(check_sizes(batch, limits));
  TENON_RETURN_IF_ERROR(check_groups(batch, *limits.shape));
  TENON_RETURN_IF_ERROR(check_tokens(batch, limits));
  TENON_RETURN_IF_ERROR(
      check_wanted(batch.logits_rows, batch.rows, "rows whose logits are wanted"));
  TENON_RETURN_IF_ERROR(
      check_wanted(batch.hidden_rows, batch.rows, "rows whose hidden states are wanted"));
  TENON_RETURN_IF_ERROR(check_wanted(batch.hidden_layers, limits.shape->layer_count + 1,
                                     "layers whose hidden states are wanted"));
  uint32_t next = 0;
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    if (sequence.first_row != next || sequence.rows > batch.rows - next) {
      return internal("the rows of sequence " + number(sequence.seq) +
                      " do not follow those of the one before it");
    }
    next += sequence.rows;
    TENON_RETURN_IF_ERROR(check_sequence(batch, i, limits));
  }
  if (next != batch.rows) {
    return internal("a batch of " + number(batch.rows) + " rows of which sequences own " +
                    number(next));
  }
  return {};
}

}  // namespace tenon
