#include "core/model/synth/router_shapes.h"

namespace tenon::router_shapes {

std::string glm_4_5_air() {
  return R"({"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":10944,"num_hidden_layers":46,"num_attention_heads":96,
    "num_key_value_heads":8,"head_dim":128,"vocab_size":151552,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"rope_theta":1000000.0,"partial_rotary_factor":0.5,"attention_bias":true,
    "use_qk_norm":false,"first_k_dense_replace":1,"n_routed_experts":128,"num_experts_per_tok":8,
    "n_shared_experts":1,"moe_intermediate_size":1408,"n_group":1,"topk_group":1,
    "routed_scaling_factor":1.0,"norm_topk_prob":true,"tie_word_embeddings":false,
    "eos_token_id":[151329,151336,151338]})";
}

std::string glm_4_7_flash() {
  return R"({"architectures":["Glm4MoeLiteForCausalLM"],"model_type":"glm4_moe_lite",
    "hidden_act":"silu","hidden_size":2048,"intermediate_size":10240,"num_hidden_layers":47,
    "num_attention_heads":20,"num_key_value_heads":20,"vocab_size":154880,
    "max_position_embeddings":202752,"rms_norm_eps":1e-5,"rope_theta":1000000.0,
    "q_lora_rank":768,"kv_lora_rank":512,"qk_nope_head_dim":192,"qk_rope_head_dim":64,
    "v_head_dim":256,"first_k_dense_replace":1,"n_routed_experts":64,"num_experts_per_tok":4,
    "n_shared_experts":1,"moe_intermediate_size":1536,"topk_method":"noaux_tc","n_group":1,
    "topk_group":1,"routed_scaling_factor":1.8,"norm_topk_prob":true,"attention_bias":false,
    "tie_word_embeddings":false,"eos_token_id":[154820,154827,154829]})";
}

std::string ax_k1() {
  return R"({"architectures":["AXK1ForCausalLM"],"model_type":"axk1",
    "hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
    "num_attention_heads":64,"num_key_value_heads":64,"vocab_size":163840,
    "max_position_embeddings":32768,"rms_norm_eps":1e-6,"rope_theta":10000.0,
    "q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
    "v_head_dim":128,"first_k_dense_replace":1,"n_routed_experts":192,"num_experts_per_tok":8,
    "n_shared_experts":1,"moe_intermediate_size":2048,"n_group":8,"topk_group":4,
    "routed_scaling_factor":2.5,"norm_topk_prob":true,"attention_bias":false,
    "tie_word_embeddings":false,"bos_token_id":163691,"eos_token_id":163691})";
}

std::string minimax_m2() {
  return R"({"architectures":["MiniMaxM2ForCausalLM"],"model_type":"minimax_m2",
    "hidden_act":"silu","hidden_size":3072,"intermediate_size":1536,"num_hidden_layers":62,
    "num_attention_heads":48,"num_key_value_heads":8,"head_dim":128,"vocab_size":200064,
    "max_position_embeddings":196608,"rms_norm_eps":1e-6,"rope_theta":5000000.0,"rotary_dim":64,
    "use_qk_norm":true,"num_local_experts":256,"num_experts_per_tok":8,"scoring_func":"sigmoid",
    "tie_word_embeddings":false,"bos_token_id":200019,"eos_token_id":200020})";
}

std::string kimi_k2() {
  return R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"kimi_k2",
    "hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
    "num_attention_heads":64,"num_key_value_heads":64,"vocab_size":163840,
    "max_position_embeddings":131072,"rms_norm_eps":1e-6,"rope_theta":50000.0,
    "rope_scaling":{"type":"yarn","factor":32.0,"beta_fast":1.0,"beta_slow":1.0,"mscale":1.0,
    "mscale_all_dim":1.0,"original_max_position_embeddings":4096},"q_lora_rank":1536,
    "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
    "first_k_dense_replace":1,"n_routed_experts":384,"num_experts_per_tok":8,"n_shared_experts":1,
    "moe_intermediate_size":2048,"topk_method":"noaux_tc","n_group":1,"topk_group":1,
    "routed_scaling_factor":2.827,"scoring_func":"sigmoid","norm_topk_prob":true,
    "moe_layer_freq":1,"attention_bias":false,"tie_word_embeddings":false,
    "bos_token_id":163584,"eos_token_id":163585})";
}

