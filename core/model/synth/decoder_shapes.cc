#include "core/model/synth/decoder_shapes.h"

#include <nlohmann/json.hpp>

namespace tenon::decoder_shapes {
namespace {

using nlohmann::ordered_json;

ordered_json make(const char* family, const char* class_name, const Widths& widths, double norm_eps,
                  double rope_theta, bool tied, TokenId bos, TokenId eos) {
  return {{"architectures", {class_name}},
          {"model_type", family},
          {"hidden_act", "silu"},
          {"hidden_size", widths.hidden},
          {"intermediate_size", widths.intermediate},
          {"num_hidden_layers", widths.layers},
          {"num_attention_heads", widths.heads},
          {"num_key_value_heads", widths.kv_heads},
          {"head_dim", widths.head_dim},
          {"vocab_size", widths.vocabulary},
          {"max_position_embeddings", widths.context_tokens},
          {"rms_norm_eps", norm_eps},
          {"rope_theta", rope_theta},
          {"rope_scaling", nullptr},
          {"tie_word_embeddings", tied},
          {"bos_token_id", bos},
          {"eos_token_id", eos}};
}

}  // namespace

std::string llama3(const Widths& widths, double factor, bool tied) {
  ordered_json config =
      make("llama", "LlamaForCausalLM", widths, 1e-5, 500000.0, tied, 128000, 128001);
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", factor},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  return config.dump();
}

std::string llama(const Widths& widths, bool tied, TokenId bos, TokenId eos) {
  return make("llama", "LlamaForCausalLM", widths, 1e-5, 10000.0, tied, bos, eos).dump();
}

std::string qwen2(const Widths& widths) {
  ordered_json config =
      make("qwen2", "Qwen2ForCausalLM", widths, 1e-6, 1000000.0, true, 151643, 151643);
  config["sliding_window"] = nullptr;
  config["use_sliding_window"] = false;
  return config.dump();
}

std::string qwen3(const Widths& widths) {
  ordered_json config =
      make("qwen3", "Qwen3ForCausalLM", widths, 1e-6, 1000000.0, true, 151643, 151645);
  config["attention_bias"] = false;
  config["sliding_window"] = nullptr;
  config["use_sliding_window"] = false;
  return config.dump();
}

std::string mistral_7b() {
  ordered_json config =
      make("mistral", "MistralForCausalLM", {4096, 14336, 32, 32, 8, 128, 32000, 32768}, 1e-5,
           10000.0, false, 1, 2);
  config["sliding_window"] = 4096;
  return config.dump();
}

std::string gemma2_2b() {
  return R"({"architectures":["Gemma2ForCausalLM"],"model_type":"gemma2",
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":2304,"intermediate_size":9216,
    "num_hidden_layers":26,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
    "vocab_size":256000,"max_position_embeddings":8192,"rms_norm_eps":1e-6,"rope_theta":10000.0,
    "sliding_window":4096,"query_pre_attn_scalar":256,"attn_logit_softcapping":50.0,
    "final_logit_softcapping":30.0,"tie_word_embeddings":true,"bos_token_id":2,"eos_token_id":1})";
}

std::string gemma3_1b() {
  return R"({"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text",
    "hidden_activation":"gelu_pytorch_tanh","hidden_size":1152,"intermediate_size":6912,
    "num_hidden_layers":26,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":256,
    "vocab_size":262144,"max_position_embeddings":32768,"rms_norm_eps":1e-6,
    "rope_theta":1000000.0,"rope_local_base_freq":10000.0,"sliding_window":512,
    "sliding_window_pattern":6,"query_pre_attn_scalar":256,"tie_word_embeddings":true,
    "bos_token_id":2,"eos_token_id":1})";
}

std::string phi3_mini() {
  return R"({"architectures":["Phi3ForCausalLM"],"model_type":"phi3","hidden_act":"silu",
    "hidden_size":3072,"intermediate_size":8192,"num_hidden_layers":32,"num_attention_heads":32,
    "num_key_value_heads":32,"vocab_size":32064,"max_position_embeddings":4096,
    "original_max_position_embeddings":4096,"rms_norm_eps":1e-5,"rope_theta":10000.0,
    "rope_scaling":null,"sliding_window":2047,"tie_word_embeddings":false,"bos_token_id":1,
    "eos_token_id":32000})";
}

