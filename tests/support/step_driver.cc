#include "tests/support/step_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::test {
namespace {

constexpr uint32_t kStateSlots = 512;
constexpr uint32_t kShortStep = 8;  // rows

}  // namespace

StepDriver::StepDriver(Executor& executor, const Model& model, const ModelShape& shape,
                       const LoadOptions& options)
    : executor_(executor),
      block_tokens_(options.block_tokens),
      blocks_(options.blocks),
      hidden_size_(shape.hidden),
      sees_whole_(model.plan.mask_token.has_value()) {
  for (GroupId group = 0; group < shape.group_count; ++group) {
    recurrent_.push_back(shape.groups[group].kind == KvKind::recurrent);
    const uint64_t bytes = kv_bytes_per_token(shape, group, options.kv_dtype);
    if (recurrent_.back()) {
      groups_.push_back({DType::u8, 1, kStateSlots, bytes, 0});
    } else {
      groups_.push_back({options.kv_dtype, options.block_tokens, options.blocks, bytes, 0});
    }
  }
  ExecutorSetup setup;
  setup.model = &model;
  setup.shape = &shape;
  setup.geometry = {shape.context_tokens, options.max_sequences, shape.group_count, groups_.data()};
  setup.max_rows = options.max_rows;
  setup.max_sequences = options.max_sequences;
  setup.attention = options.attention;
  setup.state = options.state;
  setup.linear = options.linear;
  setup.adapters = options.adapters;
  setup.graph_bytes = options.graph_bytes;
  load_status_ = executor_.load(setup);
}

size_t StepDriver::begin(uint64_t adapter) {
  sequences_.emplace_back().adapter = adapter;
  return sequences_.size() - 1;
}

size_t StepDriver::fork(size_t parent, uint32_t tokens) {
  const size_t child = begin(sequences_[parent].adapter);
  sequences_[child].tokens = tokens;
  const uint32_t shared = (tokens + block_tokens_ - 1) / block_tokens_;
  const std::vector<BlockId>& table = sequences_[parent].table;
  sequences_[child].table.assign(table.begin(), table.begin() + shared);
  const auto state = sequences_[parent].states.find(tokens);
  if (state != sequences_[parent].states.end()) sequences_[child].states.insert(*state);
  return child;
}

// Blocks come in strides of 7, so that neighbours in a table are none in memory.
void StepDriver::grow(Sequence& sequence, uint32_t tokens) {
  while (sequence.table.size() * block_tokens_ < tokens) sequence.table.push_back(take_block());
}

// From the state after what is computed to one after each row, or the last.
void StepDriver::add_states(Arrays& arrays, Sequence& sequence, uint32_t rows) {
  const auto from = sequence.states.find(sequence.tokens);
  ASSERT_NE(from, sequence.states.end()) << "no state behind " << sequence.tokens << " tokens";
  std::vector<BlockId>& slots = arrays.slots_of.emplace_back();
  std::vector<uint32_t>& ends = arrays.ends_of.emplace_back();
  slots.push_back(from->second);
  ends.push_back(from->first);
  for (uint32_t row = rows <= kShortStep ? 1 : rows; row <= rows; ++row) {
    next_slot_ = (next_slot_ + 11) % static_cast<int>(kStateSlots);
    slots.push_back(next_slot_);
    ends.push_back(sequence.tokens + row);
    sequence.states[ends.back()] = slots.back();
  }
  KvTableView& table = arrays.state_tables.emplace_back();
  table.blocks = slots;
  table.ends = ends;
}

void StepDriver::add(Arrays& arrays, const Feed& feed, Want want) {
  Sequence& sequence = sequences_[feed.sequence];
  const auto rows = static_cast<uint32_t>(feed.tokens.size());
  const auto first = static_cast<uint32_t>(arrays.tokens.size());
  grow(sequence, sequence.tokens + rows);
  if (std::ranges::find(recurrent_, true) != recurrent_.end()) {
    add_states(arrays, sequence, rows);
  }
  for (uint32_t row = 0; row < rows; ++row) {
    arrays.slots.push_back(sequence.tokens + row);
    arrays.positions.push_back(sequence.tokens + row);
    if (want == Want::all || (want == Want::last && row + 1 == rows)) {
      arrays.wanted.push_back(first + row);
    }
  }
  arrays.tokens.insert(arrays.tokens.end(), feed.tokens.begin(), feed.tokens.end());
  sequence.tokens += rows;
  arrays.kv_tokens.push_back(sequence.tokens);
  arrays.tables.emplace_back().blocks = sequence.table;
  BatchSequence& added = arrays.sequences.emplace_back();
  added.seq = static_cast<SeqId>(feed.sequence);
  added.first_row = first;
  added.rows = rows;
  added.adapter = sequence.adapter;
}