std::string deepseek_v3_2() {
  return R"({"architectures":["DeepseekV32ForCausalLM"],"model_type":"deepseek_v32",
    "hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
    "num_attention_heads":128,"num_key_value_heads":128,"vocab_size":129280,
    "max_position_embeddings":163840,"rms_norm_eps":1e-6,"rope_theta":10000.0,
    "rope_scaling":{"type":"yarn","factor":40.0,"beta_fast":32.0,"beta_slow":1.0,"mscale":1.0,
    "mscale_all_dim":1.0,"original_max_position_embeddings":4096},"q_lora_rank":1536,
    "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
    "first_k_dense_replace":3,"n_routed_experts":256,"num_experts_per_tok":8,"n_shared_experts":1,
    "moe_intermediate_size":2048,"n_group":8,"topk_group":4,"routed_scaling_factor":2.5,
    "index_topk":2048,"index_n_heads":64,"index_head_dim":128,"tie_word_embeddings":false,
    "bos_token_id":0,"eos_token_id":1})";
}

std::string glm_5() {
  return R"({"architectures":["GlmMoeDsaForCausalLM"],"model_type":"glm_moe_dsa",
    "hidden_act":"silu","hidden_size":6144,"intermediate_size":12288,"num_hidden_layers":78,
    "num_attention_heads":64,"num_key_value_heads":64,"vocab_size":154880,
    "max_position_embeddings":202752,"rms_norm_eps":1e-5,"rope_theta":1000000.0,
    "q_lora_rank":2048,"kv_lora_rank":512,"qk_nope_head_dim":192,"qk_rope_head_dim":64,
    "v_head_dim":256,"first_k_dense_replace":3,"n_routed_experts":256,"num_experts_per_tok":8,
    "n_shared_experts":1,"moe_intermediate_size":2048,"n_group":1,"topk_group":1,
    "routed_scaling_factor":2.5,"index_topk":2048,"index_n_heads":32,"index_head_dim":128,
    "tie_word_embeddings":false,"bos_token_id":0,"eos_token_id":1})";
}

std::string ling_3_flash() {
  return R"({"architectures":["BailingHybridForCausalLM"],"model_type":"bailing_hybrid",
    "hidden_act":"silu","hidden_size":2560,"intermediate_size":6144,"num_hidden_layers":42,
    "num_attention_heads":32,"num_key_value_heads":32,"vocab_size":157184,
    "max_position_embeddings":262144,"rms_norm_eps":1e-6,"rope_theta":6000000.0,
    "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
    "head_dim":128,"layer_group_size":6,"kda_safe_gate":true,"kda_lower_bound":-5.0,
    "first_k_dense_replace":2,"num_experts":512,"num_experts_per_token":8,"num_shared_experts":1,
    "moe_intermediate_size":768,"num_expert_group":8,"topk_group":4,"routed_scaling_factor":2.5,
    "tie_word_embeddings":false,"bos_token_id":null,"eos_token_id":156895})";
}

std::string ministral_3_8b() {
  return R"({"architectures":["Ministral3ForCausalLM"],"model_type":"ministral3",
    "hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":34,
    "num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"vocab_size":131072,
    "max_position_embeddings":262144,"rms_norm_eps":1e-5,"sliding_window":null,
    "rope_parameters":{"rope_type":"yarn","rope_theta":1000000.0,"factor":16.0,"beta_fast":32.0,
    "beta_slow":1.0,"mscale":1.0,"mscale_all_dim":1.0,"llama_4_scaling_beta":0.1,
    "original_max_position_embeddings":16384},"tie_word_embeddings":false,"bos_token_id":1,
    "eos_token_id":2})";
}

std::string mistral_small_4() {
  return R"({"architectures":["Mistral4ForCausalLM"],"model_type":"mistral4","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":12288,"num_hidden_layers":36,"num_attention_heads":32,
    "num_key_value_heads":32,"vocab_size":131072,"max_position_embeddings":1048576,
    "rms_norm_eps":1e-6,"rope_parameters":{"rope_type":"yarn","rope_theta":10000.0,
    "factor":128.0,"beta_fast":32.0,"beta_slow":1.0,"mscale":1.0,"mscale_all_dim":1.0,
    "llama_4_scaling_beta":0.1,"original_max_position_embeddings":8192},"q_lora_rank":1024,
    "kv_lora_rank":256,"qk_nope_head_dim":64,"qk_rope_head_dim":64,"v_head_dim":128,
    "first_k_dense_replace":0,"n_routed_experts":128,"num_experts_per_tok":4,"n_shared_experts":1,
    "moe_intermediate_size":2048,"n_group":1,"topk_group":1,"routed_scaling_factor":1.0,
    "norm_topk_prob":true,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2})";
}

