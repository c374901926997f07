// Trees of drafts, computed by the second model.
//
// What rows of a tree leave in the cache lies in the order of the tree, not in that of any text. So
// nothing of it is kept: each pass brings all rows on the way to those that are wanted, and stores
// them in the slots after the history.
#include <algorithm>
#include <string>

#include "core/engine/step/drafts/draft_runner.h"
#include "core/model/heads/head.h"

namespace tenon {
namespace {

std::string number(uint64_t value) {
  return std::to_string(value);
}

std::string of(const RunnerTree& tree) {
  return " of sequence " + number(tree.seq);
}

size_t wanted_nodes(std::span<const RunnerTree> trees) {
  size_t count = 0;
  for (const RunnerTree& tree : trees) {
    count += static_cast<size_t>(std::ranges::count_if(tree.wanted, [](uint8_t w) { return w; }));
  }
  return count;
}

Status check_nodes(const RunnerTree& tree, uint32_t room) {
  const size_t nodes = tree.tokens.size();
  if (nodes == 0 || tree.parents.size() != nodes || tree.wanted.size() != nodes) {
    return invalid_argument("a tree" + of(tree) + " has " + number(nodes) + " tokens, " +
                            number(tree.parents.size()) + " parents and " +
                            number(tree.wanted.size()) +
                            " marks of what is wanted – expected one of each for each node");
  }
  if (nodes > room) {
    return invalid_argument("a tree" + of(tree) + " has " + number(nodes) +
                            " nodes – there is room for " + number(room));
  }
  for (size_t node = 0; node < nodes; ++node) {
    const int32_t parent = tree.parents[node];
    if (parent >= -1 && parent < static_cast<int32_t>(node)) continue;
    return invalid_argument("node " + number(node) + " of the tree" + of(tree) + " follows node " +
                            std::to_string(parent) +
                            " – expected an earlier one, or -1 for the history");
  }
  return {};
}

}  // namespace

// Slots that the sequence's tables have after the history, and rows of a pass.
Status DraftRunner::check(const RunnerTree& tree) {
  TENON_RETURN_IF_ERROR(check(RunnerRow{.seq = tree.seq, .history = tree.history, .hidden = {}}));
  TENON_RETURN_IF_ERROR(find_tables(tree.seq, looked_at_));
  const auto known = static_cast<uint32_t>(tree.history.size());
  const uint32_t read = reach(looked_at_, known);
  if (read < known) {
    return invalid_argument("a tree" + of(tree) + " follows " + number(known) +
                            " tokens of which the draft model has read " + number(read) +
                            " – let it read them first, with ModelRunner::forward");
  }
  uint64_t slots = std::min<uint64_t>(parts_.max_rows, context_tokens() - known);
  for (GroupId group = 0; group < groups(); ++group) {
    const uint64_t all =
        looked_at_[group].blocks.size() * uint64_t{parts_.geometry.groups[group].block_tokens};
    slots = std::min(slots, all - std::min<uint64_t>(all, known));
  }
  TENON_RETURN_IF_ERROR(check_nodes(tree, static_cast<uint32_t>(slots)));
  const TensorView& hidden = tree.hidden;
  const bool has = hidden.data != nullptr;
  const bool fits = hidden.dtype == DType::f32 && hidden.rank == 2 && hidden.stride[1] == 1 &&
                    hidden.shape[0] == tree.tokens.size() && hidden.shape[1] > 0;
  if (has != (parts_.head != nullptr) || (has && !fits)) {
    return invalid_argument("a tree" + of(tree) +
                            (parts_.head == nullptr
                                 ? " comes with hidden states – the draft model takes none"
                                 : " lacks the states that its nodes continue from – give f32 "
                                   "[nodes, hidden]"));
  }
  return {};
}

Status DraftRunner::forward_tree(std::span<const RunnerTree> trees, std::span<const float*> logits,
                                 std::span<const float*> hidden) noexcept {
  const size_t wanted = wanted_nodes(trees);
  if (logits.size() != wanted || (!hidden.empty() && hidden.size() != wanted)) {
    return invalid_argument("the draft model was asked for " + number(wanted) +
                            " nodes of trees – there is room for the logits of " +
                            number(logits.size()) + " and the hidden states of " +
                            number(hidden.size()));
  }
  try {
    return run_trees(trees, logits, hidden);
  } catch (const std::bad_alloc&) {
    return out_of_memory("there is no memory for the draft model's logits");
  }
}

Status DraftRunner::run_trees(std::span<const RunnerTree> trees, std::span<const float*> logits,
                              std::span<const float*> hidden) {
  tokens_.clear();
  wants_hidden_ = !hidden.empty();
  found_.assign(logits.size(), nullptr);
  found_hidden_.assign(hidden.size(), nullptr);
  logits_.clear();
  hidden_.clear();
  uint32_t index = 0;
  for (const RunnerTree& tree : trees) {
    TENON_RETURN_IF_ERROR(check(tree));
    TENON_RETURN_IF_ERROR(add(tree, index));
  }
  TENON_RETURN_IF_ERROR(run_pass(true));
  std::copy(found_.begin(), found_.end(), logits.begin());
  std::copy(found_hidden_.begin(), found_hidden_.end(), hidden.begin());
  return {};
}

// Puts a tree into the pass at hand, or into another where that is full. `index`: of its first
// wanted node.
Status DraftRunner::add(const RunnerTree& tree, uint32_t& index) {
  const auto known = static_cast<uint32_t>(tree.history.size());
  const auto nodes = static_cast<uint32_t>(tree.tokens.size());
  const bool full = sequences_.size() == parts_.max_sequences;
  if (!tokens_.empty() && (full || tokens_.size() + nodes > parts_.max_rows)) {
    TENON_RETURN_IF_ERROR(run_pass(false));
  }
  if (tokens_.empty()) begin_pass();
  TENON_RETURN_IF_ERROR(find_tables(tree.seq, looked_at_));
  cut(looked_at_, known);
  const auto first_row = static_cast<uint32_t>(tokens_.size());
  for (uint32_t node = 0; node < nodes; ++node) {
    const int32_t parent = tree.parents[node];
    const uint32_t row = first_row + node;
    positions_.push_back(parent < 0 ? known
                                    : positions_[first_row + static_cast<uint32_t>(parent)] + 1);
    slots_.push_back(known + node);
    tree_parents_.push_back(parent < 0 ? -1 : static_cast<int32_t>(first_row) + parent);
    tokens_.push_back(tree.tokens[node]);
    if (tree.wanted[node] == 0) continue;
    logits_rows_.push_back(row);
    wanted_by_.push_back(index++);
  }
  if (tree.hidden.data != nullptr) {
    input_width_ = tree.hidden.shape[1];
    const auto* states = static_cast<const float*>(tree.hidden.data);
    for (uint32_t node = 0; node < nodes; ++node, states += tree.hidden.stride[0]) {
      inputs_.insert(inputs_.end(), states, states + input_width_);
    }
  }
  close_sequence(tree.seq, nodes, known + nodes);
  return {};
}

}  // namespace tenon