std::string olmo2_1b() {
  return R"({"architectures":["Olmo2ForCausalLM"],"model_type":"olmo2","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":16,
    "num_key_value_heads":16,"vocab_size":100352,"max_position_embeddings":4096,
    "rms_norm_eps":1e-6,"rope_theta":500000.0,"tie_word_embeddings":false,"bos_token_id":null,
    "eos_token_id":100257})";
}

std::string granite_2b() {
  return R"({"architectures":["GraniteForCausalLM"],"model_type":"granite","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":40,"num_attention_heads":32,
    "num_key_value_heads":8,"vocab_size":49155,"max_position_embeddings":131072,
    "rms_norm_eps":1e-5,"rope_theta":5000000.0,"attention_multiplier":0.015625,
    "embedding_multiplier":12.0,"residual_multiplier":0.22,"logits_scaling":8.0,
    "tie_word_embeddings":true,"bos_token_id":0,"eos_token_id":0})";
}

std::string smollm3_3b() {
  return R"({"architectures":["SmolLM3ForCausalLM"],"model_type":"smollm3","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":11008,"num_hidden_layers":36,"num_attention_heads":16,
    "num_key_value_heads":4,"vocab_size":128256,"max_position_embeddings":65536,
    "rms_norm_eps":1e-6,"rope_theta":5000000.0,"no_rope_layer_interval":4,
    "tie_word_embeddings":true,"bos_token_id":128000,"eos_token_id":128012})";
}

std::string starcoder2_3b() {
  return R"({"architectures":["Starcoder2ForCausalLM"],"model_type":"starcoder2",
    "hidden_act":"gelu_pytorch_tanh","hidden_size":3072,"intermediate_size":12288,
    "num_hidden_layers":30,"num_attention_heads":24,"num_key_value_heads":2,"vocab_size":49152,
    "max_position_embeddings":16384,"norm_epsilon":1e-5,"rope_theta":999999.4420358813,
    "sliding_window":4096,"use_bias":true,"tie_word_embeddings":true,"bos_token_id":0,
    "eos_token_id":0})";
}

std::string gpt2_small() {
  return R"({"architectures":["GPT2LMHeadModel"],"model_type":"gpt2",
    "activation_function":"gelu_new","n_embd":768,"n_layer":12,"n_head":12,"n_positions":1024,
    "vocab_size":50257,"layer_norm_epsilon":1e-5,"bos_token_id":50256,"eos_token_id":50256})";
}

std::string pythia_1b() {
  return R"({"architectures":["GPTNeoXForCausalLM"],"model_type":"gpt_neox","hidden_act":"gelu",
    "hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":8,
    "vocab_size":50304,"max_position_embeddings":2048,"layer_norm_eps":1e-5,"rotary_pct":0.25,
    "rotary_emb_base":10000,"use_parallel_residual":true,"tie_word_embeddings":false,
    "bos_token_id":0,"eos_token_id":0})";
}

std::string stablelm2_1_6b() {
  return R"({"architectures":["StableLmForCausalLM"],"model_type":"stablelm","hidden_act":"silu",
    "hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,"num_attention_heads":32,
    "num_key_value_heads":32,"vocab_size":100352,"max_position_embeddings":4096,
    "layer_norm_eps":1e-5,"rope_theta":10000.0,"partial_rotary_factor":0.25,"use_qkv_bias":true,
    "use_parallel_residual":false,"tie_word_embeddings":false,"bos_token_id":100257,
    "eos_token_id":100257})";
}

std::string command_r() {
  return R"({"architectures":["CohereForCausalLM"],"model_type":"cohere","hidden_act":"silu",
    "hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,"num_attention_heads":64,
    "num_key_value_heads":64,"vocab_size":256000,"max_position_embeddings":131072,
    "layer_norm_eps":1e-5,"rope_theta":8000000.0,"logit_scale":0.0625,"use_qk_norm":false,
    "tie_word_embeddings":true,"bos_token_id":5,"eos_token_id":255001})";
}

}  // namespace tenon::decoder_shapes
