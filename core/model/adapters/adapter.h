// A low-rank adapter (LoRA, arXiv:2106.09685) for an opened model: a PEFT folder
// (docs/formats/adapters.md), its tensors put to the model's own matrices.
//
//   y = W · x + scale · B · (A · x)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/model.h"

namespace tenon {

// What is added to one matrix. Where a tensor of the checkpoint holds several, each has its part of
// B, and the same A.
struct AdapterMatrix {
  const Weight* target = nullptr;  // the model's W [n_out, k_in]
  Weight a;                        // [rank, k_in]
  Weight b;                        // [n_out, rank]
  float scale = 1.0f;
};

struct Adapter {
  std::string name;  // that requests give
  std::string path;
  std::vector<AdapterMatrix> matrices;  // in the order of the modules' names
  std::unique_ptr<Checkpoint> checkpoint;
  std::vector<std::unique_ptr<std::byte[]>> copies;  // of what was stored in another order

  // Null where the adapter leaves the matrix as it is.
  const AdapterMatrix* find(const Weight& target) const;
  uint64_t weight_bytes() const;  // as stored; what several matrices share counts for each
};

// Reads adapter_config.json and adapter_model.safetensors. Every tensor must be one half of a pair
// for a matrix of the model that adapters can change, with its shape, as f32, f16 or bf16; the
// message names the first ones at fault. `model` outlives the result.
Result<std::unique_ptr<Adapter>> open_adapter(const std::string& name, const std::string& folder,
                                              const Model& model);

}  // namespace tenon
