// A checkpoint opened: its plan and borrowed views of its weights.
//
// Weights are views into mapped files, which the Model keeps open; only what a folder stores in
// another order (FolderLayout), and the K half of latent attention, is copied. `release` tells the
// system that pages of a packed weight are not needed any more.
#pragma once

#include <tenon/linear.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/text_end.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/checkpoint/generation_defaults.h"
#include "core/model/plan/model_plan.h"

namespace tenon {

// A weight matrix [n_out, k_in] with the storage its view points to.
struct Weight {
  std::string name;
  std::string
      format;  // "f32", "f16", "bf16", or of blocks: "q8_0" (core/model/formats/quant_format.h)
  uint32_t n_out = 0;  // 0: the layer has no such matrix
  uint32_t k_in = 0;
  std::vector<TensorView> parts;
  std::span<const uint32_t> row_order = {};  // as in WeightView; the checkpoint's

  WeightView view() const { return {format, name, n_out, k_in, parts, row_order}; }
};

// One of a layer's experts. Biases are empty where there are none.
struct ExpertWeights {
  Weight gate, up;  // [width, hidden]
  Weight down;      // [hidden, width]
  std::vector<float> gate_bias, up_bias, down_bias;
};

// Vectors (norms, biases) are small and widened to f32 on opening, with the one added where
// NormPlan::plus_one says so. Empty = absent.
struct LayerWeights {
  std::vector<float> attention_norm, attention_norm_bias;  // [hidden], as the next three pairs
  std::vector<float> attention_post_norm, attention_post_norm_bias;
  std::vector<float> mlp_norm, mlp_norm_bias;
  std::vector<float> mlp_post_norm, mlp_post_norm_bias;
  std::vector<float> q_norm, k_norm;  // [head_dim], or [heads or kv_heads · head_dim]
  std::vector<float> q_norm_bias, k_norm_bias;
  std::vector<float> q_bias, k_bias, v_bias, output_bias, gate_bias, up_bias, down_bias;
  Weight q, k, v;   // [heads or kv_heads · head_dim, hidden]
  Weight output;    // [hidden, heads · head_dim]
  Weight gate, up;  // [intermediate, hidden]; no gate in plain MLPs
  Weight down;      // [hidden, intermediate]

  // Of a recurrence (RecurrentPlan). Its vectors are as docs/futures.md has them, "State kinds".
  std::vector<float> ssm_gate_bias, ssm_in_bias, ssm_step_bias, ssm_out_bias;
  std::vector<float> ssm_conv, ssm_conv_bias, ssm_a, ssm_dt_bias, ssm_d;
  std::vector<float> ssm_norm;  // [inner]
  Weight ssm_in;                // [channels, hidden]
  Weight ssm_gate;              // [inner, hidden]
  Weight ssm_step;              // mamba2: [heads, hidden]
  Weight ssm_low, ssm_bc;       // mamba: [step_rank, inner], [2·state, inner]
  Weight ssm_dt;                // mamba: [inner, step_rank]
  Weight ssm_out;               // [hidden, inner]

  // In place of gate, up and down where the layer has experts. Who is chosen is decided in f32:
  // routers are widened on opening, like vectors.
  Weight router;                         // [experts, hidden]
  std::vector<float> router_bias;        // [experts]
  std::vector<float> router_correction;  // [experts]
  std::vector<ExpertWeights> experts;
  Weight shared_gate, shared_up, shared_down;
  Weight shared_router;  // [1, hidden]

  // Latent attention: q [heads · (nope + rope), q_rank or hidden], output [hidden, heads · v], and
  std::vector<float> q_a_norm, kv_a_norm;  // [q_rank], [kv_rank]
  std::vector<float> q_a_bias, kv_a_bias;
  Weight q_a, kv_a;              // [q_rank, hidden], [kv_rank + rope, hidden]
  std::vector<Weight> k_absorb;  // [heads] of [kv_rank, nope]: Wukᵀ
  std::vector<Weight> v_expand;  // [heads] of [v, kv_rank]: Wuv

  // All that there are, in the order above; those of single heads last.
  std::vector<const Weight*> matrices() const;
};

struct Model {
  std::string path;
  ModelPlan plan;
  std::string config_json;  // what the plan was read from; of a GGUF file, what its metadata means
  GenerationDefaults generation;
  std::string generation_json;  // generation_config.json as it is written; "" where there is none
  // The tokens that end a text by config.json and generation_config.json, or by a GGUF file's keys
  // and names. Where there are none, plan.eos has what the family has by default.
  std::vector<TextEnd> ends;
  Weight embedding;  // [vocabulary, hidden]
  Weight positions;  // [context, hidden], with learned positions
  Weight head;       // [vocabulary, hidden]; `embedding` when tied
  std::vector<float> embedding_norm, embedding_norm_bias;  // [hidden], where there is one
  std::vector<float> final_norm, final_norm_bias;          // [hidden]
  std::vector<float> head_bias;                            // [vocabulary], where there is one
  std::vector<LayerWeights> layers;
  uint64_t vector_bytes = 0;   // of all norms and biases, as stored
  uint64_t other_tensors = 0;  // of the parts for images, where the plan is that of the text alone
  std::unique_ptr<Checkpoint> checkpoint;
  std::vector<std::unique_ptr<std::byte[]>> copies;  // of what was stored in another order

  uint64_t parameter_count() const;
  uint64_t weight_bytes() const;  // as stored, each tensor once
};

// Opens a Hugging Face folder (docs/formats/model-folder.md): config.json, generation_config.json
// where present, and model.safetensors or model.safetensors.index.json with its shards; or a GGUF
// file (docs/formats/gguf.md). Every tensor that the plan needs must be there with its shape, as
// f32, f16 or bf16 (matrices of a GGUF file also in blocks, core/model/formats/quant_format.h), and
// the layers must have no other; the message names the first ones at fault.
Result<std::unique_ptr<Model>> open_model(const std::string& path);

}  // namespace tenon
