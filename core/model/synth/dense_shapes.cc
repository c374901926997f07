#include "core/model/synth/dense_shapes.h"

namespace tenon::dense_shapes {
namespace {

std::string gpt2(const char* width, const char* layers, const char* heads) {
  return std::string(R"({"architectures":["GPT2LMHeadModel"],"model_type":"gpt2",
    "activation_function":"gelu_new","n_positions":1024,"vocab_size":50257,
    "layer_norm_epsilon":1e-5,"bos_token_id":50256,"eos_token_id":50256,"n_embd":)") +
         width + ",\"n_layer\":" + layers + ",\"n_head\":" + heads + "}";
}

// The sizes are those of one model; the rest is common to all.
std::string neox(const char* sizes) {
  return std::string(R"({"architectures":["GPTNeoXForCausalLM"],"model_type":"gpt_neox",
    "max_position_embeddings":2048,"layer_norm_eps":1e-5,"rotary_pct":0.25,
    "rotary_emb_base":10000,"use_parallel_residual":true,"tie_word_embeddings":false,
    "bos_token_id":0,"eos_token_id":0,)") +
         sizes + "}";
}

std::string falcon(const char* sizes) {
  return std::string(R"({"architectures":["FalconForCausalLM"],"model_type":"falcon",
    "vocab_size":65024,"layer_norm_epsilon":1e-5,"alibi":false,"bias":false,"multi_query":true,
    "parallel_attn":true,"tie_word_embeddings":true,"bos_token_id":11,"eos_token_id":11,)") +
         sizes + "}";
}

}  // namespace

std::string gemma2_9b() {
  return R"({"architectures":["Gemma2ForCausalLM"],"model_type":"gemma2",
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":3584,"intermediate_size":14336,
    "num_hidden_layers":42,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":256,
    "vocab_size":256000,"max_position_embeddings":8192,"rms_norm_eps":1e-6,"rope_theta":10000.0,
    "sliding_window":4096,"query_pre_attn_scalar":256,"attn_logit_softcapping":50.0,
    "final_logit_softcapping":30.0,"tie_word_embeddings":true,"bos_token_id":2,"eos_token_id":1})";
}

std::string gemma3_4b() {
  return R"({"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text",
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":2560,"intermediate_size":10240,
    "num_hidden_layers":34,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
    "vocab_size":262208,"max_position_embeddings":131072,"rms_norm_eps":1e-6,
    "rope_theta":1000000.0,"rope_scaling":{"rope_type":"linear","factor":8.0},
    "rope_local_base_freq":10000.0,"sliding_window":1024,"sliding_window_pattern":6,
    "query_pre_attn_scalar":256,"tie_word_embeddings":true,"bos_token_id":2,"eos_token_id":1})";
}

std::string bitnet_2b() {
  return R"({"architectures":["BitNetForCausalLM"],"model_type":"bitnet","hidden_act":"relu2",
    "hidden_size":2560,"intermediate_size":6912,"num_hidden_layers":30,"num_attention_heads":20,
    "num_key_value_heads":5,"vocab_size":128256,"max_position_embeddings":4096,
    "rms_norm_eps":1e-5,"rope_parameters":{"rope_type":"default","rope_theta":500000.0},
    "tie_word_embeddings":true,"bos_token_id":128000,"eos_token_id":128001})";
}

std::string gemma3n_e4b() {
  return R"({"architectures":["Gemma3nForCausalLM"],"model_type":"gemma3n_text",
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":2048,"intermediate_size":16384,
    "num_hidden_layers":35,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,
    "num_kv_shared_layers":15,"hidden_size_per_layer_input":256,
    "vocab_size_per_layer_input":262144,"vocab_size":262400,"max_position_embeddings":32768,
    "rms_norm_eps":1e-6,"sliding_window":512,"laurel_rank":64,"altup_num_inputs":4,
    "altup_active_idx":0,"altup_correct_scale":true,"rope_parameters":{"full_attention":
    {"rope_type":"default","rope_theta":1000000.0},
    "sliding_attention":{"rope_type":"default","rope_theta":10000.0}},
    "final_logit_softcapping":30.0,"tie_word_embeddings":true,"bos_token_id":2,"eos_token_id":1})";
}

