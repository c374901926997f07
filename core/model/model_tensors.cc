#include "core/model/model_tensors.h"

#include <cstring>

#include "core/base/half.h"
#include "core/model/quant_format.h"
#include "core/model/weight_rows.h"

namespace tenon {
namespace {

class TensorLister {
 public:
  void matrix(const std::string& stem, const Weight& weight, uint32_t rotated_heads = 0) {
    tensors_.push_back({stem + ".weight", &weight, nullptr, rotated_heads});
  }
  void vector(const std::string& name, const std::vector<float>& values,
              uint32_t rotated_heads = 0) {
    if (!values.empty()) tensors_.push_back({name, nullptr, &values, rotated_heads});
  }
  std::vector<ModelTensor> take() { return std::move(tensors_); }

 private:
  std::vector<ModelTensor> tensors_;
};

void list_layer(const LayerWeights& layer, const ModelConfig& config, const std::string& stem,
                TensorLister& list) {
  const std::string attention = stem + "self_attn.", mlp = stem + "mlp.";
  list.vector(stem + "input_layernorm.weight", layer.attention_norm);
  list.matrix(attention + "q_proj", layer.q, config.heads);
  list.vector(attention + "q_proj.bias", layer.q_bias, config.heads);
  list.matrix(attention + "k_proj", layer.k, config.kv_heads);
  list.vector(attention + "k_proj.bias", layer.k_bias, config.kv_heads);
  list.matrix(attention + "v_proj", layer.v);
  list.vector(attention + "v_proj.bias", layer.v_bias);
  list.vector(attention + "q_norm.weight", layer.q_norm);
  list.vector(attention + "k_norm.weight", layer.k_norm);
  list.matrix(attention + "o_proj", layer.output);
  list.vector(attention + "o_proj.bias", layer.output_bias);
  list.vector(stem + "post_attention_layernorm.weight", layer.mlp_norm);
  list.matrix(mlp + "gate_proj", layer.gate);
  list.vector(mlp + "gate_proj.bias", layer.gate_bias);
  list.matrix(mlp + "up_proj", layer.up);
  list.vector(mlp + "up_proj.bias", layer.up_bias);
  list.matrix(mlp + "down_proj", layer.down);
  list.vector(mlp + "down_proj.bias", layer.down_bias);
}

}  // namespace

std::vector<ModelTensor> list_tensors(const Model& model) {
  TensorLister list;
  list.matrix("model.embed_tokens", model.embedding);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    list_layer(model.layers[i], model.config, "model.layers." + std::to_string(i) + ".", list);
  }
  list.vector("model.norm.weight", model.final_norm);
  if (!model.config.tied_embeddings) list.matrix("lm_head", model.head);
  return list.take();
}

bool fits_type(const TensorType& type, uint64_t elements) {
  return elements % type.block_elements == 0;
}

const TensorType& type_of(const Weight& weight) {
  return *find_tensor_type(std::string_view(weight.format));
}

void store_values(const float* values, uint64_t count, const TensorType& type, std::byte* out) {
  if (const QuantFormat* blocks = find_quant_format(type.name)) {
    return quantize_row(*blocks, values, count, out);
  }
  if (type.id == kGgufF32) {
    std::memcpy(out, values, count * sizeof(float));
    return;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const uint16_t bits =
        type.id == kGgufF16 ? f16_from_float(values[i]) : bf16_from_float(values[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

void store_row(const Weight& weight, uint32_t row, const TensorType& type, std::byte* out) {
  const TensorView& part = weight.parts[0];
  if (type_of(weight).id == type.id) {
    const uint64_t bytes = part.shape[1] * dtype_bits(part.dtype) / 8;
    std::memcpy(out,
                static_cast<const std::byte*>(part.data) + weight.view().stored_row(row) * bytes,
                bytes);
    return;
  }
  std::vector<float> values(weight.k_in);
  read_row(weight, row, values.data());
  store_values(values.data(), values.size(), type, out);
}

}  // namespace tenon
