#include "core/model/synth/expert_shapes.h"

#include <nlohmann/json.hpp>

namespace tenon::expert_shapes {

using nlohmann::ordered_json;

std::string olmoe_1b_7b() {
  return R"({"architectures":["OlmoeForCausalLM"],"model_type":"olmoe","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":1024,"num_hidden_layers":16,"num_attention_heads":16,
    "num_key_value_heads":16,"vocab_size":50304,"max_position_embeddings":4096,
    "rms_norm_eps":1e-5,"rope_theta":10000.0,"clip_qkv":null,"num_experts":64,
    "num_experts_per_tok":8,"norm_topk_prob":false,"tie_word_embeddings":false,
    "bos_token_id":null,"eos_token_id":50279})";
}

std::string mixtral_8x7b() {
  return R"({"architectures":["MixtralForCausalLM"],"model_type":"mixtral","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,
    "num_key_value_heads":8,"vocab_size":32000,"max_position_embeddings":32768,
    "rms_norm_eps":1e-5,"rope_theta":1000000.0,"sliding_window":null,"num_local_experts":8,
    "num_experts_per_tok":2,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2})";
}

std::string qwen2_moe_a2_7b() {
  return R"({"architectures":["Qwen2MoeForCausalLM"],"model_type":"qwen2_moe","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,"num_attention_heads":16,
    "num_key_value_heads":16,"vocab_size":151936,"max_position_embeddings":8192,
    "rms_norm_eps":1e-6,"rope_theta":1000000.0,"use_sliding_window":false,
    "decoder_sparse_step":1,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,
    "num_experts":60,"num_experts_per_tok":4,"norm_topk_prob":false,"tie_word_embeddings":false,
    "bos_token_id":151643,"eos_token_id":151643})";
}

std::string qwen3_30b_a3b() {
  return R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":48,"num_attention_heads":32,
    "num_key_value_heads":4,"head_dim":128,"vocab_size":151936,"max_position_embeddings":40960,
    "rms_norm_eps":1e-6,"rope_theta":1000000.0,"attention_bias":false,
    "use_sliding_window":false,"sliding_window":null,"decoder_sparse_step":1,
    "mlp_only_layers":[],"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,
    "norm_topk_prob":true,"tie_word_embeddings":false,"bos_token_id":151643,
    "eos_token_id":151645})";
}

std::string qwen3_vl_30b_a3b() {
  return R"({"model_type":"qwen3_vl_moe_text","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":48,"num_attention_heads":32,
    "num_key_value_heads":4,"head_dim":128,"vocab_size":151936,"max_position_embeddings":262144,
    "rms_norm_eps":1e-6,"rope_theta":5000000.0,"attention_bias":false,"decoder_sparse_step":1,
    "mlp_only_layers":[],"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,
    "tie_word_embeddings":false,"bos_token_id":151643,"eos_token_id":151645})";
}

std::string gemma4_26b_a4b() {
  return R"({"architectures":["Gemma4ForCausalLM"],"model_type":"gemma4_text",
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":2816,"intermediate_size":2112,
    "num_hidden_layers":30,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":256,
    "global_head_dim":512,"num_global_key_value_heads":2,"attention_k_eq_v":true,
    "num_kv_shared_layers":0,"hidden_size_per_layer_input":0,"vocab_size":262144,
    "max_position_embeddings":262144,"rms_norm_eps":1e-6,"sliding_window":1024,
    "rope_parameters":{"full_attention":{"rope_type":"proportional","partial_rotary_factor":0.25,
    "rope_theta":1000000.0},"sliding_attention":{"rope_type":"default","rope_theta":10000.0}},
    "enable_moe_block":true,"num_experts":128,"top_k_experts":8,"moe_intermediate_size":704,
    "final_logit_softcapping":30.0,"tie_word_embeddings":true,"bos_token_id":2,"eos_token_id":1})";
}

std::string gpt_oss_20b() {
  return R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","hidden_act":"silu",
    "hidden_size":2880,"intermediate_size":2880,"num_hidden_layers":24,"num_attention_heads":64,
    "num_key_value_heads":8,"head_dim":64,"vocab_size":201088,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"rope_theta":150000.0,"rope_scaling":{"rope_type":"yarn","factor":32.0,
    "beta_fast":32.0,"beta_slow":1.0,"truncate":false,"original_max_position_embeddings":4096},
    "attention_bias":true,"sliding_window":128,"swiglu_limit":7.0,"num_local_experts":32,
    "num_experts_per_tok":4,"tie_word_embeddings":false,"eos_token_id":200002})";
}