std::string gemma4_e4b() {
  return R"({"architectures":["Gemma4ForCausalLM"],"model_type":"gemma4_text",
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":2560,"intermediate_size":10240,
    "num_hidden_layers":42,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,
    "global_head_dim":512,"num_global_key_value_heads":null,"attention_k_eq_v":false,
    "num_kv_shared_layers":18,"use_double_wide_mlp":false,"hidden_size_per_layer_input":256,
    "vocab_size_per_layer_input":262144,"vocab_size":262144,"max_position_embeddings":131072,
    "rms_norm_eps":1e-6,"sliding_window":512,"rope_parameters":{"full_attention":
    {"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1000000.0},
    "sliding_attention":{"rope_type":"default","rope_theta":10000.0}},"enable_moe_block":false,
    "final_logit_softcapping":30.0,"tie_word_embeddings":true,"bos_token_id":2,"eos_token_id":1})";
}

std::string gemma4_12b() {
  return R"({"architectures":["Gemma4UnifiedForCausalLM"],"model_type":"gemma4_unified_text",
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":3840,"intermediate_size":15360,
    "num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":256,
    "global_head_dim":512,"num_global_key_value_heads":1,"attention_k_eq_v":true,
    "num_kv_shared_layers":0,"vocab_size":262144,"max_position_embeddings":262144,
    "rms_norm_eps":1e-6,"sliding_window":1024,"rope_parameters":{"full_attention":
    {"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1000000.0},
    "sliding_attention":{"rope_type":"default","rope_theta":10000.0}},
    "final_logit_softcapping":30.0,"tie_word_embeddings":true,"bos_token_id":2,"eos_token_id":1})";
}

std::string phi4() {
  return R"({"architectures":["Phi3ForCausalLM"],"model_type":"phi3","hidden_act":"silu",
    "hidden_size":5120,"intermediate_size":17920,"num_hidden_layers":40,"num_attention_heads":40,
    "num_key_value_heads":10,"vocab_size":100352,"max_position_embeddings":16384,
    "original_max_position_embeddings":16384,"rms_norm_eps":1e-5,"rope_theta":250000.0,
    "rope_scaling":null,"sliding_window":null,"tie_word_embeddings":false,"bos_token_id":100257,
    "eos_token_id":100265})";
}

std::string olmo2_7b() {
  return R"({"architectures":["Olmo2ForCausalLM"],"model_type":"olmo2","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,"num_attention_heads":32,
    "num_key_value_heads":32,"vocab_size":100352,"max_position_embeddings":4096,
    "rms_norm_eps":1e-6,"rope_theta":500000.0,"tie_word_embeddings":false,"bos_token_id":null,
    "eos_token_id":100257})";
}

std::string granite_8b() {
  return R"({"architectures":["GraniteForCausalLM"],"model_type":"granite","hidden_act":"silu",
    "hidden_size":4096,"intermediate_size":12800,"num_hidden_layers":40,"num_attention_heads":32,
    "num_key_value_heads":8,"vocab_size":49155,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"rope_theta":10000000.0,"attention_multiplier":0.0078125,
    "embedding_multiplier":12.0,"residual_multiplier":0.22,"logits_scaling":16.0,
    "tie_word_embeddings":true,"bos_token_id":0,"eos_token_id":0})";
}

std::string gpt2_medium() {
  return gpt2("1024", "24", "16");
}
std::string gpt2_large() {
  return gpt2("1280", "36", "20");
}
std::string gpt2_xl() {
  return gpt2("1600", "48", "25");
}

std::string pythia_160m() {
  return neox(R"("hidden_act":"gelu","hidden_size":768,"intermediate_size":3072,
    "num_hidden_layers":12,"num_attention_heads":12,"vocab_size":50304)");
}
std::string neox_20b() {
  return neox(R"("hidden_act":"gelu_fast","hidden_size":6144,"intermediate_size":24576,
    "num_hidden_layers":44,"num_attention_heads":64,"vocab_size":50432)");
}

