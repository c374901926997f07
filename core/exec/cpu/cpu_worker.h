// One worker's part of the decoder.
//
// Rows, heads and columns are shared out between workers; barriers stand where one reads what
// another wrote. A step of one row, the common case of generating text, saves barriers: each
// worker normalises, prepares and rotates the row for itself.
//
// Barriers of a layer, with P phases of attention: 4 + P for one row (behind the products of q, k
// and v, of the output, of gate and up, of down), 9 + P for more (also behind each preparation and
// the rotation).
#pragma once

#include <tenon/attention.h>
#include <tenon/linear.h>

#include <cstdint>
#include <span>

#include "core/exec/cpu/cpu_step.h"
#include "core/model/decoder.h"

namespace tenon {

class CpuWorker final : public DecoderOps {
 public:
  CpuWorker(const CpuStep& step, uint32_t worker)
      : step_(step), slice_{worker, step.pool->size()} {}

  // The worker's own buffers. Errors: out_of_memory.
  Status allocate();
  // Runs the step's batch; entered by all workers at once.
  void run();
  // Whether kernels kept to its buffers.
  bool intact() const { return own_prepared_.intact() && own_q_.intact() && own_k_.intact(); }
  // The first error of a kernel in the last run.
  const Status& status() const { return status_; }

 private:
  void embed() override;
  void attention_norm(uint32_t layer) override;
  void qkv(uint32_t layer) override;
  void qk_norm(uint32_t layer) override;
  void rotate(uint32_t layer) override;
  void attend(uint32_t layer) override;
  void attention_output(uint32_t layer) override;
  void mlp_norm(uint32_t layer) override;
  void gated_mlp(uint32_t layer) override;
  void logits() override;

  // A matrix and what becomes of its product; x comes from `multiply`'s arguments.
  struct Product {
    const PackedMatrix* matrix = nullptr;
    std::span<const float> bias = {};
    float* y = nullptr;  // [rows_, n_out]
    Epilogue epilogue = Epilogue::store;
    const PackedMatrix* second = nullptr;  // of gated epilogues
    std::span<const float> second_bias = {};
  };
  // A job, before its x is prepared.
  struct Part {
    const PackedMatrix* matrix = nullptr;
    LinearJob job;
  };

  void barrier() { step_.pool->barrier(slice_.index); }
  bool alone() const { return rows_ == 1; }  // every worker does the row for itself
  const ModelConfig& config() const { return step_.model->config; }
  const LayerWeights& vectors(uint32_t layer) const { return step_.model->layers[layer]; }
  bool shares_kv(uint32_t layer) const { return step_.shape->layers[layer].shares_kv_with >= 0; }

  void norm(std::span<const float> scale);
  float* q() const { return (alone() ? own_q_ : step_.buffers.q).floats(); }
  float* k() const { return (alone() ? own_k_ : step_.buffers.k).floats(); }
  const float* normed() const { return (alone() ? own_normed_ : step_.buffers.normed).floats(); }
  // Prepares x [rows_, k_in] and multiplies it. Ends with a barrier. Of x this worker's share of
  // the rows must be there. One product at most may have an epilogue that its kernel lacks.
  void multiply(const float* x, std::span<const Product> products);
  void multiply_parts(const float* x, std::span<Part> parts);
  Part part_of(const PackedMatrix& matrix, std::span<const float> bias, float* y) const;
  void combine(const Product& product);
  const void* prepare(const PackedMatrix& matrix, const float* x);
  void run_jobs(LinearKernel& kernel, std::span<const LinearJob> jobs);
  void embed_tokens();
  void keep(Status status);
  template <typename Function>
  void for_each_head(uint32_t layer, Function&& function);
  void keep_wanted_rows();
  void gather(std::span<const uint32_t> wanted, float* values, uint64_t width) const;
  void hand_out(float* to, const float* from, std::span<const uint32_t> rows) const;
  void hand_out_final_rows();

  const CpuStep& step_;
  const Slice slice_;
  uint32_t linear_calls_ = 0;  // since loading; equal in all workers between barriers
  uint32_t rows_ = 0;          // the batch's; behind the last attention only those that are wanted
  HostMemory own_normed_;      // [hidden]
  HostMemory own_q_, own_k_;   // [heads or kv_heads, head_dim]
  HostMemory own_prepared_;    // one row of any width
  Status status_;
};

}  // namespace tenon
