#include "core/model/synth/recurrent_shapes.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace tenon::recurrent_shapes {

using nlohmann::ordered_json;

std::string mamba(uint32_t hidden, uint32_t layers) {
  return ordered_json{{"architectures", {"MambaForCausalLM"}},
                      {"model_type", "mamba"},
                      {"hidden_act", "silu"},
                      {"hidden_size", hidden},
                      {"num_hidden_layers", layers},
                      {"state_size", 16},
                      {"expand", 2},
                      {"conv_kernel", 4},
                      {"time_step_rank", "auto"},
                      {"use_bias", false},
                      {"use_conv_bias", true},
                      {"layer_norm_epsilon", 1e-5},
                      {"vocab_size", 50280},
                      {"tie_word_embeddings", true},
                      {"bos_token_id", 0},
                      {"eos_token_id", 0}}
      .dump();
}

std::string mamba2_2_7b() {
  return R"({"architectures":["Mamba2ForCausalLM"],"model_type":"mamba2","hidden_act":"silu",
    "hidden_size":2560,"num_hidden_layers":64,"num_heads":80,"head_dim":64,"n_groups":1,
    "state_size":128,"expand":2,"conv_kernel":4,"use_bias":false,"use_conv_bias":true,
    "layer_norm_epsilon":1e-5,"vocab_size":50288,"tie_word_embeddings":true,"bos_token_id":0,
    "eos_token_id":0})";
}

namespace {

// Attention in every tenth layer, beginning with the sixth.
std::string with_layers(ordered_json config) {
  std::vector<std::string> types(40, "mamba");
  for (const size_t layer : {5, 15, 25, 35}) types[layer] = "attention";
  config["layer_types"] = types;
  return config.dump();
}

// `own`: keys in which models differ. `pattern`: a character a layer, as published files have it.
std::string nemotron_h(std::string_view own, std::string_view pattern) {
  ordered_json config = ordered_json::parse(
      R"({"architectures":["NemotronHForCausalLM"],"model_type":"nemotron_h",
    "mlp_hidden_act":"relu2","mamba_hidden_act":"silu","n_groups":8,"ssm_state_size":128,
    "conv_kernel":4,"use_bias":false,"use_conv_bias":true,"mlp_bias":false,
    "layer_norm_epsilon":1e-5,"vocab_size":131072,"tie_word_embeddings":false,"bos_token_id":1,
    "eos_token_id":2})");
  config.update(ordered_json::parse(own));
  for (const char mark : pattern) {
    config["layer_types"].push_back(mark == 'M'   ? "linear_attention"
                                    : mark == '*' ? "full_attention"
                                    : mark == 'E' ? "moe"
                                                  : "mlp");
  }
  return config.dump();
}

}  // namespace

std::string granite4_h_micro() {
  return with_layers(ordered_json::parse(
      R"({"architectures":["GraniteMoeHybridForCausalLM"],"model_type":"granitemoehybrid",
    "hidden_act":"silu","hidden_size":2048,"shared_intermediate_size":8192,
    "num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,
    "position_embedding_type":"nope","num_local_experts":0,"mamba_n_heads":64,"mamba_d_head":64,
    "mamba_n_groups":1,"mamba_d_state":128,"mamba_d_conv":4,"mamba_expand":2,
    "mamba_conv_bias":true,"mamba_proj_bias":false,"vocab_size":100352,
    "max_position_embeddings":131072,"rms_norm_eps":1e-5,"attention_multiplier":0.015625,
    "embedding_multiplier":12.0,"residual_multiplier":0.22,"logits_scaling":8.0,
    "tie_word_embeddings":true,"bos_token_id":100257,"eos_token_id":100257})"));
}

std::string granite4_h_tiny() {
  return with_layers(ordered_json::parse(
      R"({"architectures":["GraniteMoeHybridForCausalLM"],"model_type":"granitemoehybrid",
    "hidden_act":"silu","hidden_size":1536,"intermediate_size":512,
    "shared_intermediate_size":1024,"num_hidden_layers":40,"num_attention_heads":12,
    "num_key_value_heads":4,"position_embedding_type":"nope","num_local_experts":64,
    "num_experts_per_tok":6,"mamba_n_heads":48,"mamba_d_head":64,"mamba_n_groups":1,
    "mamba_d_state":128,"mamba_d_conv":4,"mamba_expand":2,"mamba_conv_bias":true,
    "mamba_proj_bias":false,"vocab_size":100352,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"attention_multiplier":0.0078125,"embedding_multiplier":12.0,
    "residual_multiplier":0.22,"logits_scaling":6.0,"tie_word_embeddings":true,
    "bos_token_id":100257,"eos_token_id":100257})"));
}

