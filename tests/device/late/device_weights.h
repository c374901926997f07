// A model in device memory: matrices packed by their kernels, vectors as they are.
#pragma once

#include <tenon/linear.h>

#include <cstdint>
#include <vector>

#include "core/exec/executor.h"
#include "core/model/model.h"
#include "tests/device/late/late_device.h"

namespace tenon::test {

struct DeviceMatrix {
  LinearKernel* kernel = nullptr;  // null: the layer has no such matrix
  void* data = nullptr;
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  Preparation preparation;
  bool reads_x = false;
  std::string_view format;

  bool prepared_like(const DeviceMatrix& other) const {
    return kernel == other.kernel && preparation == other.preparation;
  }
};

// Vectors are null where the model has none.
struct DeviceLayer {
  DeviceMatrix q, k, v, output, gate, up, down;
  const float *attention_norm, *mlp_norm, *q_norm, *k_norm;
  const float *q_bias, *k_bias, *v_bias, *output_bias, *gate_bias, *up_bias, *down_bias;
};

class DeviceWeights {
 public:
  Status load(const Model& model, const ModelShape& shape, const LinearResolver& resolve,
              LateDevice& device);

  std::vector<DeviceLayer> layers;
  DeviceMatrix embedding;
  DeviceMatrix head;
  const float* final_norm = nullptr;
  const float* frequencies = nullptr;  // [head_dim / 2] of the rotary embedding

  uint64_t bytes() const { return bytes_; }
  uint64_t prepared_bytes(uint32_t rows) const;
  std::string numerics() const;

 private:
  Status add(const Weight& weight, DeviceMatrix& to);
  const float* add(const std::vector<float>& values);
  Status add_layer(const LayerWeights& from, bool has_kv, DeviceLayer& to);

  const LinearResolver* resolve_ = nullptr;
  LateDevice* device_ = nullptr;
  uint64_t bytes_ = 0;
  std::vector<DeviceMatrix> matrices_;
};

}  // namespace tenon::test
