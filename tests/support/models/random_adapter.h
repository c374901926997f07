// Low-rank adapters with random halves, built in memory for any model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/model/adapters/adapter.h"

namespace tenon::test {

struct RandomAdapter {
  uint64_t seed = 1;
  uint32_t rank = 4;
  DType dtype = DType::f32;  // or bf16
  // Which of the layers' matrices; all of attention and the MLP where it is empty.
  std::function<bool(uint32_t layer, const Weight& weight)> changes = {};
};

// `model` outlives the result.
std::unique_ptr<Adapter> make_random_adapter(const Model& model, const RandomAdapter& options);

}  // namespace tenon::test
