// Small models with random weights, built in memory, for tests that need a model but no file.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <memory>

#include "core/model/model.h"
#include "tests/support/models/flat_config.h"

namespace tenon::test {

struct TinyModelOptions {
  FlatConfig config;
  DType dtype = DType::f32;  // of matrices: f32, f16 or bf16
  uint64_t seed = 1;
  bool misaligned = false;  // matrices start at odd addresses
};

// 2 layers, hidden 32, 4 query heads over 2 KV heads of 8, MLP 48, vocabulary 61, context 64.
FlatConfig tiny_config();

// The checkpoint counts how often each tensor was released: `release_count`.
std::unique_ptr<Model> make_tiny_model(const TinyModelOptions& options);
uint32_t release_count(const Model& model, const Weight& weight);

}  // namespace tenon::test
