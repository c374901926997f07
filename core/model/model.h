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
#include <string_view>
#include <vector>

#include "core/base/text_end.h"
#include "core/model/blocks/stream.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/checkpoint/generation_defaults.h"
#include "core/model/plan/model_plan.h"

namespace tenon {

// Vectors (norms, biases) are small and widened to f32 on opening. Empty = absent; a matrix without
// rows likewise.
struct LayerWeights : StreamWeights,
                      AttentionWeights,
                      LatentWeights,
                      IndexWeights,
                      RecurrentWeights,
                      MlpWeights,
                      ExpertsWeights,
                      LayerInputWeights,
                      StreamsWeights,
                      SharedBlockWeights {
  // All that there are, in the order of the blocks' tables.
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
  // Per-layer embeddings (LayerInputPlan). The table stays in the checkpoint: a token reads a row.
  Weight layer_table;                        // [layer_input_tokens, layers · width]
  Weight layer_projection;                   // [layers · width, hidden]
  std::vector<float> layer_projection_norm;  // [width]
  // Of several streams (StreamsPlan), for each but the first: [hidden, hidden].
  std::vector<Weight> stream_in, stream_out;
  std::vector<float> embedding_norm, embedding_norm_bias;  // [hidden], where there is one
  std::vector<float> final_norm, final_norm_bias;          // [hidden]
  std::vector<float> head_bias;                            // [vocabulary], where there is one
  std::vector<LayerWeights> layers;
  uint64_t vector_bytes = 0;   // of all norms and biases, as stored
  uint64_t other_tensors = 0;  // of the parts for images, where the plan is that of the text alone
  // Tensors of the checkpoint that say how activations were rounded where it was made. They are not
  // used: kernels round activations in their own way, or not at all.
  uint64_t activation_scales = 0;
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
//
// `as` names a family whose arithmetic is used where no family has the folder's model_type
// (read_config_as); empty: such a folder is refused.
Result<std::unique_ptr<Model>> open_model(const std::string& path, std::string_view as = {});

}  // namespace tenon
