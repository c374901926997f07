// One worker's part of the decoder.
//
// Rows, heads and columns are shared out between workers; barriers stand where one reads what
// another wrote. A step of one row, the common case of generating text, saves barriers: each
// worker normalises, prepares and rotates the row for itself.
//
// Barriers of a layer, with P phases of attention: 4 + P for one row (behind the products of q, k
// and v, of the output, of gate and up, of down), 9 + P for more (also behind each preparation and
// the rotation). Norms behind products and other activations than gated SiLU have one more each.
// A layer with experts has 3 more for one row and 6 for more: behind the scores, the choice (two)
// and the sum, with one more preparation.
#pragma once

#include <tenon/attention.h>
#include <tenon/linear.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "core/exec/cpu/step.h"
#include "core/model/decoder.h"

namespace tenon {

class CpuWorker final : public DecoderOps {
 public:
  CpuWorker(const CpuStep& step, uint32_t worker)
      : step_(step), slice_{worker, step.pool->size()} {}

  // The worker's own buffers. Errors: out_of_memory.
  Status allocate();
  // Runs the step's batch; entered by all `workers` at once, of which this one is the first or a
  // later one. `linear_calls`: how many products the executor has made since loading.
  void run(uint32_t workers, uint32_t linear_calls);
  uint32_t linear_calls() const { return linear_calls_; }
  // Whether kernels kept to its buffers.
  bool intact() const {
    return own_prepared_.intact() && own_low_prepared_.intact() && own_q_.intact() &&
           own_k_.intact();
  }
  // The first error of a kernel in the last run.
  const Status& status() const { return status_; }

 private:
  void embed() override;
  void attention_norm(uint32_t layer) override;
  void qkv(uint32_t layer) override;
  void qk_norm(uint32_t layer) override;
  void clip(uint32_t layer) override;
  void rotate(uint32_t layer) override;
  void absorb(uint32_t layer) override;
  void attend(uint32_t layer) override;
  void expand(uint32_t layer) override;
  void attention_output(uint32_t layer) override;
  void recur_in(uint32_t layer) override;
  void recur(uint32_t layer) override;
  void recur_out(uint32_t layer) override;
  void mlp_norm(uint32_t layer) override;
  void mlp_in(uint32_t layer) override;
  void mlp_out(uint32_t layer) override;
  void layer_done(uint32_t layer) override;
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
  // What an adapter's B is to add to a product.
  struct Low {
    const PackedPair* pair = nullptr;
    std::span<const uint32_t> rows;
    uint32_t target = 0;  // which of the products made together
    float* u = nullptr;   // [rows_, highest rank]: A · x
    float* y = nullptr;   // [rows_, n_out]
    uint32_t n_out = 0;
  };

  void barrier() { step_.pool->barrier(slice_.index); }
  bool alone() const { return rows_ == 1; }  // every worker does the row for itself
  const ModelPlan& plan() const { return step_.model->plan; }
  const LayerPlan& plan(uint32_t layer) const { return step_.model->plan.layers[layer]; }
  bool is_last(uint32_t layer) const { return layer + 1 == plan().layers.size(); }
  const LayerWeights& vectors(uint32_t layer) const { return step_.model->layers[layer]; }
  bool shares_kv(uint32_t layer) const { return step_.shape->layers[layer].shares_kv_with >= 0; }

