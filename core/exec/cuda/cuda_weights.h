// A model's weights in device memory: matrices as products read them, vectors in f32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/cuda/device_memory.h"
#include "core/exec/cuda/kernels/launches.h"
#include "core/model/model.h"

namespace tenon::cuda {

// [n_out, stride]; rows end with zeros where stride is above k_in.
struct DeviceMatrix {
  const void* data = nullptr;
  int n_out = 0;
  int k_in = 0;
  int stride = 0;
};

struct DeviceLayer {
  DeviceMatrix q, k, v, output, gate, up, down;
  // null = absent
  const float *attention_norm, *attention_norm_bias, *attention_post_norm,
      *attention_post_norm_bias;
  const float *mlp_norm, *mlp_norm_bias, *mlp_post_norm, *mlp_post_norm_bias;
  const float *q_norm, *k_norm, *q_norm_bias, *k_norm_bias;
  const float *q_bias, *k_bias, *v_bias, *output_bias, *gate_bias, *up_bias, *down_bias;
  const float* sinks;
};

class DeviceWeights {
 public:
  // Elements of a row of a product's input: whole pieces of 16 bytes.
  static int input_stride(uint32_t width) { return static_cast<int>((width + 7) / 8 * 8); }
  static int weight_stride(uint32_t width) { return static_cast<int>((width + 31) / 32 * 32); }
  // f32 where all matrices are f32, so that nothing is rounded; else bf16.
  static Input type_for(const Model& model);
  // Of all matrices, as they will lie in memory.
  static uint64_t matrix_bytes(const Model& model);

  explicit DeviceWeights(Driver& driver) : memory_(driver) {}
  // Formats that `readable_by_rows` refuses are its error.
  Status load(const Model& model);
  uint64_t bytes() const { return memory_.held_bytes(); }
  Input type() const { return type_; }

  DeviceMatrix embedding, positions, head;
  const float *embedding_norm, *embedding_norm_bias, *final_norm, *final_norm_bias, *head_bias;
  std::vector<DeviceLayer> layers;

 private:
  Status load_layer(const Model& model, size_t index);
  Result<DeviceMatrix> matrix(const Weight& weight);
  Result<const float*> vector(std::span<const float> values);

  DeviceMemory memory_;
  Input type_ = Input::bf16;
};

}  // namespace tenon::cuda
