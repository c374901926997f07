// Tiny models on disk, for tests that need to change one thing about one: a Llama of two layers
// (hidden 8, 2 heads of 4, 1 KV head, MLP 12, vocabulary 16, untied) with distinct values.
//
//   ModelFolder folder;
//   folder.config["rope_theta"] = "500.0";
//   folder.tensors.erase("lm_head.weight");
//   folder.write();
//   open_model(folder.path());
#pragma once

#include <tenon/types.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/base/half.h"
#include "tests/support/temporary_folder.h"

namespace tenon {

struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;
  std::vector<float> values;

  // The values in `dtype`; integer types get zeros.
  std::string bytes() const {
    std::string out(values.size() * dtype_bits(dtype) / 8, '\0');
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::f32) std::memcpy(out.data() + 4 * i, &values[i], 4);
      if (dtype != DType::bf16 && dtype != DType::f16) continue;
      const uint16_t bits =
          dtype == DType::bf16 ? bf16_from_float(values[i]) : f16_from_float(values[i]);
      std::memcpy(out.data() + 2 * i, &bits, 2);
    }
    return out;
  }
  std::string dtype_text() const {
    switch (dtype) {
      case DType::f16:
        return "F16";
      case DType::bf16:
        return "BF16";
      case DType::i8:
        return "I8";
      default:
        return "F32";
    }
  }
};

// A whole .safetensors file around a header and the tensors' bytes.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

inline std::string safetensors_file(const std::map<std::string, StoredTensor>& tensors) {
  std::string header = "{", data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const uint64_t extent : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    }
    const std::string bytes = tensor.bytes();
    header += (header.size() == 1 ? "\"" : ",\"") + name + R"(":{"dtype":")" + tensor.dtype_text() +
              R"(","shape":[)" + shape + R"(],"data_offsets":[)" + std::to_string(data.size()) +
              "," + std::to_string(data.size() + bytes.size()) + "]}";
    data += bytes;
  }
  return safetensors_file(header + "}", data);
}

class ModelFolder {
 public:
  ModelFolder() {
    add("model.embed_tokens.weight", {16, 8});
    add("lm_head.weight", {16, 8});
    add("model.norm.weight", {8});
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      add(layer + "input_layernorm.weight", {8});
      add(layer + "post_attention_layernorm.weight", {8});
      add(layer + "self_attn.q_proj.weight", {8, 8});
      add(layer + "self_attn.k_proj.weight", {4, 8});
      add(layer + "self_attn.v_proj.weight", {4, 8});
      add(layer + "self_attn.o_proj.weight", {8, 8});
      add(layer + "mlp.gate_proj.weight", {12, 8});
      add(layer + "mlp.up_proj.weight", {12, 8});
      add(layer + "mlp.down_proj.weight", {8, 12});
    }
  }

  // Keys of config.json, the values as JSON text. An empty value leaves the key out.
  std::map<std::string, std::string> config = {{"model_type", "\"llama\""},
                                               {"vocab_size", "16"},
                                               {"hidden_size", "8"},
                                               {"intermediate_size", "12"},
                                               {"num_hidden_layers", "2"},
                                               {"num_attention_heads", "2"},
                                               {"num_key_value_heads", "1"},
                                               {"hidden_act", "\"silu\""},
                                               {"rms_norm_eps", "1e-5"},
                                               {"rope_theta", "10000.0"},
                                               {"max_position_embeddings", "64"}};
  std::map<std::string, StoredTensor> tensors;

  const std::string& path() const { return folder_.path(); }
  std::string write_file(const std::string& name, std::string_view content) const {
    return folder_.write_file(name, content);
  }
  std::string config_text() const {
    std::string text = "{";
    for (const auto& [key, value] : config) {
      if (value.empty()) continue;
      text += (text.size() > 1 ? ", \"" : "\"") + key + "\": " + value;
    }
    return text + "}";
  }
  void write() const {
    write_file("config.json", config_text());
    write_file("model.safetensors", safetensors_file(tensors));
  }

 private:
  // Values that no other tensor has, small enough to survive 16 bits roughly.
  void add(const std::string& name, std::vector<uint64_t> shape) {
    StoredTensor tensor{DType::f32, std::move(shape), {}};
    uint64_t count = 1;
    for (const uint64_t extent : tensor.shape) count *= extent;
    for (uint64_t i = 0; i < count; ++i) {
      tensor.values.push_back(static_cast<float>(++written_ % 97) / 64.0f - 0.7f);
    }
    tensors[name] = std::move(tensor);
  }
  TemporaryFolder folder_;
  uint32_t written_ = 0;
};

}  // namespace tenon