std::string granite3_3b_a800m(uint32_t shared_width) {
  ordered_json config = ordered_json::parse(
      R"({"architectures":["GraniteMoeForCausalLM"],"model_type":"granitemoe",
    "hidden_act":"silu","hidden_size":1536,"intermediate_size":512,"num_hidden_layers":32,
    "num_attention_heads":24,"num_key_value_heads":8,"vocab_size":49155,
    "max_position_embeddings":131072,"rms_norm_eps":1e-6,"rope_theta":10000000.0,
    "attention_bias":false,"attention_multiplier":0.015625,"embedding_multiplier":12.0,
    "residual_multiplier":0.22,"logits_scaling":6.0,"num_local_experts":40,
    "num_experts_per_tok":8,"tie_word_embeddings":true,"bos_token_id":0,"eos_token_id":0})");
  if (shared_width > 0) {
    config["architectures"] = {"GraniteMoeSharedForCausalLM"};
    config["model_type"] = "granitemoeshared";
    config["shared_intermediate_size"] = shared_width;
  }
  return config.dump();
}

std::string granite3_3b_swa() {
  ordered_json config = ordered_json::parse(granite3_3b_a800m(0));
  config["architectures"] = {"GraniteMoeSWAForCausalLM"};
  config["model_type"] = "granitemoe_swa";
  config["sliding_window"] = 128;
  return config.dump();
}

std::string deepseek_v2_lite() {
  return R"({"architectures":["DeepseekV2ForCausalLM"],"model_type":"deepseek_v2",
    "hidden_act":"silu","hidden_size":2048,"intermediate_size":10944,"num_hidden_layers":27,
    "num_attention_heads":16,"num_key_value_heads":16,"vocab_size":102400,
    "max_position_embeddings":163840,"rms_norm_eps":1e-6,"rope_theta":10000.0,
    "rope_scaling":{"type":"yarn","factor":40,"beta_fast":32,"beta_slow":1,"mscale":0.707,
    "mscale_all_dim":0.707,"original_max_position_embeddings":4096},"q_lora_rank":null,
    "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
    "first_k_dense_replace":1,"n_routed_experts":64,"num_experts_per_tok":6,"n_shared_experts":2,
    "moe_intermediate_size":1408,"topk_method":"greedy","n_group":1,"topk_group":1,
    "routed_scaling_factor":1.0,"scoring_func":"softmax","norm_topk_prob":false,"moe_layer_freq":1,
    "attention_bias":false,"tie_word_embeddings":false,
    "bos_token_id":100000,"eos_token_id":100001})";
}

// The same with no layer that has experts.
std::string deepseek_v2_lite_dense() {
  ordered_json config = ordered_json::parse(deepseek_v2_lite());
  config["first_k_dense_replace"] = config["num_hidden_layers"];
  return config.dump();
}

std::string deepseek_v3() {
  return R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3",
    "hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
    "num_attention_heads":128,"num_key_value_heads":128,"vocab_size":129280,
    "max_position_embeddings":163840,"rms_norm_eps":1e-6,"rope_theta":10000.0,
    "rope_scaling":{"type":"yarn","factor":40,"beta_fast":32,"beta_slow":1,"mscale":1.0,
    "mscale_all_dim":1.0,"original_max_position_embeddings":4096},"q_lora_rank":1536,
    "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
    "first_k_dense_replace":3,"n_routed_experts":256,"num_experts_per_tok":8,"n_shared_experts":1,
    "moe_intermediate_size":2048,"topk_method":"noaux_tc","n_group":8,"topk_group":4,
    "routed_scaling_factor":2.5,"scoring_func":"sigmoid","norm_topk_prob":true,"moe_layer_freq":1,
    "attention_bias":false,"tie_word_embeddings":false,"bos_token_id":0,"eos_token_id":1})";
}

std::string llama_4_scout() {
  return R"({"architectures":["Llama4ForCausalLM"],"model_type":"llama4_text","hidden_act":"silu",
    "hidden_size":5120,"intermediate_size":8192,"intermediate_size_mlp":16384,
    "num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,
    "vocab_size":202048,"max_position_embeddings":10485760,"rms_norm_eps":1e-5,
    "rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":16.0,"low_freq_factor":1.0,
    "high_freq_factor":1.0001,"original_max_position_embeddings":8192},"num_local_experts":16,
    "num_experts_per_tok":1,"interleave_moe_layer_step":1,"use_qk_norm":true,
    "attention_chunk_size":8192,"attn_temperature_tuning":true,"floor_scale":8192,"attn_scale":0.1,
    "tie_word_embeddings":false,"bos_token_id":200000,"eos_token_id":[200001,200007,200008]})";
}