  void norm(const NormPlan& norm, std::span<const float> scale, std::span<const float> bias);
  void norm_row(const NormPlan& norm, const float* x, const float* scale, const float* bias,
                uint32_t width, float* out) const;
  void norm_all_heads(uint32_t layer);
  void latent_qkv(uint32_t layer);
  void latent_norms(uint32_t layer);
  void rotate_latent(uint32_t layer);
  float* q() const { return (alone() ? own_q_ : step_.buffers.q).floats(); }
  float* k() const { return (alone() ? own_k_ : step_.buffers.k).floats(); }
  float* low() const { return (alone() ? own_low_ : step_.buffers.low).floats(); }
  float* expanded() const { return (alone() ? own_expanded_ : step_.buffers.expanded).floats(); }
  const float* normed() const { return (alone() ? own_normed_ : step_.buffers.normed).floats(); }
  // What follows a norm, or the stream itself where there is none.
  const float* input(const NormPlan& norm) const {
    return norm ? normed() : step_.buffers.hidden.floats();
  }
  // Adds a product to the stream as the layer wants it; x [rows_, k_in].
  void add_to_stream(uint32_t layer, const float* x, const PackedMatrix& matrix,
                     std::span<const float> bias, const NormPlan& post_norm,
                     std::span<const float> scale, std::span<const float> norm_bias);
  // The end of that: the product is in CpuBuffers::product.
  void add_update(uint32_t layer, const NormPlan& post_norm, std::span<const float> scale,
                  std::span<const float> norm_bias);
  // Prepares x [rows_, k_in] and multiplies it. Ends with a barrier. Of x this worker's share of
  // the rows must be there. One product at most may have an epilogue that its kernel lacks.
  void multiply(const float* x, std::span<const Product> products);
  void multiply_parts(const float* x, uint32_t rows, std::span<Part> parts);
  Part part_of(const PackedMatrix& matrix, std::span<const float> bias, float* y) const;
  void combine(const Product& product);
  // Kernels finish gates by SiLU and by GELU's approximation; others are made of two products.
  static std::optional<Epilogue> gate_epilogue(Activation activation);
  const void* prepare(const PackedMatrix& matrix, const float* x, uint32_t rows);
  // y[row, head] = head's matrix · x[row, head], for every head of the rows. Ends with a barrier.
  // Of x this worker's share of the rows must be there.
  struct HeadRows {
    float* first;
    uint64_t head_stride;  // elements from head to head
    uint64_t row_stride;
  };
  void multiply_heads(const std::vector<PackedMatrix>& heads, const HeadRows& x, const HeadRows& y);
  void run_jobs(LinearKernel& kernel, std::span<const LinearJob> jobs);
  // Low-rank adapters (core/exec/cpu/adapters.cc).
  const AdapterRows& adapter_rows() const {
    return rows_are_kept_ ? step_.kept_adapter_rows : step_.adapter_rows;
  }
  bool is_adapted(const PackedMatrix& matrix) const;
  bool any_adapted(std::span<const Product> products) const;
  void multiply_adapted(const float* x, std::span<const Product> products);
  bool is_fused(const Product& product) const;
  GateFinishCall finish_of(const Product& product) const;
  void add_gate(const Product& product);
  void sort_gate_rows(const Product& product);
  void finish_gate(const Product& product);
  void add_low(const PackedMatrix& matrix, float* y);
  void choose_rows(LinearJob& job, std::span<const uint32_t> rows) const;
  void add_low_products();
  void prepare_low(size_t first);
  void add_low_job(const Low& low, size_t first_row);
  const void* prepare_rows(const PackedMatrix& matrix, const float* u,
                           std::span<const uint32_t> rows, uint32_t target);
  float* beside_of(const Low& low) const;
  void add_beside();
  // Experts (core/exec/cpu/experts.cc).
  void route(uint32_t layer, const float* x);
  void count_used_bytes(uint32_t layer);
  void experts_in(uint32_t layer);
  void add_gated(Part part, const PackedMatrix& up, const float* up_bias, const Epilogue* fused);
  void add_chosen(uint32_t layer, const Epilogue* fused);
  void activate_inner(const ExpertsPlan& experts, uint64_t first, uint64_t count);
  void experts_out(uint32_t layer);
  void combine_experts(uint32_t layer);
  void embed_tokens();
  void finish_embeddings();
  void keep(Status status);
  template <typename Function>
  void for_each_head(uint32_t layer, Function&& function);
  // Behind the last mixer.
  void keep_wanted_rows(uint32_t layer);
  void convolve_and_scan(uint32_t layer);
  void run_states(uint32_t layer, std::initializer_list<const void*> inputs, void* out);
  void gate_output(uint32_t layer);
  void gather(std::span<const uint32_t> wanted, float* values, uint64_t width) const;
  void hand_out(float* to, const float* from, std::span<const uint32_t> rows) const;
  void hand_out_final_rows();

  const CpuStep& step_;
  Slice slice_;                // {this worker, workers of the step}
  uint32_t linear_calls_ = 0;  // since loading; equal in all workers of a step between barriers
  uint32_t rows_ = 0;          // the batch's; behind the last attention only those that are wanted
  HostMemory own_normed_;      // [hidden]
  HostMemory own_q_, own_k_;   // [heads or kv_heads, head_dim]
  HostMemory own_low_, own_expanded_;  // of latent attention
  HostMemory own_prepared_;            // one row of any width
  HostMemory own_low_prepared_;        // … of each product's A · x
  std::vector<float> own_position_;    // [hidden], with learned positions
  std::vector<float> own_choice_;      // [3 · experts], to choose with
  std::vector<Part> parts_;            // of a product with many matrices
  std::vector<LinearJob> jobs_;
  std::vector<LinearJob> head_jobs_;  // room for one a head
  bool rows_are_kept_ = false;        // those of CpuStep::kept
  std::vector<Low> low_;
  uint32_t low_targets_ = 0;
  std::vector<uint32_t> plain_, changed_;  // rows of a gate
  std::vector<uint32_t> chosen_;           // rows of A · x, in the order of their preparation
  std::vector<float> scales_;              // [chosen_]
  Status status_;
};

}  // namespace tenon