std::string dots_llm1() {
  return R"({"architectures":["Dots1ForCausalLM"],"model_type":"dots1","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":10944,"num_hidden_layers":62,"num_attention_heads":32,
    "num_key_value_heads":32,"vocab_size":152064,"max_position_embeddings":32768,
    "rms_norm_eps":1e-5,"rope_theta":10000000.0,"sliding_window":null,"attention_bias":false,
    "first_k_dense_replace":1,"n_routed_experts":128,"num_experts_per_tok":6,"n_shared_experts":2,
    "moe_intermediate_size":1408,"routed_scaling_factor":2.5,"norm_topk_prob":true,
    "scoring_func":"noaux_tc","tie_word_embeddings":false,"eos_token_id":151643})";
}

std::string ernie_4_5_21b_a3b() {
  return R"({"architectures":["Ernie4_5_MoeForCausalLM"],"model_type":"ernie4_5_moe",
    "hidden_act":"silu","hidden_size":2560,"intermediate_size":12288,"num_hidden_layers":28,
    "num_attention_heads":20,"num_key_value_heads":4,"vocab_size":103424,
    "max_position_embeddings":131072,"rms_norm_eps":1e-5,"rope_theta":500000.0,"use_bias":false,
    "moe_num_experts":64,"moe_k":6,"moe_num_shared_experts":2,"moe_intermediate_size":1536,
    "moe_layer_start_index":1,"moe_layer_interval":1,"tie_word_embeddings":true,
    "bos_token_id":1,"eos_token_id":2})";
}

std::string solar_open_100b() {
  return R"({"architectures":["SolarOpenForCausalLM"],"model_type":"solar_open",
    "hidden_act":"silu","hidden_size":4096,"num_hidden_layers":48,"num_attention_heads":64,
    "num_key_value_heads":8,"head_dim":128,"vocab_size":196608,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"rope_theta":1000000.0,"n_routed_experts":128,"num_experts_per_tok":8,
    "n_shared_experts":1,"moe_intermediate_size":1280,"routed_scaling_factor":1.0,
    "norm_topk_prob":true,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2})";
}

std::string k_exaone_236b_a23b() {
  return R"({"architectures":["ExaoneMoEForCausalLM"],"model_type":"exaone_moe",
    "hidden_act":"silu","hidden_size":6144,"intermediate_size":18432,"num_hidden_layers":48,
    "num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"vocab_size":153600,
    "max_position_embeddings":262144,"rms_norm_eps":1e-5,"rope_theta":1000000.0,
    "sliding_window":128,"sliding_window_pattern":"LLLG","first_k_dense_replace":1,
    "num_experts":128,"num_experts_per_tok":8,"num_shared_experts":1,
    "moe_intermediate_size":2048,"routed_scaling_factor":2.5,"norm_topk_prob":true,"n_group":1,
    "topk_group":1,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":53})";
}

std::string mellum_2_12b() {
  return R"({"architectures":["MellumForCausalLM"],"model_type":"mellum","hidden_act":"silu",
    "hidden_size":2304,"intermediate_size":7168,"num_hidden_layers":28,"num_attention_heads":32,
    "num_key_value_heads":4,"head_dim":128,"vocab_size":98304,"max_position_embeddings":131072,
    "rms_norm_eps":1e-6,"rope_parameters":{"full_attention":{"rope_type":"default",
    "rope_theta":500000.0},"sliding_attention":{"rope_type":"default","rope_theta":10000.0}},
    "sliding_window":1024,"num_experts":64,"num_experts_per_tok":8,"moe_intermediate_size":896,
    "norm_topk_prob":true,"tie_word_embeddings":false})";
}

std::string hy3() {
  return R"({"architectures":["HYV3ForCausalLM"],"model_type":"hy_v3","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":13312,"num_hidden_layers":80,"num_attention_heads":64,
    "num_key_value_heads":8,"head_dim":128,"vocab_size":120832,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"rope_theta":11158840.0,"first_k_dense_replace":1,"num_experts":192,
    "num_experts_per_tok":8,"num_shared_experts":1,"moe_intermediate_size":1536,
    "router_scaling_factor":2.826,"tie_word_embeddings":false})";
}

