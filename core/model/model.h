// A checkpoint opened: its configuration and borrowed views of its weights.
//
// Nothing is copied: weights are views into mapped files, which the Model keeps open. `release`
// tells the system that pages of a packed weight are not needed any more.
#pragma once

#include <tenon/linear.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/checkpoint.h"
#include "core/model/model_config.h"

namespace tenon {

// A weight matrix [n_out, k_in] with the storage its view points to.
struct Weight {
  std::string name;
  std::string format;  // "f32", "f16", "bf16", or of blocks: "q8_0" (core/model/quant_format.h)
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  std::vector<TensorView> parts;
  std::span<const uint32_t> row_order = {};  // as in WeightView; the checkpoint's

  WeightView view() const { return {format, name, n_out, k_in, parts, row_order}; }
};

// Vectors (norms, biases) are small and widened to f32 on opening. Empty = absent.
struct LayerWeights {
  std::vector<float> attention_norm;  // [hidden]
  std::vector<float> mlp_norm;        // [hidden]
  std::vector<float> q_norm, k_norm;  // [head_dim], with qk_norm
  std::vector<float> q_bias, k_bias, v_bias, output_bias, gate_bias, up_bias, down_bias;
  Weight q, k, v;   // [heads or kv_heads · head_dim, hidden]
  Weight output;    // [hidden, heads · head_dim]
  Weight gate, up;  // [intermediate, hidden]
  Weight down;      // [hidden, intermediate]

  // All of them, in the order above.
  std::array<const Weight*, 7> matrices() const { return {&q, &k, &v, &output, &gate, &up, &down}; }
};

struct Model {
  std::string path;
  ModelConfig config;
  GenerationDefaults generation;
  Weight embedding;               // [vocabulary, hidden]
  Weight head;                    // [vocabulary, hidden]; the same tensor as `embedding` when tied
  std::vector<float> final_norm;  // [hidden]
  std::vector<LayerWeights> layers;
  uint64_t vector_bytes = 0;  // of all norms and biases, as stored
  std::unique_ptr<Checkpoint> checkpoint;

  uint64_t parameter_count() const;
  uint64_t weight_bytes() const;  // as stored, each tensor once
};

// Opens a Hugging Face folder (docs/formats/model-folder.md): config.json, generation_config.json
// where present, and model.safetensors or model.safetensors.index.json with its shards; or a GGUF
// file (docs/formats/gguf.md). Every tensor that the architecture needs must be there with its
// shape, as f32, f16 or bf16 (matrices of a GGUF file also in blocks, core/model/quant_format.h),
// and the layers must have no other; the message names the first ones at fault.
Result<std::unique_ptr<Model>> open_model(const std::string& path);

}  // namespace tenon
