// One worker's products by packed weights, and what is done to them.
#pragma once

#include <tenon/linear.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/cpu/step/step.h"

namespace tenon {

class CpuProducts {
 public:
  // How many products the executor has made since loading.
  uint32_t linear_calls() const { return linear_calls_; }
  // The first error of a kernel in the last run.
  const Status& status() const { return status_; }

 protected:
  CpuProducts(const CpuStep& step, uint32_t worker)
      : step_(step), slice_{worker, step.pool->size()} {}
  ~CpuProducts() = default;

  // A matrix and what becomes of its product; x comes from `multiply`'s arguments.
  struct Product {
    const PackedMatrix* matrix = nullptr;
    std::span<const float> bias = {};
    float* y = nullptr;  // [rows_, n_out]
    Epilogue epilogue = Epilogue::store;
    const PackedMatrix* second = nullptr;  // of gated epilogues
    std::span<const float> second_bias = {};
    uint64_t y_stride = 0;  // 0: n_out

    uint64_t stride() const { return y_stride > 0 ? y_stride : matrix->n_out; }
  };
  // A job, before its x is prepared.
  struct Part {
    const PackedMatrix* matrix = nullptr;
    LinearJob job;
  };

  void barrier() { step_.pool->barrier(slice_.index); }
  bool alone() const { return rows_ == 1; }  // every worker does the row for itself
  void keep(Status status);

  // Room for as many adapters as there are places of them.
  void reserve_adapters();
  // Room for layers with so many heads of latent attention and experts, and for adapters.
  void reserve(size_t heads, size_t experts);
  // Prepares x [rows_, k_in] and multiplies it. Ends with a barrier. Of x this worker's share of
  // the rows must be there. One product at most may have an epilogue that its kernel lacks.
  void multiply(const float* x, std::span<const Product> products);
  // `y_rows`: rows that jobs which choose theirs write together; 0: as many as x has.
  void multiply_parts(const float* x, uint32_t rows, std::span<Part> parts, uint32_t y_rows = 0);
  Part part_of(const PackedMatrix& matrix, std::span<const float> bias, float* y) const;
  // Of several ranks (gather.cc): columns of a buffer that each of them has, and that all shall
  // have.
  struct Gathered {
    const float* from = nullptr;  // this rank's own columns
    uint64_t from_stride = 0;     // elements from row to row
    float* to = nullptr;          // all columns, where `from` may lie as well
    uint64_t to_stride = 0;
    uint32_t rows = 0;
    const ColumnStarts* starts = nullptr;
  };
  // Begins behind a barrier, and ends with one.
  void gather_columns(std::span<const Gathered> parts);
  // Rows of the embedding at the rank that has them → out, at all ranks. Ends with a barrier.
  void gather_embedding(std::span<const TokenId> tokens, float* out);
  // Of experts that are whole at one rank each: what each of `rows` rows' `chosen` experts made,
  // results [rows · chosen, width] at the places of the rank that has the expert → the rank that
  // has the row, which are those of share_of. Begins behind a barrier, and ends with one.
  struct ExpertResults {
    const ExpertChoice& choice;
    const ColumnStarts& owners;  // of experts
    float* results;
    uint64_t width;
    uint32_t rows, chosen;
  };
  void exchange_results(const ExpertResults& of);
  // Rows of values [rows, width] that a rank has, which are those of share_of → all rows. Begins
  // behind a barrier, and ends with one.
  void gather_rows(float* values, uint32_t rows, uint64_t width);
  // values[i] of all ranks, added up in the order of ranks → values[i], at all of them. Begins
  // behind a barrier, and ends with one.
  void sum_over_ranks(float* values, uint64_t count);
  void combine(const Product& product);
  // y[row, head] = head's matrix · x[row, head], for every head of the rows. Ends with a barrier.
  // Of x this worker's share of the rows must be there.
  struct HeadRows {
    float* first;
    uint64_t head_stride;  // elements from head to head
    uint64_t row_stride;
  };
  void multiply_heads(const std::vector<PackedMatrix>& heads, const HeadRows& x, const HeadRows& y);

  const CpuStep& step_;
  Slice slice_;                  // {this worker, workers of the step}
  uint32_t linear_calls_ = 0;    // equal in all workers of a step between barriers
  uint32_t rows_ = 0;            // the batch's; after the last mixer only those that are wanted
  bool rows_are_kept_ = false;   // those of CpuStep::kept
  HostMemory own_prepared_;      // one row of any width
  HostMemory own_low_prepared_;  // … of each product's A · x
  std::vector<Part> parts_;      // of a product with many matrices
  Status status_;

 private:
  // What an adapter's B is to add to a product.
  struct Low {
    const PackedPair* pair = nullptr;
    std::span<const uint32_t> rows;
    uint32_t target = 0;  // which of the products made together
    float* u = nullptr;   // [rows_, highest rank]: A · x
    float* y = nullptr;   // [rows_, n_out], a row every y_stride
    uint64_t y_stride = 0;
    uint32_t n_out = 0;
  };

  const void* prepare(const PackedMatrix& matrix, const float* x, uint32_t rows);
  void gather_products(std::span<const Part> parts, uint32_t rows, uint32_t y_rows);
  void gather_piece(std::span<const Gathered> parts, uint32_t piece, uint32_t pieces);
  void exchange();
  void exchange_piece(const ExpertResults& of, uint32_t piece, uint32_t pieces);
  void check_marks(Status met, std::span<const uint64_t> at);
  void run_jobs(LinearKernel& kernel, std::span<const LinearJob> jobs);
  // Low-rank adapters (adapters.cc).
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
  void add_low(const PackedMatrix& matrix, float* y, uint64_t y_stride);
  void choose_rows(LinearJob& job, std::span<const uint32_t> rows) const;
  void add_low_products();
  void prepare_low(size_t first);
  void add_low_job(const Low& low, size_t first_row);
  const void* prepare_rows(const PackedMatrix& matrix, const float* u,
                           std::span<const uint32_t> rows, uint32_t target);
  float* beside_of(const Low& low) const;
  void add_beside();

  std::vector<LinearJob> jobs_;
  std::vector<Gathered> gathered_;         // of the products at hand
  std::vector<uint64_t> exchanged_bytes_;  // [ranks]
  std::vector<uint64_t> part_starts_;      // [ranks, ranks + 1] of an all-to-all
  std::vector<uint64_t> part_at_;          // [ranks] where the next result of a part goes
  std::vector<LinearJob> head_jobs_;       // room for one a head
  std::vector<Low> low_;
  uint32_t low_targets_ = 0;
  std::vector<uint32_t> plain_, changed_;  // rows of a gate
  std::vector<uint32_t> chosen_;           // rows of A · x, in the order of their preparation
  std::vector<float> scales_;              // [chosen_]
};

}  // namespace tenon
