// Heads with random weights for any target, in the published folder forms, embedding and LM head
// being the target's: for tests that ask what drafting changes, not what is drafted.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/models/model_folder.h"
#include "tests/support/temporary_folder.h"

namespace tenon::test {

// What of a target a head depends on.
struct HeadTarget {
  uint32_t hidden = 0, vocabulary = 0, layers = 0, context = 0;
};

class RandomHead {
 public:
  // `kind`: "eagle3", "eagle" (1 and 2), "peagle", "dflash", "dspark" or "medusa".
  RandomHead(const std::string& kind, const HeadTarget& target, uint64_t seed)
      : target_(target), random_(seed) {
    if (kind == "medusa") {
      write_medusa();
    } else if (kind == "eagle") {
      write_eagle();
    } else if (kind == "dflash" || kind == "dspark") {
      write_block(kind == "dspark");
    } else {
      write_eagle3(kind == "peagle");
    }
  }
  const std::string& path() const { return folder_.path(); }

 private:
  static constexpr uint32_t kHeads = 2, kDim = 8, kInner = 12, kMarkovRank = 4;

  void put(const std::string& name, std::vector<uint64_t> shape, float scale, float mean = 0.0f) {
    StoredTensor tensor{DType::f32, std::move(shape), {}};
    uint64_t count = 1;
    for (const uint64_t extent : tensor.shape) count *= extent;
    std::normal_distribution<float> values(mean, scale);
    for (uint64_t i = 0; i < count; ++i) tensor.values.push_back(values(random_));
    tensors_[name] = std::move(tensor);
  }
  void put_norm(const std::string& name, uint64_t size) { put(name, {size}, 0.2f, 1.0f); }

  // Small next to what enters it: what a head drafts stays near to what its target says.
  void put_layer(const std::string& layer, uint64_t reads, bool qk_norm) {
    const uint64_t hidden = target_.hidden, wide = uint64_t{kHeads} * kDim;
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      put(layer + "self_attn." + name + ".weight", {wide, reads}, 0.3f);
    }
    put(layer + "self_attn.o_proj.weight", {hidden, wide}, 0.05f);
    put(layer + "mlp.gate_proj.weight", {kInner, hidden}, 0.2f);
    put(layer + "mlp.up_proj.weight", {kInner, hidden}, 0.2f);
    put(layer + "mlp.down_proj.weight", {hidden, kInner}, 0.05f);
    put_norm(layer + "post_attention_layernorm.weight", hidden);
    if (!qk_norm) return;
    put_norm(layer + "self_attn.q_norm.weight", kDim);
    put_norm(layer + "self_attn.k_norm.weight", kDim);
  }
  // The last of `parts` states goes through as it is, and a little of all of them.
  void put_fc(uint64_t parts) {
    const uint64_t hidden = target_.hidden, width = parts * hidden;
    put("fc.weight", {hidden, width}, 0.02f);
    for (uint64_t i = 0; i < hidden; ++i) {
      tensors_["fc.weight"].values[i * width + width - hidden + i] += 1.0f;
    }
  }
  std::string layer_keys(const std::string& model_type) const {
    const auto number = [](const char* key, uint64_t value) {
      return std::string(", \"") + key + "\": " + std::to_string(value);
    };
    return "\"model_type\": \"" + model_type + "\"" + number("hidden_size", target_.hidden) +
           number("vocab_size", target_.vocabulary) + number("num_hidden_layers", 1) +
           number("num_attention_heads", kHeads) + number("num_key_value_heads", kHeads) +
           number("head_dim", kDim) + number("intermediate_size", kInner) +
           number("max_position_embeddings", target_.context) +
           ", \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\"";
  }
  // Of the first and the last layer; state L is the one after layer L.
  std::string states() const { return "[1, " + std::to_string(target_.layers) + "]"; }
  void write(const std::string& config, const char* file = "model.safetensors") {
    folder_.write_file("config.json", config);
    folder_.write_file(file, safetensors_file(tensors_));
  }

  void write_eagle3(bool parallel) {
    const uint64_t hidden = target_.hidden;
    put_fc(2);
    put_layer("midlayer.", 2 * hidden, false);
    put_norm("midlayer.input_layernorm.weight", hidden);
    put_norm("midlayer.hidden_norm.weight", hidden);
    put_norm("norm.weight", hidden);
    if (parallel) put("mask_hidden", {1, 1, 2 * hidden}, 1.0f);
    write("{\"architectures\": [\"LlamaForCausalLMEagle3\"], \"norm_before_residual\": false, " +
          std::string(parallel ? "\"parallel_drafting\": true, \"ptd_token_id\": 1, " : "") +
          "\"eagle_aux_hidden_state_layer_ids\": " + states() + ", " + layer_keys("llama") + "}");
  }
  void write_eagle() {
    put_fc(2);
    put("fc.bias", {target_.hidden}, 0.02f);
    put_layer("layers.0.", target_.hidden, false);
    write("{\"architectures\": [\"LlamaForCausalLM\"], " + layer_keys("llama") + "}");
  }
  void write_block(bool markov) {
    put_fc(2);
    put_norm("hidden_norm.weight", target_.hidden);
    put_layer("layers.0.", target_.hidden, true);
    put_norm("layers.0.input_layernorm.weight", target_.hidden);
    put_norm("norm.weight", target_.hidden);
    if (markov) {
      put("markov_head.markov_w1.weight", {target_.vocabulary, kMarkovRank}, 1.0f);
      put("markov_head.markov_w2.weight", {target_.vocabulary, kMarkovRank}, 1.0f);
      put("markov_head.gate_proj.weight", {kMarkovRank, target_.hidden + kMarkovRank}, 0.3f);
      put("markov_head.gate_proj.bias", {kMarkovRank}, 0.3f);
    }
    write(std::string("{\"speculators_model_type\": ") +
          (markov ? "\"dspark\", \"markov_rank\": 4, \"markov_head_type\": \"gated\", "
                  : "\"dflash\", ") +
          "\"block_size\": 5, \"mask_token_id\": 1, \"aux_hidden_state_layer_ids\": " + states() +
          ", \"transformer_layer_config\": {" + layer_keys("qwen3") + "}}");
  }
  void write_medusa() {
    for (const char* head : {"0", "1", "2"}) {
      put(std::string(head) + ".0.linear.weight", {target_.hidden, target_.hidden}, 0.05f);
    }
    write(
        "{\"medusa_num_heads\": 3, \"medusa_num_layers\": 1, \"original_lm_head\": true, "
        "\"model_type\": \"medusa\"}",
        "medusa_lm_head.safetensors");
  }

  HeadTarget target_;
  std::mt19937_64 random_;
  std::map<std::string, StoredTensor> tensors_;
  TemporaryFolder folder_;
};

}  // namespace tenon::test