std::string qwen3_next_80b_a3b() {
  return R"({"architectures":["Qwen3NextForCausalLM"],"model_type":"qwen3_next",
    "hidden_act":"silu","hidden_size":2048,"intermediate_size":5120,"num_hidden_layers":48,
    "num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"vocab_size":151936,
    "max_position_embeddings":262144,"rms_norm_eps":1e-6,"rope_theta":10000000.0,
    "partial_rotary_factor":0.25,"full_attention_interval":4,"linear_conv_kernel_dim":4,
    "linear_num_key_heads":16,"linear_num_value_heads":32,"linear_key_head_dim":128,
    "linear_value_head_dim":128,"num_experts":512,"num_experts_per_tok":10,
    "moe_intermediate_size":512,"shared_expert_intermediate_size":512,"norm_topk_prob":true,
    "decoder_sparse_step":1,"mlp_only_layers":[],"tie_word_embeddings":false,
    "bos_token_id":151643,"eos_token_id":151645})";
}

std::string qwen3_5_4b() {
  return R"({"architectures":["Qwen3_5ForCausalLM"],"model_type":"qwen3_5_text",
    "hidden_act":"silu","hidden_size":2560,"intermediate_size":9216,"num_hidden_layers":32,
    "num_attention_heads":16,"num_key_value_heads":4,"head_dim":256,"vocab_size":248320,
    "max_position_embeddings":262144,"rms_norm_eps":1e-6,"full_attention_interval":4,
    "rope_parameters":{"rope_type":"default","rope_theta":10000000.0,
    "partial_rotary_factor":0.25},"linear_conv_kernel_dim":4,"linear_num_key_heads":16,
    "linear_num_value_heads":32,"linear_key_head_dim":128,"linear_value_head_dim":128,
    "tie_word_embeddings":true,"eos_token_id":248044})";
}

std::string qwen3_5_9b() {
  return R"({"architectures":["Qwen3_5ForCausalLM"],"model_type":"qwen3_5_text",
    "hidden_act":"silu","hidden_size":4096,"intermediate_size":12288,"num_hidden_layers":32,
    "num_attention_heads":16,"num_key_value_heads":4,"head_dim":256,"vocab_size":248320,
    "max_position_embeddings":262144,"rms_norm_eps":1e-6,"full_attention_interval":4,
    "rope_parameters":{"rope_type":"default","rope_theta":10000000.0,
    "partial_rotary_factor":0.25},"linear_conv_kernel_dim":4,"linear_num_key_heads":16,
    "linear_num_value_heads":32,"linear_key_head_dim":128,"linear_value_head_dim":128,
    "tie_word_embeddings":false,"eos_token_id":248044})";
}

std::string qwen3_5_35b_a3b() {
  return R"({"architectures":["Qwen3_5MoeForCausalLM"],"model_type":"qwen3_5_moe_text",
    "hidden_act":"silu","hidden_size":2048,"num_hidden_layers":40,"num_attention_heads":16,
    "num_key_value_heads":2,"head_dim":256,"vocab_size":248320,"max_position_embeddings":262144,
    "rms_norm_eps":1e-6,"full_attention_interval":4,
    "rope_parameters":{"rope_type":"default","rope_theta":10000000.0,
    "partial_rotary_factor":0.25},"linear_conv_kernel_dim":4,"linear_num_key_heads":16,
    "linear_num_value_heads":32,"linear_key_head_dim":128,"linear_value_head_dim":128,
    "num_experts":256,"num_experts_per_tok":8,"moe_intermediate_size":512,
    "shared_expert_intermediate_size":512,"tie_word_embeddings":false,"eos_token_id":248044})";
}

std::string lfm2_1_2b() {
  return R"({"architectures":["Lfm2ForCausalLM"],"model_type":"lfm2","hidden_size":2048,
    "block_ff_dim":12288,"block_auto_adjust_ff_dim":true,"block_ffn_dim_multiplier":1.0,
    "block_multiple_of":256,"num_hidden_layers":16,"num_attention_heads":32,
    "num_key_value_heads":8,"vocab_size":65536,"max_position_embeddings":128000,"norm_eps":1e-5,
    "rope_theta":1000000.0,"conv_L_cache":3,"conv_bias":false,
    "full_attn_idxs":[2,5,8,10,12,14],"tie_word_embeddings":true,"bos_token_id":1,
    "eos_token_id":7})";
}

