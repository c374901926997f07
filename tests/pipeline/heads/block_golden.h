// What tests/golden/make_block_goldens.py computed of heads that draft a block in one pass, and how
// it is asked of an executor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "tests/pipeline/heads/head_driver.h"

namespace tenon::test {

struct BlockGolden {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> anchors;
  std::vector<float> hidden, logits, states, followed, confidence, embedding;
  uint64_t width = 0, count = 0, vocabulary = 0;
};

inline std::vector<float> floats(const Checkpoint& file, const char* name) {
  std::vector<float> values;
  const TensorView* view = file.find(name);
  for (uint64_t i = 0; view != nullptr && i < element_count(*view); ++i) {
    values.push_back(element(*view, i));
  }
  return values;
}

template <typename Number>
std::vector<Number> integers(const Checkpoint& file, const char* name) {
  std::vector<Number> values;
  const TensorView& view = *file.find(name);
  for (uint64_t i = 0; i < view.shape[0]; ++i) {
    values.push_back(static_cast<Number>(static_cast<const int64_t*>(view.data)[i]));
  }
  return values;
}

inline BlockGolden read_block_golden(const Checkpoint& file) {
  BlockGolden golden;
  golden.tokens = integers<TokenId>(file, "tokens");
  golden.anchors = integers<uint32_t>(file, "anchors");
  golden.hidden = floats(file, "hidden");
  golden.logits = floats(file, "logits");
  golden.states = floats(file, "states");
  golden.followed = floats(file, "followed");
  golden.confidence = floats(file, "confidence");
  golden.width = file.find("hidden")->shape[1];
  golden.count = file.find("logits")->shape[1];
  golden.vocabulary = file.find("logits")->shape[2];
  return golden;
}

// A target of 40 tokens, 16 numbers and 4 layers, of whose weights there is the embedding where the
// golden has it.
inline std::unique_ptr<Model> target_of(const Checkpoint& golden) {
  auto model = std::make_unique<Model>();
  model->plan.vocabulary = 40;
  model->plan.hidden = 16;
  model->plan.layers.resize(4);
  if (const TensorView* embedding = golden.find("embedding"); embedding != nullptr) {
    model->plan.vocabulary = static_cast<uint32_t>(embedding->shape[0]);
    model->plan.hidden = static_cast<uint32_t>(embedding->shape[1]);
    model->embedding.name = "embedding";
    model->embedding.format = "f32";
    model->embedding.n_out = model->plan.vocabulary;
    model->embedding.k_in = model->plan.hidden;
    model->embedding.parts = {*embedding};
  }
  return model;
}

// A row of the LM head's logits by the target's tokens.
inline Row by_tokens(const Head& head, const Row& row, uint32_t vocabulary) {
  if (head.token_ids.empty()) return row;
  Row all(vocabulary, -INFINITY);
  for (size_t i = 0; i < row.size(); ++i) all[static_cast<size_t>(head.token_ids[i])] = row[i];
  return all;
}

// And back.
inline Row of_head(const Head& head, const float* all, uint64_t count) {
  Row row;
  for (size_t i = 0; i < count; ++i) {
    row.push_back(all[head.token_ids.empty() ? i : static_cast<size_t>(head.token_ids[i])]);
  }
  return row;
}

inline float worst(const Row& row, std::span<const float> expected) {
  EXPECT_EQ(row.size(), expected.size());
  float worst = 0;
  for (size_t i = 0; i < std::min(row.size(), expected.size()); ++i) {
    worst = std::max(worst, std::abs(row[i] - expected[i]));
  }
  return worst;
}

// The tokens of the block after `anchor`, the target's states of which come in two parts.
inline HeadDriver::Rows draft(HeadDriver& driver, const Head& head, const BlockGolden& golden,
                              uint32_t anchor) {
  driver.begin();
  const auto count = static_cast<uint32_t>(golden.count);
  if (head.kind == HeadKind::dflash) {
    driver.keep({golden.tokens.begin() + 1, golden.tokens.begin() + 2}, golden.hidden.data(),
                golden.width);
    driver.keep({golden.tokens.begin() + 2, golden.tokens.begin() + anchor + 1},
                &golden.hidden[golden.width], golden.width);
    std::vector<TokenId> block(head.block_rows(), head.block.mask);
    block.front() = golden.tokens[anchor];
    std::vector<uint32_t> wanted;
    for (uint32_t i = 0; i < count; ++i) wanted.push_back(i + (head.block.from_anchor ? 0 : 1));
    return driver.run(block, nullptr, 0, wanted, true);
  }
  std::vector<TokenId> tokens(golden.tokens.begin() + 1, golden.tokens.begin() + anchor + 1);
  std::vector<float> states(golden.hidden.begin(),
                            golden.hidden.begin() + static_cast<ptrdiff_t>(anchor * golden.width));
  std::vector<uint32_t> wanted = {anchor - 1};
  for (uint32_t i = 1; i < count; ++i) {
    tokens.push_back(head.block.mask);
    states.insert(states.end(), head.block.mask_state.begin(), head.block.mask_state.end());
    wanted.push_back(anchor - 1 + i);
  }
  return driver.run(tokens, states.data(), golden.width, wanted);
}

}  // namespace tenon::test