std::string mpt_7b() {
  return R"({"architectures":["MptForCausalLM"],"model_type":"mpt","d_model":4096,"n_heads":32,
    "n_layers":32,"vocab_size":50432,"max_seq_len":2048,"expansion_ratio":4,"no_bias":true,
    "layer_norm_epsilon":1e-5,"tie_word_embeddings":true,
    "attn_config":{"alibi":true,"alibi_bias_max":8,"clip_qkv":null,"softmax_scale":null}})";
}

std::string bloom_560m() {
  return R"({"architectures":["BloomForCausalLM"],"model_type":"bloom","hidden_size":1024,
    "n_layer":24,"n_head":16,"vocab_size":250880,"seq_length":2048,"layer_norm_epsilon":1e-5,
    "apply_residual_connection_post_layernorm":false,"tie_word_embeddings":true,"bos_token_id":1,
    "eos_token_id":2})";
}

std::string falcon_7b() {
  return falcon(R"("hidden_size":4544,"num_hidden_layers":32,"num_attention_heads":71,
    "new_decoder_architecture":false)");
}
std::string falcon_40b() {
  return falcon(R"("hidden_size":8192,"num_hidden_layers":60,"num_attention_heads":128,
    "num_kv_heads":8,"new_decoder_architecture":true)");
}

std::string olmo_1b() {
  return R"({"architectures":["OlmoForCausalLM"],"model_type":"olmo","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":16,
    "num_key_value_heads":16,"vocab_size":50304,"max_position_embeddings":2048,
    "rope_theta":10000.0,"clip_qkv":null,"tie_word_embeddings":true,"bos_token_id":null,
    "eos_token_id":50279})";
}

std::string doge_320m() {
  return R"({"architectures":["DogeForCausalLM"],"model_type":"doge","hidden_act":"silu",
    "hidden_size":1024,"intermediate_size":2048,"num_hidden_layers":32,"num_attention_heads":8,
    "num_key_value_heads":4,"attention_bias":false,"mlp_bias":false,"keep_window_size":2048,
    "is_moe":false,"vocab_size":32768,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
    "rope_theta":10000.0,"tie_word_embeddings":true,"bos_token_id":0,"eos_token_id":1})";
}

std::string phi_2() {
  return R"({"architectures":["PhiForCausalLM"],"model_type":"phi","hidden_act":"gelu_new",
    "hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":32,"num_attention_heads":32,
    "num_key_value_heads":32,"vocab_size":51200,"max_position_embeddings":2048,
    "layer_norm_eps":1e-5,"rope_theta":10000.0,"partial_rotary_factor":0.4,"qk_layernorm":false,
    "tie_word_embeddings":false,"bos_token_id":50256,"eos_token_id":50256})";
}

std::string nemotron_4b() {
  return R"({"architectures":["NemotronForCausalLM"],"model_type":"nemotron","hidden_act":"relu2",
    "hidden_size":3072,"intermediate_size":9216,"num_hidden_layers":32,"num_attention_heads":24,
    "num_key_value_heads":8,"head_dim":128,"vocab_size":256000,"max_position_embeddings":4096,
    "norm_eps":1e-5,"rope_theta":10000.0,"partial_rotary_factor":0.5,"tie_word_embeddings":false,
    "bos_token_id":2,"eos_token_id":3})";
}

std::string llada_8b() {
  return R"({"architectures":["LLaDAModelLM"],"model_type":"llada","activation_type":"silu",
    "alibi":false,"block_type":"llama","d_model":4096,"n_layers":32,"n_heads":32,"n_kv_heads":32,
    "mlp_hidden_size":12288,"vocab_size":126464,"embedding_size":126464,
    "max_sequence_length":4096,"layer_norm_type":"rms","rms_norm_eps":1e-5,"rope":true,
    "rope_theta":500000.0,"include_bias":false,"include_qkv_bias":false,"weight_tying":false,
    "mask_token_id":126336,"eos_token_id":126081})";
}

}  // namespace tenon::dense_shapes