std::string youtu_llm_2b() {
  return R"({"architectures":["YoutuForCausalLM"],"model_type":"youtu","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":32,"num_attention_heads":16,
    "num_key_value_heads":16,"vocab_size":128256,"max_position_embeddings":131072,
    "rms_norm_eps":1e-6,"rope_theta":1600000.0,"q_lora_rank":1536,"kv_lora_rank":512,
    "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"tie_word_embeddings":true,
    "bos_token_id":128000,"eos_token_id":128001})";
}

std::string hunyuan_a13b() {
  return R"({"architectures":["HunYuanMoEV1ForCausalLM"],"model_type":"hunyuan_v1_moe",
    "hidden_act":"silu","hidden_size":4096,"intermediate_size":3072,"num_hidden_layers":32,
    "num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"vocab_size":128167,
    "max_position_embeddings":32768,"rms_norm_eps":1e-5,"rope_theta":10000.0,
    "rope_scaling":{"type":"dynamic","factor":1.0,"alpha":1000.0},"num_experts":64,"moe_topk":8,
    "attention_bias":false,"tie_word_embeddings":true,"bos_token_id":127959,
    "eos_token_id":127960})";
}

std::string command_a_plus() {
  return R"({"architectures":["Cohere2MoeForCausalLM"],"model_type":"cohere2_moe",
    "hidden_act":"silu","hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,
    "num_attention_heads":64,"num_key_value_heads":64,"head_dim":128,"vocab_size":256000,
    "max_position_embeddings":8192,"layer_norm_eps":1e-5,"rope_theta":10000.0,
    "sliding_window":4096,"sliding_window_pattern":4,"num_experts":8,"num_experts_per_tok":2,
    "num_shared_experts":0,"logit_scale":0.0625,"tie_word_embeddings":true,"bos_token_id":5,
    "eos_token_id":255001})";
}

std::string trinity_mini() {
  return R"({"architectures":["AfmoeForCausalLM"],"model_type":"afmoe","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":32,"num_attention_heads":32,
    "num_key_value_heads":4,"head_dim":128,"vocab_size":200192,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"rope_theta":10000.0,"sliding_window":2048,"global_attn_every_n_layers":4,
    "num_dense_layers":2,"num_experts":128,"num_experts_per_tok":8,"num_shared_experts":1,
    "moe_intermediate_size":1024,"route_scale":2.826,"mup_enabled":true,
    "tie_word_embeddings":false})";
}

// Every fourth layer from the first has no window, and fewer heads.
std::string laguna_xs_2() {
  std::string types, heads;
  for (int i = 0; i < 40; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    types += comma + (i % 4 == 0 ? R"("full_attention")" : R"("sliding_attention")");
    heads += comma + (i % 4 == 0 ? "48" : "64");
  }
  return R"({"architectures":["LagunaForCausalLM"],"model_type":"laguna","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":40,"num_attention_heads":48,
    "num_key_value_heads":8,"head_dim":128,"vocab_size":100352,"max_position_embeddings":131072,
    "rms_norm_eps":1e-6,"sliding_window":512,"gating":"per-head","num_experts":256,
    "num_experts_per_tok":8,"moe_intermediate_size":512,"shared_expert_intermediate_size":512,
    "tie_word_embeddings":false,"layer_types":[)" +
         types + R"(],"num_attention_heads_per_layer":[)" + heads + "]}";
}

std::string mimo_v2_flash() {
  return R"({"architectures":["MiMoV2FlashForCausalLM"],"model_type":"mimo_v2_flash",
    "hidden_act":"silu","hidden_size":4096,"intermediate_size":16384,"num_hidden_layers":48,
    "num_attention_heads":64,"num_key_value_heads":4,"head_dim":192,"v_head_dim":128,
    "vocab_size":152576,"max_position_embeddings":262144,"rms_norm_eps":1e-5,
    "sliding_window_size":128,"attention_value_scale":0.707,"n_routed_experts":256,
    "num_experts_per_tok":8,"moe_intermediate_size":2048,"n_group":1,"topk_group":1,
    "norm_topk_prob":true,"scoring_func":"sigmoid","topk_method":"noaux_tc",
    "tie_word_embeddings":false})";
}

}  // namespace tenon::router_shapes
