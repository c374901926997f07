// The decoder's operations as work on a queue. The host knows the numbers of rows and nothing of
// what arrays hold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/cpu/products/row_ops.h"
#include "core/model/decoder.h"
#include "core/model/model.h"
#include "tests/device/late/device_kernels.h"
#include "tests/device/late/device_weights.h"
#include "tests/device/late/late_device.h"
#include "tests/support/models/flat_config.h"

namespace tenon::test {

// Activations and the step's arrays, all in device memory.
struct DeviceBuffers {
  float *hidden, *normed, *q, *k, *v, *attended, *mixed, *gate, *product, *angles, *wanted, *logits;
  void* prepared;
  uint32_t *tokens, *positions, *logits_rows, *hidden_rows;
  uint64_t bytes = 0;  // of the activations, from `hidden` on
  std::byte* first = nullptr;

  Status allocate(const Model& model, uint64_t prepared_bytes, uint32_t max_rows,
                  LateDevice& device);
};

// What a step wants back, in pinned memory.
struct StepResults {
  float* logits = nullptr;     // [max_rows, vocabulary]
  std::vector<float*> hidden;  // [layer_count + 1][max_rows, hidden]
};

class DeviceDecoder final : public DecoderOps {
 public:
  Status load(const Model& model, const ModelShape& shape, uint32_t max_rows, DeviceQueue queue,
              LateDevice& device, const LinearResolver& linear);

  // Enqueues all of a step; its plans are on their way already.
  Status enqueue(const BatchView& batch, DeviceAttention& attention, DeviceStates& states,
                 const StepResults& results);
  const DeviceBuffers& buffers() const { return to_; }
  const DeviceWeights& weights() const { return weights_; }

 private:
  // A matrix and what becomes of its product; with `second`, p₂ of a gated epilogue.
  struct Product {
    const DeviceMatrix* matrix = nullptr;
    const float* bias = nullptr;
    float* y = nullptr;
    Epilogue epilogue = Epilogue::store;
    const DeviceMatrix* second = nullptr;
    const float* second_bias = nullptr;
  };

  void embed() override;
  void attention_norm(uint32_t layer) override;
  void qkv(uint32_t layer) override;
  void qk_norm(uint32_t layer) override;
  void clip(uint32_t) override {}  // `load` refuses models that need it
  void grow_q(uint32_t layer) override { refuse(layer, "a growing q"); }
  void rotate(uint32_t layer) override;
  void absorb(uint32_t layer) override { refuse(layer, "latent attention"); }
  void choose(uint32_t layer) override { refuse(layer, "an index of positions"); }
  void attend(uint32_t layer) override;
  void expand(uint32_t layer) override { refuse(layer, "latent attention"); }
  void attention_output(uint32_t layer) override;
  // Its recurrences are the toy's, which `attend` runs.
  void recur_in(uint32_t) override {}
  void recur(uint32_t) override {}
  void recur_out(uint32_t) override {}
  void mlp_norm(uint32_t layer) override;
  void mlp_in(uint32_t layer) override;
  void mlp_out(uint32_t layer) override;
  void layer_inputs() override {}
  void open_streams() override {}
  void predict(uint32_t) override {}
  void mask_keys(uint32_t) override {}
  void low_residual(uint32_t) override {}
  void weigh_stream(uint32_t, bool) override {}
  void add_low_residual(uint32_t) override {}
  void correct(uint32_t) override {}
  void close_streams() override {}
  void experts_beside(uint32_t) override {}
  void experts_aside(uint32_t) override {}
  void add_aside(uint32_t) override {}
  void layer_input(uint32_t) override {}
  void enter_block(uint32_t) override {}
  void clear_stream() override {}
  void leave_block(uint32_t) override {}
  void leave_kept(uint32_t) override {}
  void scale_layer(uint32_t) override {}
  void layer_done(uint32_t layer) override { hand_out(layer, to_.hidden); }
  void logits() override;

  const FlatConfig& config() const { return config_; }
  bool shares_kv(uint32_t layer) const { return shape_->layers[layer].shares_kv_with >= 0; }
  void refuse(uint32_t layer, const std::string& has) {
    keep(unsupported("layer " + std::to_string(layer) + " has " + has + ", which is not built"));
  }
  void keep(Status status);
  template <typename Operation>
  void push(const char* what, Operation operation);
  void norm(const float* scale);
  void norm_heads(float* heads, uint32_t count, const float* scale);
  void rotate_heads(float* heads, uint32_t count);
  void multiply(const float* x, uint32_t rows, std::span<const Product> products);
  void run_product(const Product& product, const void* prepared, uint32_t rows);
  void mix_state(uint32_t layer);
  void hand_out(LayerId layer, const float* from);

  const Model* model_ = nullptr;
  FlatConfig config_;  // of the model, whose layers are alike
  const ModelShape* shape_ = nullptr;
  DeviceQueue queue_ = nullptr;  // as kernels are given it
  LateDevice* device_ = nullptr;
  const RowOps* ops_ = nullptr;
  DeviceWeights weights_;
  DeviceBuffers to_;

  // The step's.
  const BatchView* batch_ = nullptr;
  DeviceAttention* attention_ = nullptr;
  DeviceStates* states_ = nullptr;
  const StepResults* results_ = nullptr;
  uint32_t rows_ = 0;
  Status status_;
};

}  // namespace tenon::test