Result<Logits> StepDriver::run(Arrays& arrays) {
  for (const bool recurrent : recurrent_) {
    arrays.groups.push_back(recurrent ? BatchGroup{{}, {}, arrays.state_tables}
                                      : BatchGroup{arrays.slots, arrays.kv_tokens, arrays.tables});
  }
  BatchView batch;
  batch.step_id = ++step_id_;
  batch.rows = batch.padded_rows = static_cast<uint32_t>(arrays.tokens.size());
  batch.padded_sequences = static_cast<uint32_t>(arrays.sequences.size());
  batch.tokens = arrays.tokens;
  batch.positions = arrays.positions;
  batch.tree_parents = arrays.parents;
  std::vector<uint32_t> sees_to;
  for (const BatchSequence& sequence : arrays.sequences) {
    if (!sees_whole_) break;
    const uint32_t end = sequence.first_row + sequence.rows;
    sees_to.resize(end, end - 1);
  }
  batch.sees_to = sees_to;
  batch.sequences = arrays.sequences;
  batch.groups = arrays.groups;
  batch.logits_rows = arrays.wanted;
  batch.hidden_rows = hidden_rows_;
  batch.hidden_layers = hidden_layers_;
  if (!inputs_.empty()) {
    batch.inputs.data = inputs_.data();
    batch.inputs.rank = 2;
    batch.inputs.shape[0] = inputs_.size() / hidden_size_;
    batch.inputs.shape[1] = batch.inputs.stride[0] = hidden_size_;
  }
  TENON_RETURN_IF_ERROR(executor_.launch(batch));
  TENON_ASSIGN_OR_RETURN(const StepOutput output, executor_.collect(step_id_));
  const auto rows_of = [](const float* values, uint64_t count, uint64_t width) {
    Logits rows;
    for (uint64_t row = 0; row < count; ++row) {
      rows.emplace_back(values + row * width, values + (row + 1) * width);
    }
    return rows;
  };
  hidden_.clear();
  for (const float* layer : output.hidden) {
    hidden_.push_back(rows_of(layer, output.hidden_rows, hidden_size_));
  }
  return rows_of(output.logits, output.logits_rows, output.vocabulary);
}

Result<Logits> StepDriver::try_step(const std::vector<Feed>& feeds, Want want) {
  Arrays arrays;
  for (const Feed& feed : feeds) add(arrays, feed, want);
  return run(arrays);
}

Logits StepDriver::step(const Tree& tree) {
  Arrays arrays;
  const uint32_t base = sequences_[tree.sequence].tokens;
  add(arrays, {tree.sequence, tree.tokens}, Want::all);
  arrays.parents = tree.parents;
  for (size_t row = 0; row < tree.parents.size(); ++row) {
    const int32_t parent = tree.parents[row];
    arrays.positions[row] = parent < 0 ? base : arrays.positions[static_cast<size_t>(parent)] + 1;
  }
  arrays.sequences[0].drafts = static_cast<uint32_t>(tree.tokens.size()) - 1;
  auto logits = run(arrays);
  if (!logits.ok()) {
    ADD_FAILURE() << logits.status().message();
    return {};
  }
  return *std::move(logits);
}

void StepDriver::keep_path(size_t sequence, uint32_t base, const std::vector<uint32_t>& path) {
  const std::vector<BlockId>& table = sequences_[sequence].table;
  const auto place = [&](uint32_t slot) {
    KvPlace at;
    at.block = table[slot / block_tokens_];
    at.token = slot % block_tokens_;
    return at;
  };
  std::vector<KvMove> moves;
  for (uint32_t i = 0; i < path.size(); ++i) {
    for (GroupId group = 0; group < groups_.size(); ++group) {
      moves.push_back({group, place(base + path[i]), place(base + i), 1});
    }
  }
  const Status moved = executor_.apply(moves);
  EXPECT_TRUE(moved.ok()) << moved.message();
  roll_back(sequence, base + static_cast<uint32_t>(path.size()));
}

Logits StepDriver::step(const std::vector<Feed>& feeds, Want want) {
  auto logits = try_step(feeds, want);
  if (!logits.ok()) {
    ADD_FAILURE() << logits.status().message();
    return {};
  }
  return *std::move(logits);
}

Logits StepDriver::feed(const std::vector<TokenId>& tokens, const std::vector<uint32_t>& chunks,
                        uint64_t adapter) {
  const size_t sequence = begin(adapter);
  Logits all;
  for (size_t at = 0, chunk = 0; at < tokens.size(); ++chunk) {
    const size_t size =
        std::min<size_t>(chunks[std::min(chunk, chunks.size() - 1)], tokens.size() - at);
    const auto first = tokens.begin() + static_cast<ptrdiff_t>(at);
    Logits rows = step({{sequence, {first, first + static_cast<ptrdiff_t>(size)}}});
    all.insert(all.end(), rows.begin(), rows.end());
    at += size;
  }
  return all;
}

std::vector<TokenId> some_tokens(uint32_t count, uint32_t vocabulary, uint32_t seed) {
  std::vector<TokenId> tokens;
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (uint32_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    tokens.push_back(static_cast<TokenId>((state >> 33) % vocabulary));
  }
  return tokens;
}

double largest_difference(const Logits& actual, const Logits& expected) {
  if (actual.size() != expected.size() || expected.empty()) {
    return std::numeric_limits<double>::infinity();
  }
  double difference = 0;
  double low = expected[0][0];
  double high = low;
  for (size_t row = 0; row < expected.size(); ++row) {
    for (size_t i = 0; i < expected[row].size(); ++i) {
      const double error = std::abs(double{actual[row][i]} - expected[row][i]);
      // Written so that NaN counts as the worst.
      if (!(error <= difference)) difference = error;
      low = std::min<double>(low, expected[row][i]);
      high = std::max<double>(high, expected[row][i]);
    }
  }
  return difference / (high - low);
}

}  // namespace tenon::test
