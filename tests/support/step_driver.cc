#include "tests/support/step_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::test {

StepDriver::StepDriver(Executor& executor, const Model& model, const ModelShape& shape,
                       const LoadOptions& options)
    : executor_(executor),
      block_tokens_(options.block_tokens),
      blocks_(options.blocks),
      group_{options.block_tokens, options.blocks, kv_bytes_per_token(shape, 0, options.kv_dtype)} {
  ExecutorSetup setup;
  setup.model = &model;
  setup.shape = &shape;
  setup.geometry = {options.kv_dtype, shape.context_tokens, options.max_sequences, 1, &group_};
  setup.max_rows = options.max_rows;
  setup.max_sequences = options.max_sequences;
  setup.attention = options.attention;
  setup.linear = options.linear;
  load_status_ = executor_.load(setup);
}

size_t StepDriver::begin() {
  sequences_.emplace_back();
  return sequences_.size() - 1;
}

size_t StepDriver::fork(size_t parent, uint32_t tokens) {
  const size_t child = begin();
  sequences_[child].tokens = tokens;
  const uint32_t shared = (tokens + block_tokens_ - 1) / block_tokens_;
  const std::vector<BlockId>& table = sequences_[parent].table;
  sequences_[child].table.assign(table.begin(), table.begin() + shared);
  return child;
}

// Blocks come in strides of 7, so that neighbours in a table are none in memory.
void StepDriver::grow(Sequence& sequence, uint32_t tokens) {
  while (sequence.table.size() * block_tokens_ < tokens) sequence.table.push_back(take_block());
}

Result<Logits> StepDriver::try_step(const std::vector<Feed>& feeds, Want want) {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> positions;
  std::vector<uint32_t> wanted;
  std::vector<KvTableView> tables(feeds.size());
  std::vector<BatchSequence> sequences;
  for (size_t i = 0; i < feeds.size(); ++i) {
    Sequence& sequence = sequences_[feeds[i].sequence];
    const auto rows = static_cast<uint32_t>(feeds[i].tokens.size());
    const auto first = static_cast<uint32_t>(tokens.size());
    grow(sequence, sequence.tokens + rows);
    for (uint32_t row = 0; row < rows; ++row) {
      positions.push_back(sequence.tokens + row);
      if (want == Want::all || (want == Want::last && row + 1 == rows))
        wanted.push_back(first + row);
    }
    tokens.insert(tokens.end(), feeds[i].tokens.begin(), feeds[i].tokens.end());
    sequence.tokens += rows;
    tables[i].blocks = sequence.table;
    sequences.push_back({static_cast<SeqId>(feeds[i].sequence), first, rows, sequence.tokens,
                         std::span(&tables[i], 1)});
  }
  const auto rows = static_cast<uint32_t>(tokens.size());
  const BatchView batch{++step_id_, rows, rows,      tokens, positions,
                        positions,  {},   sequences, wanted, nullptr};
  TENON_RETURN_IF_ERROR(executor_.launch(batch));
  TENON_ASSIGN_OR_RETURN(const StepOutput output, executor_.collect(step_id_));
  Logits logits;
  for (uint64_t row = 0; row < output.logits_rows; ++row) {
    const float* values = output.logits + row * output.vocabulary;
    logits.emplace_back(values, values + output.vocabulary);
  }
  return logits;
}

Logits StepDriver::step(const std::vector<Feed>& feeds, Want want) {
  auto logits = try_step(feeds, want);
  if (!logits.ok()) {
    ADD_FAILURE() << logits.status().message();
    return {};
  }
  return *std::move(logits);
}

Logits StepDriver::feed(const std::vector<TokenId>& tokens, const std::vector<uint32_t>& chunks) {
  const size_t sequence = begin();
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
