// A model's matrices in the form that its linear kernels multiply with.
#pragma once

#include <tenon/linear.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"
#include "core/exec/executor.h"
#include "core/exec/host_memory.h"
#include "core/exec/ranks/model_cut.h"
#include "core/model/model.h"

namespace tenon {

struct AdaptedMatrix;

struct PackedMatrix {
  LinearKernel* kernel = nullptr;  // null: the layer has no such matrix
  void* data = nullptr;
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  Preparation preparation;
  bool reads_x = false;                     // as it is: nothing is prepared
  const GateFinish* gate_finish = nullptr;  // of the kernel
  const Weight* source = nullptr;
  const AdaptedMatrix* adapted = nullptr;  // null: no adapter changes it
  // Of several ranks: who has which columns of the n_out that are gathered; null: all are here.
  const ColumnStarts* starts = nullptr;
  uint32_t first = 0, columns = 0;  // that are here
  bool is_part = false;             // of K: the products of all ranks' parts are added up

  // Of x, in whole cache lines.
  uint64_t prepared_bytes(uint32_t rows) const {
    return round_up_to_line(kernel->prepared_bytes(preparation, rows));
  }
  // Whether what was prepared for one serves the other.
  bool prepared_like(const PackedMatrix& other) const {
    return kernel == other.kernel && preparation == other.preparation;
  }
  // Whether the kernel multiplies with both in one job, and finishes their products by `epilogue`.
  bool pairs_with(const PackedMatrix& second, Epilogue epilogue) const {
    return second.prepared_like(*this) && second.source->format == source->format &&
           second.first == first && second.columns == columns &&
           (kernel->epilogues() & epilogue_bit(epilogue)) != 0;
  }
};

// What an adapter adds to a matrix: scale · B · (A · x). No kernel: nothing.
struct PackedPair {
  PackedMatrix a, b;
  float scale = 1.0f;
};
struct AdaptedMatrix {
  std::vector<PackedPair> pairs;  // [adapters]
};

struct PackedExpert {
  PackedMatrix gate, up, down;
  uint64_t stored_bytes = 0;  // of the three, in the checkpoint
};

// A layer's matrices, which are those that the blocks' tables list.
class PackedLayer {
 public:
  // Without a kernel: the layer has no such matrix. Layers have few, so that they are gone through.
  const PackedMatrix& operator[](Weight LayerWeights::*which) const;

  // Of latent attention, as LayerWeights has them.
  std::vector<PackedMatrix> k_absorb, v_expand;  // [heads]
  std::vector<PackedExpert> experts;
  bool experts_alike = false;  // all gates and ups have one kernel, preparation and format

 private:
  friend class PackedWeights;
  std::vector<std::pair<Weight LayerWeights::*, PackedMatrix>> matrices_;
};

class PackedWeights {
 public:
  // Packs every matrix on all workers, straight from the mapped checkpoint into memory that is
  // first touched so, and drops each one's pages of the checkpoint behind it: memory peaks at the
  // packed size. A plain embedding that is not the head stays in the checkpoint, as does the table
  // of per-layer embeddings, which must be readable by rows. What another executor has packed in
  // the same way is used as it is. `front`, if not null, is one more matrix: a head's, before its
  // layers. Of several ranks, `cut` says which this one is, and matrices whose heads were not cut
  // are cut by columns.
  Status load(const Model& model, std::span<const Adapter* const> adapters,
              const LinearResolver& resolve, WorkerPool& pool, const LoadProgress& progress,
              const WeightSharing& sharing = {}, const Weight* front = nullptr,
              const ModelCut& cut = {});

  // Low-rank adapters that come later (later_adapters.cc), each at a place of its own: so many
  // places there are, those of `load` among them.
  void set_places(uint32_t places);
  // Packs an adapter for an empty place. Errors: no kernel takes a matrix of it, or out_of_memory;
  // all is as before then.
  Status put(uint32_t place, const Adapter& adapter, const Model& model,
             const LinearResolver& resolve, WorkerPool& pool);
  void drop(uint32_t place);
  // Of an adapter that was put there: the kernels of its matrices, and its packed size.
  std::vector<LinearKernel*> kernels_at(uint32_t place) const;
  uint64_t bytes_at(uint32_t place) const;