std::string llama_4_maverick() {
  return R"({"architectures":["Llama4ForCausalLM"],"model_type":"llama4_text","hidden_act":"silu",
    "hidden_size":5120,"intermediate_size":8192,"intermediate_size_mlp":16384,
    "num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,
    "vocab_size":202048,"max_position_embeddings":1048576,"rms_norm_eps":1e-5,
    "rope_theta":500000.0,"num_local_experts":128,"num_experts_per_tok":1,
    "interleave_moe_layer_step":2,"use_qk_norm":false,"attention_chunk_size":8192,
    "attn_temperature_tuning":true,"floor_scale":8192,"attn_scale":0.1,
    "tie_word_embeddings":false,"bos_token_id":200000,"eos_token_id":[200001,200007,200008]})";
}

std::string step_3_7_flash() {
  std::string types, limits, shared, bases, parts;
  for (int i = 0; i < 45; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    const bool full = i % 4 == 0;
    types += comma + (full ? R"("full_attention")" : R"("sliding_attention")");
    limits += comma + (i < 43 ? "0.0" : "7.0");
    shared += comma + (i < 43 ? "0.0" : "16.0");
    bases += comma + (full ? "5000000.0" : "10000.0");
    parts += comma + (full ? "0.5" : "1.0");
  }
  return R"({"architectures":["Step3p5ForCausalLM"],"model_type":"step3p5","hidden_size":4096,
    "intermediate_size":11264,"num_hidden_layers":45,"num_attention_heads":64,
    "num_attention_groups":8,"head_dim":128,"vocab_size":128896,"max_position_embeddings":262144,
    "rms_norm_eps":1e-5,"sliding_window":512,"moe_num_experts":288,"moe_top_k":8,
    "moe_intermediate_size":1280,"share_expert_dim":1280,"moe_router_scaling_factor":3.0,
    "attention_other_setting":{"attention_type":"sliding_attention","num_attention_heads":96,
    "num_attention_groups":8,"head_dim":128},"tie_word_embeddings":false,"layer_types":[)" +
         types + R"(],"rope_theta":[)" + bases + R"(],"partial_rotary_factors":[)" + parts +
         R"(],"swiglu_limits":[)" + limits + R"(],"swiglu_limits_shared":[)" + shared + "]}";
}

std::string minimax_01() {
  std::string types;
  for (int i = 0; i < 80; ++i) {
    types += (i == 0 ? "" : ",");
    types += i % 8 == 7 ? R"("full_attention")" : R"("linear_attention")";
  }
  return R"({"architectures":["MiniMaxForCausalLM"],"model_type":"minimax","hidden_act":"silu",
    "hidden_size":6144,"intermediate_size":9216,"num_hidden_layers":80,"num_attention_heads":64,
    "num_key_value_heads":8,"head_dim":128,"vocab_size":200064,"max_position_embeddings":10240000,
    "rms_norm_eps":1e-5,"rope_parameters":{"rope_type":"default","rope_theta":10000000.0},
    "num_local_experts":32,"num_experts_per_tok":2,"block_size":256,
    "full_attn_alpha_factor":3.5565588200778455,"full_attn_beta_factor":1.0,
    "linear_attn_alpha_factor":3.5565588200778455,"linear_attn_beta_factor":1.0,
    "mlp_alpha_factor":3.5565588200778455,"mlp_beta_factor":1.0,"tie_word_embeddings":false,
    "layer_types":[)" +
         types + "]}";
}

std::string longcat_flash() {
  return R"({"architectures":["LongcatFlashForCausalLM"],"model_type":"longcat_flash",
    "hidden_act":"silu","hidden_size":6144,"ffn_hidden_size":12288,"num_layers":28,
    "num_attention_heads":64,"vocab_size":131072,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"rope_theta":10000000.0,"q_lora_rank":1536,"kv_lora_rank":512,
    "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"n_routed_experts":512,
    "zero_expert_num":256,"zero_expert_type":"identity","moe_topk":12,
    "expert_ffn_hidden_size":2048,"routed_scaling_factor":6.0,"mla_scale_q_lora":true,
    "mla_scale_kv_lora":true,"attention_method":"MLA","attention_bias":false,
    "tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2})";
}

}  // namespace tenon::expert_shapes
