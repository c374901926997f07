// What families with recurrent layers have in common.
#pragma once

#include <nlohmann/json.hpp>

#include "core/model/families/reading.h"

namespace tenon {

// Recurrent models have no longest text. This is what GGUF files say of them, and what counts where
// config.json has no max_position_embeddings.
constexpr uint32_t kRecurrentContext = 1u << 20;

// The keys of a Mamba-2 mixer, and what a family takes where config.json says nothing.
struct Mamba2Keys {
  const char* heads = "num_heads";
  const char* head_dim = "head_dim";
  const char* state = "state_size";
  const char* groups = "n_groups";
  const char* width = "conv_kernel";
  const char* expand = "expand";
  const char* inner = nullptr;  // the width itself; where it is null, "expand" counts
  const char* projection_bias = "use_bias";
  const char* convolution_bias = "use_conv_bias";
};
struct Mamba2Defaults {
  uint32_t heads = 128;
  uint32_t head_dim = 64;  // 0: what the others make it
  uint32_t state = 128;
  uint32_t groups = 8;
  uint32_t inner = 0;
};
RecurrentPlan read_mamba2(const JsonFields& config, uint32_t hidden, float eps,
                          const Mamba2Defaults& defaults, const Mamba2Keys& keys);

// [layers] whether each is "full_attention" at `key`, or as older files spell it "attention";
// others are "linear_attention" or "mamba". Empty where the key is not there, or wrong.
std::vector<bool> read_attending(const JsonFields& config, const char* key, size_t layers);
// "expand" · hidden.
uint32_t read_inner(const JsonFields& config, const char* expand, uint32_t hidden);
// Mamba's rank of steps at `key`, a number or "auto".
uint32_t read_step_rank(const JsonFields& config, const char* key, uint32_t hidden);
// Whatever config.json calls it, only SiLU has kernels.
void expect_silu(const JsonFields& config);
// What all models without attention and MLP read alike; without a shape of heads.
uint32_t read_plain_shape(const JsonFields& config, const ShapeDefaults& defaults, ModelPlan& plan);
// A layer that is a norm and a recurrence.
LayerPlan recurrent_layer(const RecurrentPlan& recurrent, float eps);

// GGUF metadata of a Mamba-2 mixer.
void mamba2_from_gguf(const GgufFields& fields, const Mamba2Keys& keys,
                      nlohmann::ordered_json& config);
void mamba2_to_gguf(const RecurrentPlan& recurrent, const std::string& architecture,
                    GgufMetadata& out);
// inner_size / embedding_length, which must divide.
uint32_t expand_from_gguf(const GgufFields& fields);

}  // namespace tenon