  const PackedLayer& layer(uint32_t index) const { return layers_[index]; }
  const PackedMatrix& head() const { return head_; }
  const PackedMatrix& front() const { return front_; }
  const PackedMatrix& layer_projection() const { return layer_projection_; }
  // Of several ranks: who has which rows of the embedding; null: all are here.
  const ColumnStarts* embedding_starts() const { return embedding_.starts; }
  // Of several streams, for each but the first.
  const std::vector<PackedMatrix>& stream_in() const { return stream_in_; }
  const std::vector<PackedMatrix>& stream_out() const { return stream_out_; }
  // This slice's share of the tokens' rows of the embedding, as f32 [tokens, hidden]. Of several
  // ranks they are this one's.
  Status embed(std::span<const TokenId> tokens, float* out, Slice slice) const;

  uint64_t bytes() const { return memory_ ? memory_->bytes() - guard_bytes_ : 0; }
  // Of them, what another executor had packed.
  uint64_t shared_bytes() const { return shared_ ? bytes() : 0; }
  // What the largest preparation of any matrix takes, or of the matrices of all heads together.
  uint64_t prepared_bytes(uint32_t rows) const;
  // Of adapters: the same of B alone; the highest rank; and, where a kernel lacks Epilogue::add for
  // B, the widest row of their products, else 0.
  uint64_t prepared_low_bytes(uint32_t rows) const;
  uint32_t highest_rank() const { return highest_rank_; }
  uint32_t widest_beside() const { return widest_beside_; }
  // The error of a kernel having written behind `room`, which all of them may write.
  Status wrote_behind(std::string_view room) const;
  // Distinct kernels, in the order of their first use.
  const std::vector<LinearKernel*>& kernels() const { return kernels_; }

 private:
  // `absent`: another rank's; its kernel counts all the same, since all have one numerics id.
  enum class Cut : uint8_t { none, columns, absent };
  Status add(const Weight& weight, const LinearResolver& resolve, PackedMatrix& matrix,
             Cut cut = Cut::none);
  const Weight& cut_columns_of(const Weight& weight, PackedMatrix& matrix);
  Status add_heads(const std::vector<Weight>& heads, const LinearResolver& resolve,
                   std::vector<PackedMatrix>& packed, Cut cut = Cut::none);
  Status add_experts(const std::vector<ExpertWeights>& from, const LinearResolver& resolve,
                     const HeadsCut& cut, bool is_here, PackedLayer& to);
  Status add_layer(const LayerWeights& from, const LinearResolver& resolve, const HeadsCut& cut,
                   bool is_here, PackedLayer& to);
  Status add_all(const Model& model, const LinearResolver& resolve, const ModelCut& cut);
  Status add_adapters(std::span<const Adapter* const> adapters, const LinearResolver& resolve);
  Status add_pair(const AdapterMatrix& from, const LinearResolver& resolve, PackedPair& to);
  void measure(const PackedPair& pair);
  void measure_adapters();
  void connect_adapted(const Model& model);
  std::string name_of_layout(const WeightSharing& sharing) const;
  Status place_and_pack(const Model& model, WorkerPool& pool, const LoadProgress& progress,
                        const WeightSharing& sharing);
  Status pack_all(const Model& model, WorkerPool& pool, const LoadProgress& progress,
                  HostMemory& memory);

  std::vector<PackedLayer> layers_;
  PackedMatrix head_;
  PackedMatrix front_;
  PackedMatrix layer_projection_;
  std::vector<PackedMatrix> stream_in_, stream_out_;
  PackedMatrix embedding_;  // the head when tied; no kernel: read from the source
  const Weight* embedding_source_ = nullptr;
  struct Placement {
    PackedMatrix* matrix;
    uint64_t offset;  // in memory_
    std::string packs_as;
  };
  std::vector<Placement> placements_;  // while loading, in the order of packing
  uint64_t total_bytes_ = 0;
  uint64_t guard_bytes_ = 0;  // of them, behind the matrices
  std::vector<LinearKernel*> kernels_;
  std::vector<std::pair<LinearKernel*, Preparation>> preparations_;  // distinct ones
  std::map<const Weight*, AdaptedMatrix> adapted_;                   // by the model's matrix
  uint32_t places_ = 0;                                              // of adapters
  std::map<uint32_t, HostMemory> later_;  // packed adapters that came after `load`, by their places
  uint32_t highest_rank_ = 0;
  uint32_t widest_beside_ = 0;
  uint32_t rank_ = 0, ranks_ = 1;
  std::map<uint32_t, ColumnStarts> starts_;   // by the number of columns
  std::deque<Weight> slices_;                 // of matrices that are cut
  RowOrders orders_;                          // theirs
  std::shared_ptr<const HostMemory> memory_;  // written while it is packed alone
  bool shared_ = false;                       // somebody else packed it
};

}  // namespace tenon