std::string lfm2_8b_a1b() {
  return R"({"architectures":["Lfm2MoeForCausalLM"],"model_type":"lfm2_moe","hidden_size":2048,
    "intermediate_size":7168,"moe_intermediate_size":1792,"num_hidden_layers":24,
    "num_attention_heads":32,"num_key_value_heads":8,"vocab_size":65536,
    "max_position_embeddings":128000,"norm_eps":1e-5,"rope_theta":1000000.0,"conv_L_cache":3,
    "conv_bias":false,"num_dense_layers":2,"num_experts":32,"num_experts_per_tok":4,
    "norm_topk_prob":true,"use_expert_bias":true,"routed_scaling_factor":1.0,
    "layer_types":["conv","conv","full_attention","conv","conv","conv","full_attention","conv",
    "conv","conv","full_attention","conv","conv","conv","full_attention","conv","conv","conv",
    "full_attention","conv","conv","full_attention","conv","conv"],
    "tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":7})";
}

std::string lfm3_1_7b() {
  return R"({"architectures":["Lfm3ForCausalLM"],"model_type":"lfm3","hidden_size":2048,
    "intermediate_size":7680,"num_hidden_layers":24,"num_attention_heads":16,
    "num_key_value_heads":4,"head_dim":128,"vocab_size":128000,"max_position_embeddings":128000,
    "norm_eps":1e-5,"conv_L_cache":7,"conv_bias":false,"sliding_window":256,
    "tie_word_embeddings":true,"bos_token_id":124894,"eos_token_id":124900})";
}

std::string kimi_linear_48b_a3b() {
  // Every fourth layer attends, and the last one.
  ordered_json config = ordered_json::parse(
      R"({"architectures":["KimiLinearForCausalLM"],"model_type":"kimi_linear","hidden_act":"silu",
    "hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":27,"num_attention_heads":32,
    "num_key_value_heads":32,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
    "v_head_dim":128,"linear_num_heads":32,"linear_head_dim":128,"linear_conv_kernel_dim":4,
    "num_experts":256,"num_experts_per_token":8,"moe_intermediate_size":1024,
    "num_shared_experts":1,"first_k_dense_replace":1,"moe_renormalize":true,
    "routed_scaling_factor":2.446,"vocab_size":163840,"max_position_embeddings":1048576,
    "rms_norm_eps":1e-5,"tie_word_embeddings":false,"bos_token_id":163584,
    "eos_token_id":163586})");
  for (int i = 0; i < 27; ++i) {
    const bool attends = i % 4 == 3 || i == 26;
    config["layer_types"].push_back(attends ? "full_attention" : "linear_attention");
  }
  return config.dump();
}

std::string olmo_hybrid_7b() {
  return R"({"architectures":["OlmoHybridForCausalLM"],"model_type":"olmo_hybrid",
    "hidden_act":"silu","hidden_size":3840,"intermediate_size":11008,"num_hidden_layers":32,
    "num_attention_heads":30,"num_key_value_heads":30,"linear_num_key_heads":30,
    "linear_num_value_heads":30,"linear_key_head_dim":96,"linear_value_head_dim":192,
    "linear_conv_kernel_dim":4,"linear_allow_neg_eigval":true,"rope_parameters":{
    "rope_type":"default","rope_theta":null},"vocab_size":100352,
    "max_position_embeddings":65536,"rms_norm_eps":1e-6,"tie_word_embeddings":false,
    "bos_token_id":null,"eos_token_id":100257})";
}

std::string nemotron_h_8b() {
  return nemotron_h(R"({"hidden_size":4096,"intermediate_size":21504,"num_hidden_layers":52,
    "num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"mamba_num_heads":128,
    "mamba_head_dim":64,"max_position_embeddings":8192})",
                    "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-");
}

std::string nemotron_3_nano_30b_a3b() {
  return nemotron_h(R"({"hidden_size":2688,"intermediate_size":1856,"num_hidden_layers":52,
    "num_attention_heads":32,"num_key_value_heads":2,"head_dim":128,"mamba_num_heads":64,
    "mamba_head_dim":64,"n_routed_experts":128,"num_experts_per_tok":6,
    "moe_intermediate_size":1856,"moe_shared_expert_intermediate_size":3712,
    "n_shared_experts":1,"routed_scaling_factor":2.5,"norm_topk_prob":true,
    "max_position_embeddings":262144})",
                    "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME");
}

std::string bamba_9b() {
  return R"({"architectures":["BambaForCausalLM"],"model_type":"bamba","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
    "num_attention_heads":32,"num_key_value_heads":8,"attn_layer_indices":[9,18,27],
    "mamba_n_heads":128,"mamba_d_head":64,"mamba_n_groups":1,"mamba_d_state":128,
    "mamba_d_conv":4,"mamba_expand":2,"mamba_conv_bias":true,"mamba_proj_bias":false,
    "vocab_size":128256,"max_position_embeddings":262144,"rms_norm_eps":1e-5,
    "rope_theta":10000.0,"partial_rotary_factor":0.5,"tie_word_embeddings":false,
    "bos_token_id":128000,"eos_token_id":128001})";
}

