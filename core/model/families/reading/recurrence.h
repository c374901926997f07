// What families with recurrent layers have in common.
#pragma once

#include <nlohmann/json.hpp>

#include "core/model/families/reading/config_keys.h"

namespace tenon {

// Recurrent models have no longest text. This is what GGUF files say of them, and what counts where
// config.json has no max_position_embeddings.
constexpr uint32_t kRecurrentContext = 1u << 20;
constexpr uint32_t kMaxConvolution = 64;  // tokens; models have 2 to 7

// Of Bamba and Falcon-H1.
inline constexpr TensorName kBambaNames[] = {
    {Role::final_norm, "model.final_layernorm"},
    {Role::mlp_norm, "pre_ff_layernorm"},
    {Role::gate, "feed_forward.gate_proj"},
    {Role::up, "feed_forward.up_proj"},
    {Role::down, "feed_forward.down_proj"},
    {Role::ssm_in, "mamba.in_proj"},
    {Role::ssm_conv, "mamba.conv1d"},
    {Role::ssm_dt_bias, "mamba.dt_bias"},
    {Role::ssm_a, "mamba.A_log"},
    {Role::ssm_d, "mamba.D"},
    {Role::ssm_norm, "mamba.norm"},
    {Role::ssm_out, "mamba.out_proj"},
};

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
// Of models that attend as well.
inline constexpr Mamba2Keys kHybridMamba2Keys{.heads = "mamba_n_heads",
                                              .head_dim = "mamba_d_head",
                                              .state = "mamba_d_state",
                                              .groups = "mamba_n_groups",
                                              .width = "mamba_d_conv",
                                              .expand = "mamba_expand",
                                              .projection_bias = "mamba_proj_bias",
                                              .convolution_bias = "mamba_conv_bias"};
struct Mamba2Defaults {
  uint32_t heads = 128;
  uint32_t head_dim = 64;  // 0: what the others make it
  uint32_t state = 128;
  uint32_t groups = 8;
  uint32_t inner = 0;
};
RecurrentPlan read_mamba2(const JsonFields& config, uint32_t hidden, float eps,
                          const Mamba2Defaults& defaults, const Mamba2Keys& keys);

// The keys of a selective scan.
struct MambaKeys {
  const char* state = "state_size";
  const char* width = "conv_kernel";
  const char* step_rank = "time_step_rank";
  const char* expand = "expand";
  const char* projection_bias = "use_bias";
  const char* convolution_bias = "use_conv_bias";
  const char* inner = nullptr;  // counts where it is said, whatever `expand` is
};
RecurrentPlan read_mamba(const JsonFields& config, uint32_t hidden, const MambaKeys& keys);

// Whether a delta rule's heads share out its keys, and 32 bits hold its widths; faults where not.
void check_delta(const JsonFields& config, RecurrentPlan& delta);

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
// The recurrence takes the place of the layer's attention.
void replace_attention(const RecurrentPlan& recurrent, LayerPlan& layer);
// Adds a layer for each of `attending`; those that do not attend have the recurrence.
void add_layers(const std::vector<bool>& attending, const LayerPlan& layer,
                const RecurrentPlan& recurrent, ModelPlan& plan);
// Of the first layer that has one; null: none has.
const RecurrentPlan* first_recurrence(const ModelPlan& plan);

// GGUF metadata of a Mamba-2 mixer.
void mamba2_from_gguf(const GgufFields& fields, const Mamba2Keys& keys,
                      nlohmann::ordered_json& config);
void mamba2_to_gguf(const RecurrentPlan& recurrent, const std::string& architecture,
                    GgufMetadata& out);
// Likewise of a selective scan, but for its biases.
void mamba_from_gguf(const GgufFields& fields, const MambaKeys& keys,
                     nlohmann::ordered_json& config);
void mamba_to_gguf(const RecurrentPlan& recurrent, const std::string& architecture,
                   GgufMetadata& out);
// inner_size / embedding_length, which must divide.
uint32_t expand_from_gguf(const GgufFields& fields);

}  // namespace tenon