std::string falcon_h1_0_5b() {
  return R"({"architectures":["FalconH1ForCausalLM"],"model_type":"falcon_h1","hidden_act":"silu",
    "hidden_size":1024,"intermediate_size":2048,"num_hidden_layers":36,"num_attention_heads":8,
    "num_key_value_heads":2,"head_dim":64,"mamba_d_ssm":1536,"mamba_n_heads":24,
    "mamba_d_head":64,"mamba_n_groups":1,"mamba_d_state":128,"mamba_d_conv":4,
    "mamba_conv_bias":true,"mamba_proj_bias":false,"mamba_rms_norm":false,
    "mamba_norm_before_gate":false,"attention_in_multiplier":1.0,
    "attention_out_multiplier":0.9375,"key_multiplier":0.390625,
    "embedding_multiplier":5.656854249492381,"lm_head_multiplier":0.0390625,
    "mlp_multipliers":[0.8838834764831844,0.5859375],"ssm_in_multiplier":1.25,
    "ssm_multipliers":[0.3535533905932738,0.25,0.3535533905932738,0.5,0.3535533905932738],
    "ssm_out_multiplier":0.23570226039551587,"vocab_size":32784,
    "max_position_embeddings":16384,"rms_norm_eps":1e-5,"rope_theta":100000000000.0,
    "tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":11})";
}

std::string jamba_v0_1() {
  return R"({"architectures":["JambaForCausalLM"],"model_type":"jamba","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
    "num_attention_heads":32,"num_key_value_heads":8,"attn_layer_period":8,
    "attn_layer_offset":4,"expert_layer_period":2,"expert_layer_offset":1,"num_experts":16,
    "num_experts_per_tok":2,"mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2,
    "mamba_dt_rank":256,"mamba_conv_bias":true,"mamba_proj_bias":false,"vocab_size":65536,
    "max_position_embeddings":262144,"rms_norm_eps":1e-6,"tie_word_embeddings":false,
    "bos_token_id":1,"eos_token_id":2})";
}

namespace {

// `own`: keys in which models differ; `hybrid`: layers with a shared block.
std::string zamba2(std::string_view own, uint32_t layers, std::initializer_list<size_t> hybrid) {
  ordered_json config = ordered_json::parse(
      R"({"architectures":["Zamba2ForCausalLM"],"model_type":"zamba2","hidden_act":"gelu",
    "mamba_d_conv":4,"mamba_expand":2,"mamba_ngroups":1,"add_bias_linear":false,
    "num_attention_heads":32,"num_key_value_heads":32,"adapter_rank":128,
    "rope_theta":10000.0,"vocab_size":32000,"max_position_embeddings":4096,"rms_norm_eps":1e-5,
    "tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":2})");
  config.update(ordered_json::parse(own));
  std::vector<std::string> types(layers, "linear_attention");
  for (const size_t layer : hybrid) types[layer] = "hybrid";
  config["num_hidden_layers"] = layers;
  config["layer_types"] = types;
  return config.dump();
}

}  // namespace

std::string zamba2_1_2b() {
  return zamba2(R"({"hidden_size":2048,"intermediate_size":8192,"n_mamba_heads":64,
    "mamba_d_state":128,"num_mem_blocks":1,"use_shared_attention_adapter":true,
    "use_mem_rope":true})",
                38, {5, 11, 17, 23, 29, 35});
}

std::string zamba2_2_7b() {
  return zamba2(R"({"hidden_size":2560,"intermediate_size":10240,"n_mamba_heads":80,
    "mamba_d_state":64,"num_mem_blocks":2})",
                54, {6, 12, 18, 24, 30, 36, 42, 47, 51});
}

std::string xlstm_7b() {
  return R"({"architectures":["xLSTMForCausalLM"],"model_type":"xlstm","hidden_size":4096,
    "num_hidden_layers":32,"num_heads":8,"qk_dim_factor":0.5,"v_dim_factor":1.0,
    "ffn_proj_factor":2.667,"ffn_round_up_to_multiple_of":64,"gate_soft_cap":15.0,
    "output_logit_soft_cap":30.0,"eps":1e-6,"norm_eps":1e-6,"use_bias":false,
    "weight_mode":"single","vocab_size":50304,"tie_word_embeddings":false,"bos_token_id":0,
    "eos_token_id":2})";
}

}  // namespace tenon::recurrent_shapes
